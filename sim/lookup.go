package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A search is a Lookup or a Resolve that is being answered. Its event is the name
// server's answer.
type search struct {
	event
	ask   qmgr.Lookup
	hosts *qmgr.Resolve // nil: it is a Lookup
	to    *destination
	class int // of the message on whose account it is; -1 if that is gone
}

// needsLookup reports whether a receiver's address is not known, so that it has to be
// looked up. From then on it is not known until the answer, even if name servers come
// back meanwhile: mail would overtake what waits for that.
func (w *world) needsLookup(to *destination) bool {
	dns := &w.scenario.DNS
	to.wanted = !dns.ByDelivery && (to.wanted || to.known <= w.now && (dns.asks() || w.namesOut() || to.nameless))
	return to.wanted
}

// asks reports whether looking a site up takes any time, or may fail.
func (d *DNS) asks() bool { return !d.Delay.IsZero() || d.FailurePercent > 0 }

// namesTimeout is the time that a lookup takes while no name server can be reached.
const namesTimeout = 5 * time.Second

// namelessTimeout is the time that a lookup takes while the resolver works, and the name
// servers that it asks do not answer.
const namelessTimeout = 54 * time.Second

// namesOut reports whether that is so.
func (w *world) namesOut() bool {
	at := w.now.Sub(w.start)
	for i := range w.scenario.Outages {
		if o := &w.scenario.Outages[i]; o.Names && at >= o.From && at < o.Until {
			return true
		}
	}
	return false
}

// search begins a lookup.
func (w *world) search(a qmgr.Lookup) {
	s := w.spareSearches.Take()
	*s = search{ask: a, to: w.nexthops[a.Nexthop], class: -1}
	if m := w.spool.message(a.For); m != nil {
		s.class = m.source.class
	}
	for _, c := range w.watch.searches {
		c.searching(w.now, &s.ask)
	}
	w.measure.looking(w, s.class, 1)
	s.begin(w)
}

// findHosts has the hosts of a nexthop looked up, if they are not known.
func (w *world) findHosts(action qmgr.Action, a qmgr.Resolve) {
	to := w.nexthops[a.Nexthop]
	if to.known > w.now || !w.scenario.DNS.asks() && !w.namesOut() && !to.nameless {
		w.soon(action)
		return
	}
	s := w.spareSearches.Take()
	*s = search{hosts: &a, to: to}
	s.begin(w)
}

func (s *search) begin(w *world) {
	takes := namesTimeout
	switch {
	case w.namesOut():
	case s.to.nameless:
		takes = namelessTimeout
	default:
		takes = w.scenario.DNS.Delay.draw(s.to.rng())
	}
	w.at(&s.event, s, w.now.Add(takes))
}

// happen ends it.
func (s *search) happen(w *world) {
	dns := &w.scenario.DNS
	var why mail.Reply
	switch {
	case w.namesOut() || s.to.nameless || percent(s.to.rng(), dns.FailurePercent):
		why = replyNoDNS
	case s.hosts == nil: // or mail would overtake what still waits for its route
		s.to.known = w.now.Add(dns.TTL)
	}
	if s.hosts != nil {
		s.found(w, why)
		return
	}
	s.to.wanted = false
	for _, c := range w.watch.searches {
		c.searched(&s.ask)
	}
	w.measure.looking(w, s.class, -1)
	ask := s.ask
	w.spareSearches.Give(s)
	step(w, qmgr.LookedUp{Lookup: ask.Lookup, Route: mail.Route{Transport: ask.Transport, Nexthop: ask.Nexthop, Reply: why}})
}

// found answers a Resolve.
func (s *search) found(w *world, why mail.Reply) {
	ask := *s.hosts
	w.spareSearches.Give(s)
	if why.IsZero() {
		w.resolve(&ask)
		return
	}
	step(w, qmgr.Hosts{Transport: ask.Transport, Nexthop: ask.Nexthop, Set: mail.HostSet{Until: w.now.Add(leastTTL)}, Reply: why})
}
