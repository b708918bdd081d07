package sim

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// shares: no more look-ups are under way than may be, and none begins for a message
// that has its share already: a few, or the configured proportion to those that are
// free.
type shares struct {
	safety
	limit, few, scale int
	busy              int
	by                map[mail.QueueID]int
}

func newShares(w *world) *shares {
	cfg := w.run.Core.WithDefaults()
	return &shares{limit: cfg.LookupLimit, few: cfg.MessageConcurrency, scale: max(cfg.ConcurrencyScale, 0), by: make(map[mail.QueueID]int)}
}

func (*shares) name() string { return "shares" }

func (s *shares) searching(now mail.Instant, a *qmgr.Lookup) {
	free := s.limit - s.busy
	if free <= 0 {
		s.found(now, "look-up %d begins while %d are under way; the limit is %d", a.Lookup, s.busy, s.limit)
	}
	if has := s.by[a.For]; has >= s.few && has >= s.scale*free {
		s.found(now, "look-up %d begins for %v, which has %d, while %d are free", a.Lookup, a.For, has, free)
	}
	s.busy++
	s.by[a.For]++
}

func (s *shares) searched(a *qmgr.Lookup) {
	s.busy--
	if s.by[a.For]--; s.by[a.For] == 0 {
		delete(s.by, a.For)
	}
}
