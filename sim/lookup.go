package sim

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A search is a Lookup that is being answered. Its event is the name server's
// answer.
type search struct {
	event
	ask   qmgr.Lookup
	to    *receiver
	class int // of the message on whose account it is; -1 if that is gone
}

// needsLookup tells whether a receiver's address is not known.
func (w *world) needsLookup(to *receiver) bool {
	dns := &w.scenario.DNS
	return !dns.ByDelivery && dns.asks() && to.known <= w.now
}

// asks tells whether looking a site up takes any time, or may fail.
func (d *DNS) asks() bool { return !d.Delay.IsZero() || d.FailurePercent > 0 }

// search begins a look-up.
func (w *world) search(a qmgr.Lookup) {
	var s *search
	if n := len(w.spareSearches); n > 0 {
		s, w.spareSearches = w.spareSearches[n-1], w.spareSearches[:n-1]
	} else {
		s = new(search)
	}
	*s = search{ask: a, to: w.nexthops[a.Nexthop], class: -1}
	if m := w.spool.messages[a.For]; m != nil {
		s.class = m.source.class
	}
	w.watch.searching(w.now, &s.ask)
	w.measure.looking(w, s.class, 1)
	w.at(&s.event, s, w.now.Add(w.scenario.DNS.Delay.draw(&s.to.rng)))
}

// happen ends it.
func (s *search) happen(w *world) {
	dns := &w.scenario.DNS
	to := mail.Route{Transport: s.ask.Transport, Nexthop: s.ask.Nexthop}
	if percent(&s.to.rng, dns.FailurePercent) {
		to.Reply = replyNoDNS
	} else {
		s.to.known = w.now.Add(dns.TTL)
	}
	w.watch.searched(&s.ask)
	w.measure.looking(w, s.class, -1)
	id := s.ask.Lookup
	w.spareSearches = append(w.spareSearches, s)
	w.step(qmgr.LookedUp{Lookup: id, Route: to})
}
