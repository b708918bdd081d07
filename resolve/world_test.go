package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/mail"
)

// A world is a zone, and name servers that serve it more or less well.
type world struct {
	mu      sync.Mutex
	rrs     map[string][]dns.RR // by lower-case owner name; a name without records exists, too
	rcodes  map[string]int      // answers to questions about a name, or "AAAA name", whatever the zone says
	signed  []string            // names that end so are in signed zones
	servers map[string]fault    // by address; the others are in good order
	asked   []string            // "udp 192.0.2.53 MX example.com.", in order
}

// A fault is what is wrong with a name server.
type fault uint

const (
	silent      fault = 1 << iota // no answer at all
	noEDNS                        // FORMERR to EDNS
	dropEDNS                      // no answer to EDNS
	truncates                     // by UDP everything is cut short
	noTCP                         // TCP is refused
	lame                          // refers to the root servers
	refuses                       // REFUSED
	servfails                     // SERVFAIL
	babbles                       // answers another question
	oneLink                       // of a chain of aliases only the first link
	cutsTCP                       // cut short by TCP, too
	pushesAD                      // sets AD even if it is not asked for
	unreachable                   // ICMP reports that the host is unreachable
)

// newWorld reads a zone in master file syntax, a name alone being one without
// records.
func newWorld(t testing.TB, zone string) *world {
	t.Helper()
	w := &world{rrs: map[string][]dns.RR{}, rcodes: map[string]int{}, servers: map[string]fault{}}
	w.add(t, zone)
	return w
}

func (w *world) add(t testing.TB, zone string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(zone) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(strings.Fields(line)) == 1 {
			w.rrs[line] = nil
			continue
		}
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ToLower(rr.Header().Name)
		w.rrs[name] = append(w.rrs[name], rr)
	}
}

func (w *world) set(server string, f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[server] = f
}

// questions returns and forgets what has been asked.
func (w *world) questions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

// exchange is an Exchange with the world's servers.
func (w *world) exchange(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := strings.ToLower(q.Question[0].Name)
	w.asked = append(w.asked, fmt.Sprintf("%s %s %s %s", network, server.Addr(), dns.TypeToString[q.Question[0].Qtype], name))
	f := w.servers[server.Addr().String()]
	edns := q.IsEdns0() != nil
	switch {
	case f&unreachable != 0:
		return nil, errors.New("connection refused")
	case f&silent != 0, f&dropEDNS != 0 && edns:
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return nil, ctx.Err()
	case network == "tcp" && f&noTCP != 0:
		return nil, errors.New("connection refused")
	}
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	switch {
	case f&noEDNS != 0 && edns:
		m.Rcode, m.Question = dns.RcodeFormatError, nil
	case f&refuses != 0:
		m.Rcode = dns.RcodeRefused
	case f&servfails != 0:
		m.Rcode = dns.RcodeServerFailure
	case f&lame != 0:
		m.RecursionAvailable = false
		m.Ns = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 60}, Ns: "a.root-servers.net."}}
	case f&babbles != 0:
		m.Question[0].Name = "other.example."
	case w.rcodes[name] != 0:
		m.Rcode = w.rcodes[name]
	case w.rcodes[dns.TypeToString[q.Question[0].Qtype]+" "+name] != 0:
		m.Rcode = w.rcodes[dns.TypeToString[q.Question[0].Qtype]+" "+name]
	default:
		w.fill(m, name, q.Question[0].Qtype, f)
		m.AuthenticatedData = m.AuthenticatedData && (q.AuthenticatedData || f&pushesAD != 0)
	}
	if f&cutsTCP != 0 || f&truncates != 0 && network == "udp" {
		m.Truncated, m.Answer = true, m.Answer[:len(m.Answer)/2]
	}
	return m, nil
}

// fill puts in what the zone says.
func (w *world) fill(m *dns.Msg, name string, qtype uint16, f fault) {
	m.AuthenticatedData = true
	for range 30 {
		m.AuthenticatedData = m.AuthenticatedData && slices.ContainsFunc(w.signed, func(zone string) bool { return strings.HasSuffix("."+name, "."+zone) })
		rrs, exists := w.rrs[name]
		if !exists {
			m.Rcode = dns.RcodeNameError
		}
		alias := ""
		for _, rr := range rrs {
			cname, is := rr.(*dns.CNAME)
			if is {
				alias = strings.ToLower(cname.Target)
			}
			if is || rr.Header().Rrtype == qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if alias == "" || qtype == dns.TypeCNAME {
			break
		}
		name = alias
		if f&oneLink != 0 {
			return
		}
	}
	if len(m.Answer) == 0 || m.Answer[len(m.Answer)-1].Header().Rrtype != qtype {
		m.Ns = w.rrs["soa."]
	}
}

// resolver returns a resolver in this world, with the servers 192.0.2.53 and
// 192.0.2.54 unless the configuration names others.
func (w *world) resolver(t testing.TB, c Config) *Resolver {
	t.Helper()
	if c.Servers == nil {
		c.Servers = []string{"192.0.2.53", "192.0.2.54"}
	}
	none := filepath.Join(t.TempDir(), "none")
	c.ResolvConf = cmp.Or(c.ResolvConf, none)
	c.HostsFile = cmp.Or(c.HostsFile, none)
	c.Exchange = w.exchange
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// show renders an answer as "pref name=addr:port … | …" or as the reply.
func show(set mail.HostSet, reply mail.Reply) string {
	if !reply.IsZero() {
		return reply.String()
	}
	var tiers []string
	for _, tier := range set.Tiers {
		words := []string{fmt.Sprint(tier[0].Preference)}
		for _, h := range tier {
			words = append(words, h.Name+"="+h.Addr.String())
		}
		tiers = append(tiers, strings.Join(words, " "))
	}
	return strings.Join(tiers, " | ")
}
