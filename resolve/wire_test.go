package resolve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/route"
)

// serve runs a name server on a loopback port, by UDP and, if tcp, by TCP. The
// exchange itself is about sockets, so these are real ones.
func serve(t *testing.T, tcp bool, h dns.HandlerFunc) netip.AddrPort {
	t.Helper()
	for range 20 { // the port that UDP got may be taken for TCP
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		servers := []*dns.Server{{PacketConn: pc, Handler: h}}
		if tcp {
			l, err := net.Listen("tcp", pc.LocalAddr().String())
			if err != nil {
				pc.Close()
				continue
			}
			servers = append(servers, &dns.Server{Listener: l, Handler: h})
		}
		for _, s := range servers {
			started := make(chan struct{})
			s.NotifyStartedFunc = func() { close(started) }
			go s.ActivateAndServe()
			<-started
			t.Cleanup(func() { s.Shutdown() })
		}
		return netip.MustParseAddrPort(pc.LocalAddr().String())
	}
	t.Fatal("no port is free for UDP and TCP")
	return netip.AddrPort{}
}

func mxQuery() *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion("Example.com.", dns.TypeMX)
	m.SetEdns0(ednsSize, false)
	return m
}

func records(t *testing.T, n int) []dns.RR {
	var rrs []dns.RR
	for i := range n {
		rr, err := dns.NewRR("example.com. 300 IN MX 10 a-rather-long-name-of-a-host-" + strings.Repeat("x", i%30) + ".example.com.")
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	return rrs
}

// An answer that does not fit a datagram comes whole by TCP, through real
// sockets and a real server (row B-151).
func TestExchangeTruncated(t *testing.T) {
	rrs := records(t, 100)
	server := serve(t, true, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.Answer = rrs
		if w.LocalAddr().Network() == "udp" {
			size := dns.MinMsgSize
			if o := q.IsEdns0(); o != nil {
				size = int(o.UDPSize())
			}
			m.Truncate(size)
		}
		w.WriteMsg(m)
	})
	m, err := exchange(t.Context(), "udp", server, mxQuery())
	if err != nil || !m.Truncated || len(m.Answer) == 0 || len(m.Answer) >= len(rrs) {
		t.Fatalf("by UDP: %v, %v", m, err)
	}
	m, err = exchange(t.Context(), "tcp", server, mxQuery())
	if err != nil || m.Truncated || len(m.Answer) != len(rrs) {
		t.Fatalf("by TCP: %v, %v", m, err)
	}
	r, err := New(Config{Servers: []string{server.String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, _ := r.lookup(t.Context(), question{"example.com", dns.TypeMX})
	if s := r.Stats(); rec.answer != route.Found || len(rec.mx) != recordsMax || s.TCP != 1 {
		t.Errorf("%v, %d records, %+v", rec.answer, len(rec.mx), s)
	}
}

// Datagrams that do not match the query are ignored and do not keep the answer from
// being received: they may come from an attacker that guesses (RFC 5452).
func TestExchangeForged(t *testing.T) {
	server := serve(t, false, func(w dns.ResponseWriter, q *dns.Msg) {
		forge := func(change func(m *dns.Msg)) {
			m := new(dns.Msg)
			m.SetReply(q)
			m.Rcode = dns.RcodeNameError
			change(m)
			w.WriteMsg(m)
		}
		forge(func(m *dns.Msg) { m.Id++ })
		forge(func(m *dns.Msg) { m.Question[0].Name = "example.net." })
		m := q.Copy() // not an answer
		w.WriteMsg(m)
		w.Write([]byte("\x00\x00garbage"))
		w.Write(nil)
		forge(func(m *dns.Msg) { m.Rcode = dns.RcodeSuccess })
	})
	m, err := exchange(t.Context(), "udp", server, mxQuery())
	if err != nil || m.Rcode != dns.RcodeSuccess {
		t.Errorf("%v, %v", m, err)
	}
}

// A flood of them ends the query.
func TestExchangeFlood(t *testing.T) {
	server := serve(t, false, func(w dns.ResponseWriter, q *dns.Msg) {
		for range 2 * junkMax {
			m := new(dns.Msg)
			m.SetReply(q)
			m.Id++
			w.WriteMsg(m)
		}
	})
	if m, err := exchange(t.Context(), "udp", server, mxQuery()); !errors.Is(err, errJunk) {
		t.Errorf("%v, %v", m, err)
	}
}

// A silent server is given up when the context ends, also when it ends early.
func TestExchangeContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	server := serve(t, true, func(dns.ResponseWriter, *dns.Msg) { asked <- struct{}{} })
	for _, network := range []string{"udp", "tcp"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		if m, err := exchange(ctx, network, server, mxQuery()); err == nil { // otherwise it never ends
			t.Errorf("%s: %v, %v", network, m, err)
		}
	}
}

// With no listener the error comes at once, not after the timeout.
func TestExchangeRefused(t *testing.T) {
	server := serve(t, false, func(w dns.ResponseWriter, q *dns.Msg) {})
	if m, err := exchange(t.Context(), "tcp", server, mxQuery()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, %v", m, err)
	}
}

// A TCP connection has only one sender, so the first message is final, and a server
// that closes the connection has sent none.
func TestExchangeTCP(t *testing.T) {
	server := serve(t, true, func(w dns.ResponseWriter, q *dns.Msg) {
		if q.Question[0].Qtype == dns.TypeA {
			w.Close()
			return
		}
		m := new(dns.Msg)
		m.SetReply(q)
		m.Id++
		w.WriteMsg(m)
	})
	if m, err := exchange(t.Context(), "tcp", server, mxQuery()); err != nil || fits(mxQuery(), m) {
		t.Errorf("a wrong answer: %v, %v", m, err)
	}
	q := new(dns.Msg)
	q.SetQuestion("example.com.", dns.TypeA)
	if m, err := exchange(t.Context(), "tcp", server, q); !errors.Is(err, io.EOF) {
		t.Errorf("hung up: %v, %v", m, err)
	}
}

// IDs and ports cannot be guessed from those before (RFC 5452 9.2).
func TestExchangeRandom(t *testing.T) {
	var mu sync.Mutex
	ports, ids := map[int]bool{}, map[uint16]bool{}
	server := serve(t, false, func(w dns.ResponseWriter, q *dns.Msg) {
		mu.Lock()
		defer mu.Unlock()
		ports[w.RemoteAddr().(*net.UDPAddr).Port] = true
		ids[q.Id] = true
		m := new(dns.Msg)
		m.SetRcode(q, dns.RcodeNameError)
		w.WriteMsg(m)
	})
	r, err := New(Config{Servers: []string{server.String()}, Concurrency: 1, Policy: route.Policy{Families: route.FamiliesIPv4}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range 20 {
		r.Hosts(t.Context(), "d"+strings.Repeat("x", i)+".example")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) < 15 || len(ports) < 10 {
		t.Errorf("%d IDs, %d ports in 20 queries", len(ids), len(ports))
	}
}

// Whatever a server sends, a lookup ends with an answer, keeps no more records than
// the limit, and asks no more questions than the links it follows.
func FuzzAnswer(f *testing.F) {
	seed := func(change func(m *dns.Msg)) {
		m := mxQuery()
		m.Response = true
		change(m)
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	rr := func(s string) dns.RR {
		rr, err := dns.NewRR(s)
		if err != nil {
			f.Fatal(err)
		}
		return rr
	}
	seed(func(m *dns.Msg) { m.Answer = []dns.RR{rr("example.com. 5 IN MX 10 mx.example.com.")} })
	seed(func(m *dns.Msg) { m.Rcode = dns.RcodeNameError; m.Ns = []dns.RR{rr("com. 5 IN SOA a. b. 1 2 3 4 5")} })
	seed(func(m *dns.Msg) {
		m.Answer = []dns.RR{rr("example.com. 5 IN CNAME a."), rr("a. 5 IN CNAME b."), rr("b. 5 IN CNAME a.")}
	})
	seed(func(m *dns.Msg) { m.Answer = []dns.RR{rr("example.com. 5 IN CNAME .")} })
	seed(func(m *dns.Msg) { m.Truncated = true })
	none := filepath.Join(f.TempDir(), "none")
	f.Fuzz(func(t *testing.T, wire []byte) {
		asked := 0
		answer := func(_ context.Context, _ string, _ netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
			asked++
			m := new(dns.Msg)
			if err := m.Unpack(slices.Clone(wire)); err != nil {
				return nil, err
			}
			m.Id, m.Response, m.Opcode = q.Id, true, dns.OpcodeQuery
			m.Question = q.Question
			return m, nil
		}
		r, err := New(Config{Servers: []string{"192.0.2.53"}, Attempts: 1, Concurrency: 1, ResolvConf: none, HostsFile: none, Exchange: answer})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		rec, until := r.lookup(t.Context(), question{"example.com", dns.TypeMX})
		if rec.answer < route.Found || rec.answer > route.Unknown || len(rec.mx) > recordsMax {
			t.Errorf("%v with %d records", rec.answer, len(rec.mx))
		}
		if d := time.Until(until); d < time.Second || d > 24*time.Hour {
			t.Errorf("to be kept for %v", d)
		}
		if asked > 3*(aliasesMax+1) {
			t.Errorf("%d questions", asked)
		}
		r.Hosts(t.Context(), "example.com")
	})
}
