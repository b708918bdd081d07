package mtasts

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// silentLog takes what the web server has to say about broken connections.
func silentLog() *log.Logger { return log.New(io.Discard, "", 0) }

// A policy is found through a real name server and a real web server, and is then in
// memory. What was asked for, and how, is what RFC 8461 3.3 says.
func TestDiscovery(t *testing.T) {
	ca := newAuthority(t)
	var asked []string
	w := newWeb(t, ca.server(t, nil, "mta-sts.example.com"), func(rw http.ResponseWriter, r *http.Request) {
		asked = append(asked, fmt.Sprint(r.Method, " https://", r.Host, r.URL.Path, " ", r.TLS.ServerName, " ", r.Proto))
		publish(goodPolicy)(rw, r)
	})
	s := w.store(nameServer(t, zone), ca.roots(), nil)
	for range 2 {
		p, ok, _ := s.Lookup(t.Context(), "Example.COM.")
		if !ok || p.ID != "1" || show(p) != "enforce [mx.example.com] 24h0m0s" {
			t.Fatalf("%v %+v", ok, p)
		}
	}
	if want := []string{"GET https://mta-sts.example.com/.well-known/mta-sts.txt mta-sts.example.com HTTP/1.1"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	if want := []string{"198.51.100.1:443"}; !slices.Equal(w.dialed, want) {
		t.Errorf("dialed %q", w.dialed)
	}
	for _, domain := range []string{"sub.example.com", "other.example", "com", "", "198.51.100.1", "[198.51.100.1]", "2001:db8::1", "*.example.com", strings.Repeat("a.", 130) + "a"} {
		if p, ok, _ := s.Lookup(t.Context(), domain); ok {
			t.Errorf("%s has the policy %+v", domain, p)
		}
	}
	if w.requests != 1 {
		t.Errorf("%d requests", w.requests)
	}
}

// What is not a policy, however it is sent (row B-138). None of it may be taken for
// one, follow where it points, or take more than its part of time and memory.
func TestHostileWebServers(t *testing.T) {
	ca := newAuthority(t)
	good := ca.server(t, nil, "mta-sts.example.com")
	typed := func(kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{kind}
			w.Write([]byte(goodPolicy))
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(code)
			w.Write([]byte(goodPolicy))
		}
	}
	redirect := func(code int, to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "elsewhere") {
				publish(goodPolicy)(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Location", to)
			w.WriteHeader(code)
			w.Write([]byte(goodPolicy))
		}
	}
	for _, c := range []struct {
		name    string
		cert    tls.Certificate
		handler http.HandlerFunc
		want    Problem
		text    string // a part of the error
	}{
		{"good", good, publish(goodPolicy), "", ""},
		{"good, other spelling of the type", good, typed("TEXT/Plain;charset=us-ascii"), "", ""},
		{"redirect", good, redirect(301, "https://mta-sts.example.com/elsewhere"), FetchError, "301"},
		{"redirect, relative", good, redirect(302, "/elsewhere"), FetchError, "302"},
		{"redirect that keeps the method", good, redirect(307, "/elsewhere"), FetchError, "307"},
		{"redirect to another machine", good, redirect(301, "http://169.254.169.254/latest"), FetchError, "301"},
		{"not found", good, status(404), FetchError, "404"},
		{"server error", good, status(500), FetchError, "500"},
		{"another success", good, status(203), FetchError, "203"},
		{"no content", good, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, FetchError, "204"},
		{"not modified", good, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, FetchError, "304"},
		{"HTML", good, typed("text/html"), FetchError, "text/html"},
		{"no type", good, typed(""), FetchError, "type"},
		{"an invalid type", good, typed("text/plain; ="), FetchError, "type"},
		{"10 MB", good, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			for range 10 << 10 {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}, Invalid, "octets"},
		{"64 KiB and one", good, publish(goodPolicy + "x: " + strings.Repeat("y", SizeMax-len(goodPolicy)-2)), Invalid, "octets"},
		{"64 KiB", good, publish(goodPolicy + "x: " + strings.Repeat("y", SizeMax-len(goodPolicy)-3)), "", ""},
		{"compressed", good, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write([]byte(goodPolicy))
			z.Close()
		}, Invalid, "field"},
		{"large header", good, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*headersMax))
			publish(goodPolicy)(w, r)
		}, FetchError, "header"},
		{"shorter than announced", good, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			publish(goodPolicy)(w, r)
		}, FetchError, "EOF"},
		{"broken off", good, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, FetchError, "EOF"},
		{"a star alone", good, publish("version: STSv1\nmode: enforce\nmx: *\nmax_age: 1\n"), Invalid, "mx"},
		{"empty", good, publish(""), Invalid, "version"},
		{"control characters", good, publish("\x1b[31m\n"), Invalid, "field"},

		{"wrong name", ca.server(t, nil, "example.com", "www.example.com"), publish(goodPolicy), WebPKI, "mta-sts.example.com"},
		{"wildcard", ca.server(t, nil, "*.example.com"), publish(goodPolicy), "", ""},
		{"name of the domain only in the subject", ca.server(t, func(c *x509.Certificate) { c.Subject.CommonName = "mta-sts.example.com" }), publish(goodPolicy), WebPKI, "Common Name"},
		{"expired", ca.server(t, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}, "mta-sts.example.com"), publish(goodPolicy), WebPKI, "expired"},
		{"unknown authority", newAuthority(t).server(t, nil, "mta-sts.example.com"), publish(goodPolicy), WebPKI, "authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWeb(t, c.cert, c.handler)
			f := &fetcher{Config{Resolver: public, Roots: ca.roots(), Dial: w.dial}.WithDefaults()}
			p, wrong := f.fetch(t.Context(), "example.com")
			switch {
			case c.want == "" && (wrong != nil || show(p) != "enforce [mx.example.com] 24h0m0s"):
				t.Errorf("%s, %v", show(p), wrong)
			case c.want != "" && (wrong == nil || wrong.Problem != c.want || !strings.Contains(wrong.Error(), c.text)):
				t.Errorf("%s, %v", show(p), wrong)
			case wrong != nil && strings.ContainsAny(wrong.Error(), "\x1b\r"):
				t.Errorf("%q", wrong.Error())
			case w.requests > 1 || len(w.dialed) != 1:
				t.Errorf("%d requests on connections to %q", w.requests, w.dialed)
			}
		})
	}
}

// Connections are made only to addresses that the resolver found and that are permitted, to
// a few of them, and never through a proxy.
func TestAddresses(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	ca := newAuthority(t)
	cert := ca.server(t, nil, "mta-sts.example.com")
	addrs := func(list ...string) fixed {
		f := fixed{id: "1"}
		for _, a := range list {
			f.addrs = append(f.addrs, netip.MustParseAddr(a))
		}
		return f
	}
	for _, c := range []struct {
		name     string
		resolver Resolver
		permit   func(netip.Addr) bool
		dead     int // connections that fail before one succeeds
		dialed   string
		problem  string
	}{
		{"public", addrs("198.51.100.1"), nil, 0, "[198.51.100.1:443]", ""},
		{"IPv6", addrs("2001:db8::1"), nil, 0, "[[2001:db8::1]:443]", ""},
		{"loopback", addrs("127.0.0.1"), nil, 0, "[]", "no connections are made"},
		{"metadata", addrs("169.254.169.254"), nil, 0, "[]", "no connections are made"},
		{"private", addrs("10.0.0.1", "fd00::1", "::ffff:192.168.0.1"), nil, 0, "[]", "no connections are made"},
		{"private, permitted", addrs("10.0.0.1"), netip.Addr.IsPrivate, 0, "[10.0.0.1:443]", ""},
		{"some private", addrs("10.0.0.1", "198.51.100.1"), nil, 0, "[198.51.100.1:443]", ""},
		{"none", addrs(), nil, 0, "[]", "has no address"},
		{"failure", failing{}, nil, 0, "[]", "SERVFAIL"},
		{"the second answers", addrs("198.51.100.1", "198.51.100.2"), nil, 1, "[198.51.100.1:443 198.51.100.2:443]", ""},
		{"none answers", addrs("198.51.100.1", "198.51.100.2"), nil, 9, "[198.51.100.1:443 198.51.100.2:443]", "refused; refused"},
		{"many", addrs("198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4", "198.51.100.5"), nil, 9,
			"[198.51.100.1:443 198.51.100.2:443 198.51.100.3:443 198.51.100.4:443]", "refused"},
	} {
		w := newWeb(t, cert, publish(goodPolicy))
		dead := c.dead
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := w.dial(ctx, network, address)
			if dead--; dead >= 0 && err == nil {
				conn.Close()
				return nil, errors.New("refused")
			}
			return conn, err
		}
		f := &fetcher{Config{Resolver: c.resolver, Roots: ca.roots(), Dial: dial, Permit: c.permit}.WithDefaults()}
		_, wrong := f.fetch(t.Context(), "example.com")
		if got := fmt.Sprint(w.dialed); got != c.dialed {
			t.Errorf("%s: dialed %s", c.name, got)
		}
		if c.problem == "" && wrong != nil || c.problem != "" && (wrong == nil || wrong.Problem != FetchError || !strings.Contains(wrong.Error(), c.problem)) {
			t.Errorf("%s: %v", c.name, wrong)
		}
	}
}

// failing is a Resolver without a name server.
type failing struct{}

var errServfail = errors.New("SERVFAIL")

func (failing) TXT(context.Context, string) ([]string, error)       { return nil, errServfail }
func (failing) Addrs(context.Context, string) ([]netip.Addr, error) { return nil, errServfail }

// A web server that does nothing, or sends an octet every few seconds, has a minute in all,
// be it before, during or after the handshake (row B-138).
func TestSlowWebServers(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.server(t, nil, "mta-sts.example.com")
	// Writes to a pipe wait for the reader, and TLS writes when it closes.
	secure := func(conn net.Conn) net.Conn {
		tc := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
		if n, _ := tc.Read(make([]byte, 1)); n == 1 { // the request
			go io.Copy(io.Discard, tc)
		}
		return tc
	}
	slowly := func(conn net.Conn, text string) {
		for i := range len(text) {
			if _, err := conn.Write([]byte{text[i]}); err != nil {
				return
			}
			time.Sleep(3 * time.Second)
		}
	}
	for _, c := range []struct {
		name  string
		serve func(conn net.Conn) // nil: no connection is made
	}{
		{"no connection", nil},
		{"no handshake", func(conn net.Conn) { io.Copy(io.Discard, conn) }},
		{"no response", func(conn net.Conn) {
			io.Copy(io.Discard, tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}}))
		}},
		{"a slow header", func(conn net.Conn) {
			slowly(secure(conn), "HTTP/1.1 200 OK\r\n"+strings.Repeat("x: y\r\n", 100))
		}},
		{"a slow body", func(conn net.Conn) {
			tc := secure(conn)
			tc.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n"))
			slowly(tc, goodPolicy+strings.Repeat("x: y\r\n", 1000))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var servers sync.WaitGroup
				defer servers.Wait()
				dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
					if c.serve == nil {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					here, there := net.Pipe()
					servers.Go(func() {
						defer there.Close()
						c.serve(there)
					})
					return here, nil
				}
				cfg := Config{Resolver: public, Roots: ca.roots(), Dial: dial}.WithDefaults()
				start := time.Now()
				_, wrong := (&fetcher{cfg}).fetch(t.Context(), "example.com")
				if took := time.Since(start); took < 30*time.Second || took > time.Minute || wrong == nil || wrong.Problem != FetchError {
					t.Errorf("after %v: %v", took, wrong)
				}
			})
		})
	}
}

// An address that swallows packets does not take the time of the next one.
func TestSilentAddress(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.server(t, nil, "mta-sts.example.com")
	synctest.Test(t, func(t *testing.T) {
		var servers sync.WaitGroup
		defer servers.Wait()
		dial := func(ctx context.Context, _, address string) (net.Conn, error) {
			if address == "198.51.100.1:443" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			here, there := net.Pipe()
			servers.Go(func() {
				tc := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{cert}})
				defer tc.Close()
				if n, _ := tc.Read(make([]byte, 4096)); n > 0 {
					fmt.Fprintf(tc, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(goodPolicy), goodPolicy)
				}
				io.Copy(io.Discard, tc)
			})
			return here, nil
		}
		two := fixed{"1", []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")}}
		f := &fetcher{Config{Resolver: two, Roots: ca.roots(), Dial: dial}.WithDefaults()}
		start := time.Now()
		p, wrong := f.fetch(t.Context(), "example.com")
		if wrong != nil || p.Mode != Enforce || time.Since(start) != 20*time.Second {
			t.Errorf("%s, %v after %v", show(p), wrong, time.Since(start))
		}
	})
}
