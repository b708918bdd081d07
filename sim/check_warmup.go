package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// warming: a source that is warmed up never has more messages under way to a site on a day,
// in all, than its plan allows; the allowance changes only from one day to another, to that of
// the next day of the plan after a day that was used and good, and otherwise to no larger one;
// and no mail is put off for it while a source of its pool may send. When an operator raises an
// allowance, the mail that waits for nothing else is tried within returnWithin, as far as the
// allowance goes. It counts what
// begins and what receivers say for itself, and knows of the plans only their
// numbers. A message that was never begun may begin again for nothing: so it counts when
// it ends with a verdict, or with its connection in the middle of it.
type warming struct {
	safety
	plans map[string]*warmup.Plan
	of    map[warmup.Key]*warmingSite
	first map[string]int // the day of the plan, from 0 on, on which sites begin, by an order
	// resting are the messages that wait for the next day, and orders what they may be tried
	// for before.
	resting map[mail.QueueID]*message
	orders  []warmupRaise
}

// A warmupRaise is an order that may have raised an allowance.
type warmupRaise struct {
	warmup.Key              // without a site: of all
	at         mail.Instant // when it was given
}

// returnWithin is how soon after an order mail is tried that waited for it: the core waits
// ten seconds after the last time.
const returnWithin = 30 * time.Second

// A warmingSite is a source and a destination.
type warmingSite struct {
	step   int // day of the plan, from 0 on; beyond the last, warm
	bad    int // bad days in a row
	day    int // since the epoch
	used   int // the last day on which something began
	today  int // messages under way or ended
	ended  int // of these, taken for a recipient at least
	result warmup.Result
}

func newWarming(w *world) *warming {
	c := &warming{plans: make(map[string]*warmup.Plan), of: make(map[warmup.Key]*warmingSite), first: make(map[string]int), resting: make(map[mail.QueueID]*message)}
	cfg := w.run.Core.WithDefaults().Warmup
	for i := range cfg.Sources {
		c.plans[cfg.Sources[i].Name] = &cfg.Sources[i].Plan
	}
	return c
}

func (*warming) name() string { return "warm-up" }

// site returns what is counted for a source and a destination today; nil if the source is
// not warmed up.
func (c *warming) site(w *world, source, to string) (*warmingSite, *warmup.Plan) {
	p := c.plans[source]
	if p == nil {
		return nil, nil
	}
	k := warmup.Key{Source: source, Site: to}
	s, today := c.of[k], int(w.now.Seconds()/86400)
	if s == nil {
		s = &warmingSite{step: c.first[source], day: today, used: today}
		c.of[k] = s
	}
	if s.day < today {
		s.close(p, today, c.first[source])
	}
	return s, p
}

// close ends a day.
func (s *warmingSite) close(p *warmup.Plan, today, first int) {
	total := s.result.Accepted + s.result.Deferred + s.result.Bounced
	tooMany := func(n, percent int) bool { return n >= p.Failures && n*100 > percent*total }
	switch {
	case s.today+total == 0, s.step == len(p.Allowances):
	case tooMany(s.result.Deferred, p.DeferralPercent), tooMany(s.result.Bounced, p.BouncePercent):
		if s.bad++; s.bad == p.BadDays {
			s.bad, s.step = 0, max(s.step-1, 0)
		}
	case s.ended*100 < p.UsedPercent*p.Allowances[s.step]:
		s.bad = 0
	default:
		s.bad = 0
		s.step++
	}
	if today-s.used > p.IdleDays {
		s.step, s.bad = first, 0
	}
	*s = warmingSite{step: s.step, bad: s.bad, day: today, used: s.used}
}

func (c *warming) started(w *world, e *task) {
	if e.session == nil {
		return
	}
	s, p := c.site(w, e.session.opening.Source, e.to.name)
	if s == nil {
		return
	}
	s.today++
	s.used = s.day
	if s.step < len(p.Allowances) && s.today > p.Allowances[s.step] {
		c.found(w.now, "source %s begins message %d of a day to %s, on day %d of its plan with %d", e.session.opening.Source, s.today, e.to.name, s.step+1, p.Allowances[s.step])
	}
}

func (c *warming) finished(w *world, e *task, outcomes []mail.Outcome) {
	if e.session == nil {
		return
	}
	s, _ := c.site(w, e.session.opening.Source, e.to.name)
	if s == nil {
		return
	}
	untried, accepted := true, 0
	for i := range outcomes {
		o := &outcomes[i]
		untried = untried && o.Result == mail.Untried
		switch {
		case o.Result == mail.Delivered:
			accepted++
		case o.Reply.By == "":
		case o.Result == mail.Deferred:
			s.result.Deferred++
		case o.Result == mail.Failed:
			s.result.Bounced++
		}
	}
	s.result.Accepted += accepted
	s.ended += min(accepted, 1)
	if untried && int(e.begun.Seconds()/86400) == s.day {
		s.today--
	}
}

// putOff finds mail that waits for the next day while a source of the only pool may send.
func (c *warming) putOff(w *world, d *mail.Delivery) {
	pools := w.run.Core.Sources.Pools
	if !strings.Contains(d.Nexthop, qmgr.WarmupPrefix) || len(pools) != 1 {
		return
	}
	for _, m := range pools[0].Members {
		s, p := c.site(w, m.Source, d.Origin.Nexthop)
		if s == nil || s.step == len(p.Allowances) {
			c.found(w.now, "mail to %s is put off while source %s has no limit", d.Origin.Nexthop, m.Source)
			continue
		}
		waiting := 0
		if v, ok := w.core.Peek(d.Origin.Transport, d.Origin.Nexthop, m.Source, ""); ok {
			waiting = v.Todo
		}
		if left := p.Allowances[s.step] - s.today; left > waiting {
			c.found(w.now, "mail to %s is put off while source %s may send %d more today, and %d wait", d.Origin.Nexthop, m.Source, left, waiting)
		}
	}
}

// ordered takes an operator's order for another day of the plan.
func (c *warming) ordered(w *world, o *warmup.Order) {
	p := c.plans[o.Key.Source]
	if p == nil {
		return
	}
	c.stepped(w) // what the last order should have brought about
	day := min(o.Day-1, len(p.Allowances))
	if o.Key.Site == "" {
		c.first[o.Key.Source] = day
		for k := range c.of { //archtest:anyorder each has its own day
			if k.Source == o.Key.Source {
				s, _ := c.site(w, k.Source, k.Site)
				s.step, s.bad = day, 0
			}
		}
	} else {
		s, _ := c.site(w, o.Key.Source, o.Key.Site)
		s.step, s.bad, s.used = day, 0, s.day
	}
	c.orders = append(c.orders, warmupRaise{o.Key, w.now})
}

// changed finds messages that wait for the next day from now on.
func (c *warming) changed(now mail.Instant, m *message, change *mail.Change) {
	switch {
	case m == nil || len(c.plans) == 0:
	case change.Op == mail.ChangeDefer && waitsForDay(&m.place, now):
		c.resting[m.id] = m
	default:
		delete(c.resting, m.id)
	}
}

// stepped looks whether an order was given some time ago.
func (c *warming) stepped(w *world) {
	for len(c.orders) > 0 && w.now >= c.orders[0].at.Add(returnWithin) {
		o := c.orders[0]
		c.orders = c.orders[1:]
		c.cameBack(w, o)
	}
}

// cameBack looks at what still waits after an order.
func (c *warming) cameBack(w *world, o warmupRaise) {
	pools := w.run.Core.Sources.Pools
	if warmup.DayOf(o.at) != warmup.DayOf(w.now) || len(pools) != 1 || !pools[0].Has(o.Source) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.resting)) {
		m := c.resting[id]
		if m.last >= o.at || m.busy > 0 || m.changing || !waitsForDay(&m.place, w.now) || w.core.InCore(m.id) {
			continue
		}
		for i := range m.states {
			to := m.recipient(i).to
			if m.states[i]&stateSettled != 0 || o.Site != "" && o.Site != to.name {
				continue
			}
			if s, p := c.site(w, o.Source, to.name); s.step == len(p.Allowances) || p.Allowances[s.step]-s.today > c.waiting(w, to, o.Source) {
				c.found(w.now, "mail to %s still waits for tomorrow %v after an order, and source %s may send more", to.name, w.now.Sub(o.at), o.Source)
			}
		}
	}
}

// waiting is what waits in core for a destination from a source.
func (c *warming) waiting(w *world, to *destination, source string) int {
	v, _ := w.core.Peek(to.transport, to.name, source, "")
	return v.Todo
}
