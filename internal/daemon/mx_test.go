package daemon

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// Most mail finds its way by MX records: the best host is tried first and the
// next if that cannot be reached; a domain that does not exist, or that says
// that it takes no mail (RFC 7505), gets none.
func TestMailGoesWhereTheDNSSays(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Skipf("this machine has only one loopback address: %v", err)
	}
	second, origin := receive(t, sink.Config{}, ln), receive(t, sink.Config{})
	_, port, err := net.SplitHostPort(second.address)
	if err != nil {
		t.Fatal(err)
	}
	server := zone(t, `
d.test.        60 IN MX 10 down.d.test.
d.test.        60 IN MX 20 up.d.test.
down.d.test.   60 IN A 127.0.0.2
up.d.test.     60 IN A 127.0.0.3
bare.test.     60 IN A 127.0.0.3
nomail.test.   60 IN MX 0 .
`)
	r := start(t, t.TempDir(), fmt.Sprintf("dns.servers = [%q]\nsmtp_permit_private_hosts = true\n", server)+
		routes("d.test", "smtp:d.test:"+port, "bare.test", "smtp:bare.test:"+port, "origin.test", origin.address))
	r.feed(letter("<1>", "a@d.test", "a@bare.test", "a@nomail.test", "a@nosuch.test"))
	r.settled()
	second.copies().matches(t, copies{"<1> a@d.test": 1, "<1> a@bare.test": 1})
	_, rep, _ := reportTo(t, origin)
	got := make(map[mail.Address]mail.Status)
	for _, rcpt := range rep.Recipients {
		got[rcpt.Final] = rcpt.Status
	}
	if len(got) != 2 || got["a@nomail.test"] != (mail.Status{Class: 5, Subject: 1, Detail: 10}) || got["a@nosuch.test"].Class != 5 {
		t.Errorf("the report says %v", got)
	}
}

// zone runs a name server that knows some records and says of everything else
// that it does not exist. It returns the server's address. Answers about names that end in
// one of signed are vouched for by DNSSEC.
func zone(t *testing.T, records string, signed ...string) string {
	t.Helper()
	known := make(map[string][]dns.RR)
	for line := range strings.Lines(strings.TrimSpace(records)) {
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		known[rr.Header().Name] = append(known[rr.Header().Name], rr)
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		name := strings.ToLower(q.Question[0].Name)
		m.AuthenticatedData = slices.ContainsFunc(signed, func(end string) bool { return strings.HasSuffix(name, end) })
		all, exists := known[name]
		if !exists {
			m.Rcode = dns.RcodeNameError
		}
		for _, rr := range all {
			if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		w.WriteMsg(m) //nolint:errcheck // then the client asks again
	}
	s := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(answer)}
	served := make(chan error, 1)
	go func() { served <- s.ActivateAndServe() }()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return conn.LocalAddr().String()
}
