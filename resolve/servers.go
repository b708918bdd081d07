package resolve

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/route"
)

// A system is the contents of a resolv.conf(5) file combined with the
// configuration.
type system struct {
	servers  []netip.AddrPort
	search   []string
	ndots    int // names with fewer dots are tried with the search list first
	timeout  time.Duration
	attempts int
	trustAD  bool // the servers' AD bit is believed
}

// serversMax is the maximum number of servers asked; it limits the time of a lookup.
const serversMax = 8

// parseSystem returns the parser of resolv.conf for a configuration. The
// configuration has been validated.
func parseSystem(c Config) func(text string) system {
	return func(text string) system {
		s := system{timeout: c.Timeout, attempts: c.Attempts, ndots: 1}
		for _, word := range c.Servers {
			if ap, err := parseServer(word); err == nil {
				s.servers = append(s.servers, ap)
			}
		}
		own := len(s.servers) > 0
		if conf, err := dns.ClientConfigFromReader(strings.NewReader(text)); err == nil {
			s.complete(conf)
		}
		if len(s.servers) == 0 { // the default of resolv.conf(5)
			s.servers = []netip.AddrPort{
				netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsPort),
				netip.AddrPortFrom(netip.IPv6Loopback(), dnsPort),
			}
		}
		s.servers = s.servers[:min(len(s.servers), serversMax)]
		s.timeout = cmp.Or(s.timeout, 5*time.Second)
		s.attempts = cmp.Or(s.attempts, 2)
		s.trustAD = c.TrustAD || !slices.ContainsFunc(s.servers, isRemote) || !own && trustsAD(text)
		return s
	}
}

// trustsAD reports whether a resolv.conf has the option trust-ad, by which an operator says of its
// servers what Config.TrustAD says (resolv.conf(5), glibc 2.31). Package dns does not read it.
func trustsAD(text string) bool {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "options" && slices.Contains(words[1:], "trust-ad") {
			return true
		}
	}
	return false
}

func isRemote(server netip.AddrPort) bool { return !server.Addr().Unmap().IsLoopback() }

// systemTimeoutMax is the maximum timeout in resolv.conf(5).
const systemTimeoutMax = 30 * time.Second

// complete takes from resolv.conf the values that the configuration does not set.
func (s *system) complete(conf *dns.ClientConfig) {
	s.search, s.ndots = conf.Search, conf.Ndots
	s.timeout = cmp.Or(s.timeout, min(time.Duration(conf.Timeout)*time.Second, systemTimeoutMax))
	s.attempts = cmp.Or(s.attempts, conf.Attempts)
	if len(s.servers) > 0 {
		return
	}
	for _, word := range conf.Servers {
		if ap, err := parseServer(word); err == nil {
			s.servers = append(s.servers, ap)
		}
	}
}

// candidates returns the names to look up for a host that a person wrote, with the
// search list applied as in resolv.conf(5).
func (s system) candidates(host string) []string {
	names := make([]string, 0, len(s.search)+1)
	for _, domain := range s.search {
		if name, err := route.ParseDomain(host + "." + domain); err == nil {
			names = append(names, name)
		}
	}
	if strings.Count(host, ".") >= s.ndots {
		return slices.Insert(names, 0, host)
	}
	return append(names, host)
}

// sickFor is the time for which a silent server is asked after all the others.
const sickFor = 30 * time.Second

// health records which servers were silent, so that a dead one does not cost
// every question its timeout.
type health struct {
	mu   sync.Mutex
	sick map[netip.AddrPort]time.Time // when a server stops being sick
	last map[netip.AddrPort]time.Time // when it last answered
}

// order returns the servers with those that were silent lately at the end, and
// reports whether all were.
func (h *health) order(servers []netip.AddrPort, now time.Time) (order []netip.AddrPort, allSick bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sick) == 0 {
		return servers, false
	}
	order = make([]netip.AddrPort, 0, len(servers))
	var late []netip.AddrPort
	for _, s := range servers {
		if now.Before(h.sick[s]) {
			late = append(late, s)
		} else {
			order = append(order, s)
		}
	}
	return append(order, late...), len(order) == 0
}

// silent records that a server has not answered a question. If it has answered
// others since then, not the server was silent, but the servers that it asks.
func (h *health) silent(s netip.AddrPort, asked, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last[s].After(asked) {
		return
	}
	if len(h.sick) > serversMax { // resolv.conf changes frequently
		clear(h.sick)
	}
	h.sick[s] = now.Add(sickFor)
}

func (h *health) answered(s netip.AddrPort, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sick, s)
	if len(h.last) > serversMax {
		clear(h.last)
	}
	h.last[s] = now
}
