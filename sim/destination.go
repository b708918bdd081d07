package sim

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A destination is a nexthop: a domain and the hosts that take its mail.
type destination struct {
	name      string // the domain
	transport string
	tiers     [][]*receiver // by preference; neither it nor a tier is empty
	answer    [][]mail.Host // what the name server says: the tiers; nil before anybody has asked
	known     mail.Instant  // until when it need not be looked up
	wanted    bool          // it is being looked up, or is going to be
	within    time.Duration // Site.Within
	nameless  bool          // Site.Nameless

	busy     int // deliveries under way; for the checkers
	lastDone mail.Instant
}

// rng is what lookups of the destination draw from.
func (d *destination) rng() *prng.Source { return &d.tiers[0][0].rng }

// inOrder appends the hosts in an order in which an agent tries them: the best
// first, equal ones in random order (RFC 5321 5.1).
func (d *destination) inOrder(plan []*receiver) []*receiver {
	for _, tier := range d.tiers {
		from := len(plan)
		plan = append(plan, tier...)
		for i := len(plan) - 1; i > from; i-- {
			k := from + d.rng().IntN(i-from+1)
			plan[i], plan[k] = plan[k], plan[i]
		}
	}
	return plan
}

// populate makes the receivers and destinations of all sites, and returns the
// destinations by site.
func (w *world) populate(seed uint64) map[string][]*destination {
	seeds := prng.New(seed)
	all := make(map[string][]*destination)
	for i := range w.scenario.Sites {
		site := &w.scenario.Sites[i]
		transport := cmp.Or(site.Transport, "smtp")
		var shared [][]*receiver
		for n := range max(site.Copies, 1) {
			d := &destination{name: site.domain(n), transport: transport, tiers: shared, within: site.Within, nameless: site.Nameless}
			if shared == nil {
				d.tiers = w.hostsOf(site, d.name, &seeds)
			}
			if site.SharedHosts {
				shared = d.tiers
			}
			w.nexthops[d.name] = d
			all[site.Name] = append(all[site.Name], d)
		}
	}
	w.cutLines()
	return all
}

// domain returns the domain of the n-th destination, counted from 0.
func (s *Site) domain(n int) string {
	if s.Copies > 1 {
		return fmt.Sprintf("%s-%d.test", s.Name, n+1)
	}
	return s.Name + ".test"
}

// Domains returns the domains of the site's destinations.
func (s *Site) Domains() []string {
	var all []string
	for n := range max(s.Copies, 1) {
		all = append(all, s.domain(n))
	}
	return all
}

// hostsOf makes the receivers behind one domain, by tiers.
func (w *world) hostsOf(site *Site, domain string, seeds *prng.Source) [][]*receiver {
	if len(site.Hosts) == 0 {
		alone := Host{Behaviour: site.Behaviour, Changes: site.Changes, Outages: site.Outages}
		return [][]*receiver{{w.newReceiver(domain, alone, seeds.Uint64())}}
	}
	hosts := slices.Clone(site.Hosts)
	slices.SortStableFunc(hosts, func(a, b Host) int { return cmp.Compare(a.Preference, b.Preference) })
	var tiers [][]*receiver
	for i, h := range hosts {
		if i == 0 || h.Preference != hosts[i-1].Preference {
			tiers = append(tiers, nil)
		}
		tier := &tiers[len(tiers)-1]
		h.Outages = append(slices.Clone(h.Outages), site.Outages...)
		for n := range max(h.Copies, 1) {
			name := h.Name + "." + domain
			if h.Copies > 1 {
				name = fmt.Sprintf("%s-%d.%s", h.Name, n+1, domain)
			}
			*tier = append(*tier, w.newReceiver(name, h, seeds.Uint64()))
		}
	}
	return tiers
}

func (w *world) newReceiver(name string, h Host, seed uint64) *receiver {
	n := uint32(len(w.receivers) + 1)
	addr := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	r := &receiver{name: name, addr: netip.AddrPortFrom(addr, 25), index: len(w.receivers), preference: uint16(min(h.Preference, 65535)),
		changes: h.Changes, outages: append(h.Outages, w.scenario.Outages...), rng: prng.New(seed), now: h.Behaviour}
	w.receivers = append(w.receivers, r)
	r.schedule(w)
	return r
}

// receiver returns the receiver at an address.
func (w *world) receiver(at netip.AddrPort) *receiver {
	b := at.Addr().As4()
	return w.receivers[int(b[1])<<16+int(b[2])<<8+int(b[3])-1]
}

// resolve answers with the hosts of a nexthop, the fallback relays of its
// transport behind them.
func (w *world) resolve(a *qmgr.Resolve) {
	d := w.nexthops[a.Nexthop]
	set := mail.HostSet{Tiers: d.hosts(), Until: w.now.Add(max(w.scenario.DNS.TTL, leastTTL))}
	set.Tiers = slices.Clip(set.Tiers)
	for _, name := range w.run.Fallbacks[a.Transport] {
		if name != d.name {
			set.Tiers = append(set.Tiers, w.nexthops[name].hosts()...)
		}
	}
	step(w, qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Set: set})
}

// hosts returns what the name server answers. It is the same every time, and no
// caller may change it.
func (d *destination) hosts() [][]mail.Host {
	if d.answer != nil {
		return d.answer
	}
	d.answer = make([][]mail.Host, len(d.tiers))
	for i, tier := range d.tiers {
		for _, r := range tier {
			d.answer[i] = append(d.answer[i], mail.Host{Name: r.name, Addr: r.addr, Preference: r.preference})
		}
	}
	return d.answer
}
