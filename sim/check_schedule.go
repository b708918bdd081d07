package sim

import (
	"math"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// limits: no destination gets more deliveries at once than its limit and its window
// allow, none sooner than its rate delay, no transport has more than its process
// limit or starts them closer together than its rate delay, no transaction more
// recipients than the limit.
type limits struct {
	safety
	cfg        qmgr.Config
	transports map[string]*usage
}

type usage struct {
	cfg   qmgr.TransportConfig
	busy  int
	ended mail.Instant // the last delivery; 0: none has
}

func newLimits(w *world) *limits {
	return &limits{cfg: w.run.Core.WithDefaults(), transports: make(map[string]*usage)}
}

func (*limits) name() string { return "limits" }

func (l *limits) usage(transport string) *usage {
	u := l.transports[transport]
	if u == nil {
		u = &usage{cfg: l.cfg.DefaultTransport}
		if cfg, ok := l.cfg.Transports[transport]; ok {
			u.cfg = cfg
		}
		l.transports[transport] = u
	}
	return u
}

func (l *limits) started(w *world, e *task) {
	u, to := l.usage(e.to.transport), e.to
	u.busy++
	to.busy++
	switch limit := u.cfg.Window.Limit; {
	case e.session != nil: // connections are counted instead: see connecting
	case limit > 0 && to.busy > limit:
		l.found(w.now, "%d deliveries to %s at once; the limit is %d", to.busy, to.name, limit)
	case u.busy > u.cfg.ProcessLimit:
		l.found(w.now, "%d deliveries over %s at once; the limit is %d", u.busy, to.transport, u.cfg.ProcessLimit)
	}
	if limit := u.cfg.RecipientLimit; limit > 0 && len(e.recipients) > limit {
		l.found(w.now, "%d recipients in a transaction with %s; the limit is %d", len(e.recipients), to.name, limit)
	}
	if delay := u.cfg.RateDelay; delay > 0 && to.lastDone != 0 && w.now.Sub(to.lastDone) < delay {
		l.found(w.now, "a delivery to %s %v after the one before; the delay is %v", to.name, w.now.Sub(to.lastDone), delay)
	}
	delay := u.cfg.TransportRateDelay
	if delay > 0 && (u.busy > 1 || u.ended != 0 && w.now.Sub(u.ended) < delay) {
		l.found(w.now, "a delivery over %s %v after the one before, %d at once; the delay is %v", to.transport, w.now.Sub(u.ended), u.busy, delay)
	}
}

func (l *limits) finished(w *world, e *task, _ []mail.Outcome) {
	u := l.usage(e.to.transport)
	u.busy--
	u.ended = w.now
	e.to.busy--
}

// timing: nothing is tried before its time, and no destination or transport that
// is dead. When our own network is back, what was deferred before is due at once; and
// when an operator has raised the allowance of a source, what waits until the day ends for
// nothing else.
type timing struct {
	safety
	dead map[deadPlace]bool
}

// A deadPlace is what a note calls dead: without a nexthop a whole transport. What is dead to
// one source may be alive to another.
type deadPlace struct{ transport, nexthop, source string }

func newTiming() *timing { return &timing{dead: make(map[deadPlace]bool)} }

func (*timing) name() string { return "timing" }

func (t *timing) note(_ mail.Instant, n *qmgr.Note) {
	switch n.Kind {
	case qmgr.NoteDead:
		t.dead[deadPlace{n.Transport, n.Nexthop, n.Source}] = true
	case qmgr.NoteAlive:
		delete(t.dead, deadPlace{n.Transport, n.Nexthop, n.Source})
	}
}

func (t *timing) started(w *world, e *task) {
	if m := e.message; m != nil && m.place.Area == mail.AreaDeferred && m.place.Due > w.now && !(w.online != 0 && m.last <= w.online) &&
		!(w.ordered != 0 && m.last <= w.ordered && waitsForDay(&m.place, w.now)) {
		t.found(w.now, "%v is tried %v before its time", m.id, m.place.Due.Sub(w.now))
	}
	switch {
	case len(t.dead) == 0:
	case t.dead[deadPlace{e.to.transport, e.to.name, e.source()}]:
		t.found(w.now, "a delivery to %s, which is dead", e.to.name)
	case t.dead[deadPlace{transport: e.to.transport}]:
		t.found(w.now, "a delivery over %s, which is dead", e.to.transport)
	}
}

// ordering: where nothing may overtake, new messages of a flow with one recipient each
// reach a destination in the order in which they came into core; that is the
// order of arrival unless a slow disk changes it. It is idle for transports with
// preemption, whose business is to change that order.
type ordering struct {
	safety
	limits *limits
	last   map[lane]ordered // that began last
}

// lane is the mail of one flow for one destination; of all flows if these do not take turns.
type lane struct {
	to   *destination
	flow mail.Flow
}

// ordered is a message's place in the order.
type ordered struct {
	entered uint64
	number  int
}

func newOrdering(w *world) *ordering {
	return &ordering{limits: newLimits(w), last: make(map[lane]ordered)}
}

func (*ordering) name() string { return "order" }

func (o *ordering) started(w *world, e *task) {
	m := e.message
	cfg := o.limits.usage(e.to.transport).cfg
	if cfg.Scheduler == qmgr.Preemptive && cfg.SlotCost > 1 || m == nil || m.attempts > 0 || m.sent || len(m.states) != 1 {
		return // one that was sent before is back from a connection that broke
	}
	at := lane{to: e.to}
	if cfg.Scheduler == qmgr.Preemptive {
		at.flow = w.core.Explain([]mail.QueueID{m.id}, 0)[0].Flow
	}
	if last := o.last[at]; m.entered < last.entered {
		o.found(w.now, "message %d is tried at %s behind message %d, which came later", m.number, e.to.name, last.number)
	}
	o.last[at] = ordered{m.entered, m.number}
}

// memory: what is in core stays below the bounds that SCHEDULER_README gives:
// the active limit for messages; for recipients the larger of the global limit,
// and of what every message may have together with the pools of the transports.
type memory struct {
	safety
	bound int // with the transports that there were when it was computed last
}

func (*memory) name() string { return "memory" }

// stepped looks at the recipients after every Step. That is cheap enough as long
// as they are below a bound that was right some time ago: transports are only
// added.
func (m *memory) stepped(w *world) {
	recipients, _ := w.core.Recipients()
	if recipients > m.bound {
		m.bound = m.computed(w)
	}
	if recipients > m.bound {
		m.found(w.now, "%d recipients in core; the bound is %d", recipients, m.bound)
	}
}

// rested looks at the messages, and at what the core believes the bound to be.
func (m *memory) rested(w *world) {
	cfg := w.run.Core.WithDefaults()
	if n := w.core.View(0).Messages; n > cfg.ActiveLimit {
		m.found(w.now, "%d messages in core; the limit is %d", n, cfg.ActiveLimit)
	}
	bound := m.computed(w)
	if _, most := w.core.Recipients(); most != bound && bound != math.MaxInt {
		m.found(w.now, "the core believes that it may have %d recipients; it may have %d", most, bound)
	}
}

func (*memory) computed(w *world) int {
	cfg := w.run.Core.WithDefaults()
	bound := cfg.ActiveLimit * cfg.RecipientMinimum
	transports := w.core.View(0).Transports
	if len(transports) == 0 {
		return math.MaxInt // the destination of the first mail is not known yet
	}
	for _, t := range transports {
		of := cfg.DefaultTransport
		if c, ok := cfg.Transports[t.Name]; ok {
			of = c
		}
		bound += max(of.RecipientPool, 0) + max(of.ExtraRecipients, 0)
	}
	return max(bound, cfg.RecipientLimit)
}
