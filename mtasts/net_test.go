package mtasts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/resolve"
)

// An authority certifies web servers.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key = certify(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, Subject: pkix.Name{CommonName: "test"}}, nil)
	return a
}

func (a *authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// server returns a certificate for names.
func (a *authority) server(t testing.TB, change func(*x509.Certificate), names ...string) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{DNSNames: names}
	if change != nil {
		change(c)
	}
	cert, key := certify(t, c, a)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// certify signs a certificate; with a nil authority by itself.
func certify(t testing.TB, c *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotBefore = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // also in a bubble, whose time begins in 2000
		c.NotAfter = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// A web is a web server on loopback, at the other end of all connections that are made to
// port 443 of any address.
type web struct {
	t        testing.TB
	listener net.Listener

	mu       sync.Mutex
	handler  http.HandlerFunc
	dialed   []string
	requests int
}

// newWeb starts a web server with a certificate. A nil handler publishes a good policy.
func newWeb(t testing.TB, cert tls.Certificate, h http.HandlerFunc) *web {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &web{t: t, listener: l, handler: h}
	server := &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			w.requests++
			h := w.handler
			w.mu.Unlock()
			h(rw, r)
		}),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		ErrorLog:  silentLog(),
	}
	go server.ServeTLS(l, "", "")
	t.Cleanup(func() { server.Close() })
	return w
}

// dial is a Config.Dial.
func (w *web) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, w.listener.Addr().String())
}

const goodPolicy = "version: STSv1\r\nmode: enforce\r\nmx: mx.example.com\r\nmax_age: 86400\r\n"

// publish answers with a policy.
func publish(policy string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte(policy))
	}
}

// nameServer runs a name server on loopback with a zone, and returns a resolver that
// asks it.
func nameServer(t testing.TB, zone string) *resolve.Resolver {
	t.Helper()
	rrs := make(map[string][]dns.RR)
	for line := range strings.Lines(zone) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		rrs[rr.Header().Name] = append(rrs[rr.Header().Name], rr)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	server := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		found, exists := rrs[q.Question[0].Name]
		if !exists {
			m.Rcode = dns.RcodeNameError
		}
		for _, rr := range found {
			if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		w.WriteMsg(m)
	})}
	go server.ActivateAndServe()
	<-started
	t.Cleanup(func() { server.Shutdown() })
	none := filepath.Join(t.TempDir(), "none")
	r, err := resolve.New(resolve.Config{Servers: []string{pc.LocalAddr().String()}, ResolvConf: none, HostsFile: none})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

const zone = `
_mta-sts.example.com. 300 IN TXT "v=STSv1; " "id=1;"
mta-sts.example.com.  300 IN A 198.51.100.1
`

// store returns a store in this world.
func (w *web) store(r Resolver, roots *x509.CertPool, change func(*Config)) *Store {
	w.t.Helper()
	c := Config{Resolver: r, Roots: roots, Dial: w.dial}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// fixed is a Resolver with a record and addresses for every name.
type fixed struct {
	id    string
	addrs []netip.Addr
}

func (f fixed) TXT(context.Context, string) ([]string, error) {
	return []string{"v=STSv1; id=" + f.id}, nil
}

func (f fixed) Addrs(context.Context, string) ([]netip.Addr, error) { return f.addrs, nil }

var public = fixed{"1", []netip.Addr{netip.MustParseAddr("198.51.100.1")}}
