package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// shares: no more lookups are under way than the limit, and none begins for a
// message that has its share already: a few, or the configured proportion to those
// that are free.
type shares struct {
	safety
	limit, few, scale int
	busy              int
	young             map[qmgr.LookupID]mail.Instant // those that may hold a place, and when they began
	by                map[mail.QueueID]int
	begun             map[qmgr.LookupID]begunLookup // all that are under way
}

// A begunLookup is a lookup under way.
type begunLookup struct {
	on mail.QueueID
	at mail.Instant
}

func newShares(w *world) *shares {
	cfg := w.run.Core.WithDefaults()
	return &shares{limit: cfg.LookupLimit, few: cfg.MessageConcurrency, scale: max(cfg.ConcurrencyScale, 0), by: make(map[mail.QueueID]int),
		young: make(map[qmgr.LookupID]mail.Instant), begun: make(map[qmgr.LookupID]begunLookup)}
}

func (*shares) name() string { return "shares" }

func (s *shares) searching(now mail.Instant, a *qmgr.Lookup) {
	free := max(s.limit-s.busy, 0)
	if len(s.young) >= s.limit {
		s.age(now)
	}
	if len(s.young) >= s.limit {
		s.found(now, "lookup %d begins while %d are under way that have not taken long; the limit is %d", a.Lookup, len(s.young), s.limit)
	}
	s.young[a.Lookup] = now
	if has := s.by[a.For]; a.For != 0 && has >= s.few && has >= s.scale*free {
		if has = s.surely(a.For, now); has >= s.few && has >= s.scale*free {
			s.found(now, "lookup %d begins for %v, which has %d, while %d are free", a.Lookup, a.For, has, free)
		}
	}
	s.begun[a.Lookup] = begunLookup{on: a.For, at: now}
	s.busy++
	s.by[a.For]++
}

// surely counts the lookups of a message that have not been given up. One may be given
// up, and the message go on without it, when it has taken two seconds and others need
// its place without notice.
func (s *shares) surely(id mail.QueueID, now mail.Instant) (n int) {
	for _, l := range s.begun { //archtest:anyorder a count
		if l.on == id && now < l.at.Add(2*time.Second) {
			n++
		}
	}
	return n
}

// age takes those out that have given their places back.
func (s *shares) age(now mail.Instant) {
	for id, at := range s.young { //archtest:anyorder all those that are old enough
		if now >= at.Add(50*time.Millisecond) {
			delete(s.young, id)
		}
	}
}

func (s *shares) searched(a *qmgr.Lookup) {
	delete(s.young, a.Lookup)
	delete(s.begun, a.Lookup)
	s.busy--
	if s.by[a.For]--; s.by[a.For] == 0 {
		delete(s.by, a.For)
	}
}
