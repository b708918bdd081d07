package mtasts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Problem is why a domain's policy cannot be had, in the words of reports
// (RFC 8460 4.3.2).
type Problem string

const (
	FetchError Problem = "sts-policy-fetch-error" // no answer of the web server, or not one with a policy
	Invalid    Problem = "sts-policy-invalid"     // the record or the policy is malformed
	WebPKI     Problem = "sts-webpki-invalid"     // the web server's certificate is not valid
)

// An Error is why a domain's policy cannot be had, with details for people.
type Error struct {
	Problem Problem
	text    string
}

func (e *Error) Error() string { return e.text }

func failed(p Problem, format string, args ...any) *Error {
	return &Error{p, mail.CleanText(fmt.Sprintf(format, args...))}
}

const (
	// hostPrefix, followed by the domain, is the name of the web server (RFC 8461 3.3).
	hostPrefix = "mta-sts."
	path       = "/.well-known/mta-sts.txt"
	httpsPort  = 443
	// addressesMax is the maximum number of addresses that are tried, and headersMax
	// the maximum number of octets of the header of a response.
	addressesMax = 4
	headersMax   = 16 << 10
)

// A fetcher gets policies from web servers.
type fetcher struct {
	cfg Config
}

// fetch returns the policy of a domain as it is published now, without its ID.
func (f *fetcher) fetch(ctx context.Context, domain string) (Policy, *Error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	body, wrong := f.get(ctx, domain)
	if wrong != nil {
		return Policy{}, wrong
	}
	p, err := ParsePolicy(body)
	if err != nil {
		return Policy{}, failed(Invalid, "policy of %s: %v", domain, err)
	}
	return p, nil
}

// get makes the one request.
func (f *fetcher) get(ctx context.Context, domain string) ([]byte, *Error) {
	host := hostPrefix + domain
	addrs, err := f.addresses(ctx, host)
	if err != nil {
		return nil, failed(FetchError, "policy of %s: %v", domain, err)
	}
	transport := &http.Transport{ // Proxy is nil: none, whatever the environment says
		// The context that it would pass has no deadline.
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return f.dial(ctx, addrs) },
		TLSClientConfig:        &tls.Config{RootCAs: f.cfg.Roots, ServerName: host, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: headersMax,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+path, nil)
	if err != nil {
		return nil, failed(FetchError, "policy of %s: %v", domain, err)
	}
	request.Header.Set("User-Agent", "Posthaste")
	request.Header.Set("Accept", "text/plain")
	request.Header.Set("Cache-Control", "no-cache")
	response, err := client.Do(request)
	if err != nil {
		return nil, failed(problemOf(err), "policy of %s: %v", domain, err)
	}
	defer response.Body.Close()
	return read(domain, response)
}

// problemOf distinguishes certificates from the rest.
func problemOf(err error) Problem {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return WebPKI
	}
	return FetchError
}

// read returns the body of a response that has a policy (RFC 8461 3.3).
func read(domain string, r *http.Response) ([]byte, *Error) {
	if r.StatusCode != http.StatusOK {
		return nil, failed(FetchError, "policy of %s: the web server returned %s", domain, r.Status)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "text/plain" {
		return nil, failed(FetchError, "policy of %s: the type is %.60q, not text/plain", domain, r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, SizeMax+1))
	switch {
	case err != nil:
		return nil, failed(FetchError, "policy of %s: %v", domain, err)
	case len(body) > SizeMax:
		return nil, failed(Invalid, "policy of %s: it has more than %d octets", domain, SizeMax)
	}
	return body, nil
}

// addresses returns the web server's addresses to which connections are permitted.
func (f *fetcher) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := f.cfg.Resolver.Addrs(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	var permitted []netip.Addr
	for _, a := range found {
		if f.cfg.Permit(a) {
			permitted = append(permitted, a)
		}
	}
	if len(permitted) == 0 {
		return nil, fmt.Errorf("%s has the address %v, to which no connections are made for others", host, found[0])
	}
	return permitted[:min(len(permitted), addressesMax)], nil
}

// dial connects to the first address that answers. Each has an equal part of the time
// that is left.
func (f *fetcher) dial(ctx context.Context, addrs []netip.Addr) (net.Conn, error) {
	var why []string
	for i, a := range addrs {
		conn, err := f.dialOne(ctx, netip.AddrPortFrom(a, httpsPort), len(addrs)-i+1)
		if err == nil {
			return conn, nil
		}
		why = append(why, err.Error())
	}
	return nil, errors.New(strings.Join(why, "; "))
}

func (f *fetcher) dialOne(ctx context.Context, to netip.AddrPort, parts int) (net.Conn, error) {
	if end, limited := ctx.Deadline(); limited {
		limit, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(parts))
		defer cancel()
		ctx = limit
	}
	return f.cfg.Dial(ctx, "tcp", to.String())
}
