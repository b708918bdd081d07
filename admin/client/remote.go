package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// dialTimeout is the time for connecting to a server over the network, and again for TLS.
const dialTimeout = 10 * time.Second

// NewRemote returns a client for the server at a URL, http://HOST:PORT or
// https://HOST:PORT, which sends a bearer token with each request (RFC 6750). The
// certificate of an https server is verified against the system's roots. The token is
// not sent in plaintext over a network: http is refused unless the host is localhost or
// a loopback address. NewRemote does not connect.
func NewRemote(address, token string) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("want http://HOST:PORT or https://HOST:PORT")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("want no path after the host")
	case u.User != nil:
		return nil, errors.New("want no user name: clients are known by their tokens")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("http would send the token to %s in plaintext: use https", u.Host)
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	// A redirect would be followed without the token at best.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{server: u.Scheme + "://" + u.Host, scheme: u.Scheme, host: u.Host, token: token,
		http: http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// isLoopback reports whether a host is this machine by its name or address.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
