package courier

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

const (
	// addressesMax is the maximum number of addresses that are tried, and headersMax
	// the maximum number of octets of the header of a response.
	addressesMax = 4
	headersMax   = 16 << 10
)

// post sends a report by HTTPS (RFC 8460 5.4).
func (c *Courier) post(ctx context.Context, u *url.URL, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	addrs, err := c.addresses(ctx, u)
	if err != nil {
		return err
	}
	transport := &http.Transport{ // Proxy is nil: none, whatever the environment says
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, addrs) },
		TLSClientConfig:        &tls.Config{RootCAs: c.cfg.Roots, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: headersMax,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%w: %w", errNever, err)
	}
	request.Header.Set("Content-Type", "application/tlsrpt+gzip")
	request.Header.Set("User-Agent", "Posthaste")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close() // nothing in it counts
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the web server returned %s", strconv.Itoa(response.StatusCode))
	}
	return nil
}

// addresses returns the web server's addresses to which connections are permitted.
func (c *Courier) addresses(ctx context.Context, u *url.URL) ([]netip.AddrPort, error) {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("%w: %q is no port", errNever, u.Port())
	}
	found, err := c.lookUp(ctx, u.Hostname())
	if err != nil {
		return nil, err
	}
	var permitted []netip.AddrPort
	for _, a := range found {
		if c.cfg.Permit(a) {
			permitted = append(permitted, netip.AddrPortFrom(a, uint16(port)))
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("%s has no address", u.Hostname())
	case len(permitted) == 0:
		return nil, fmt.Errorf("%s has the address %v, to which no connections are made for others", u.Hostname(), found[0])
	}
	return permitted[:min(len(permitted), addressesMax)], nil
}

func (c *Courier) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.WithZone("")}, nil
	}
	return c.cfg.Resolver.Addrs(ctx, host)
}

// dial connects to the first address that answers.
func (c *Courier) dial(ctx context.Context, addrs []netip.AddrPort) (net.Conn, error) {
	var why []error
	for i, a := range addrs {
		conn, err := c.dialOne(ctx, a, len(addrs)-i+1)
		if err == nil {
			return conn, nil
		}
		why = append(why, err)
	}
	return nil, errors.Join(why...)
}

// dialOne gives an address an equal part of the time that is left.
func (c *Courier) dialOne(ctx context.Context, to netip.AddrPort, parts int) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, c.cfg.Timeout/time.Duration(parts))
	defer cancel()
	return c.cfg.Dial(limited, "tcp", to.String())
}
