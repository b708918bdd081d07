package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A delivery is an entry that has been handed to the host.
type delivery struct {
	id      EntryID
	entry   *sched.Entry
	attempt window.Attempt // without connections
	conn    *conns.Conn    // that carries it
	started mail.Instant
	counted warmup.Mark // for its source's warm-up
}

// resume goes on with a selection that waits for recipients of m.
func (q *Qmgr) resume(m *message) {
	at := q.paused
	if !at.Of(&m.Message) || m.awaits&(awaitsRead|awaitsRoute) != 0 {
		return
	}
	q.paused = sched.Pause{}
	q.runDeadlines(true)
	l := flows.LaneOf(at.Lane())
	s := q.selection(l)
	q.offered(l, s, s.Resume(at))
	q.endDelay(transportOf(at.Lane()))
}

// offer starts the next delivery of a transport.
func (q *Qmgr) offer(t *transport) {
	l := t.Next()
	if l == nil {
		l = t.First() // Postfix looks whether there is something to select, and marks what is blocked
	}
	s := q.selection(l)
	q.offered(l, s, s.Next())
}

func (q *Qmgr) selection(l *flows.Lane) *sched.Selection {
	q.selecting = sched.Selection{Lane: &l.Lane, Now: q.now, Host: q}
	return &q.selecting
}

// offered starts what a selection has found.
func (q *Qmgr) offered(l *flows.Lane, s *sched.Selection, e *sched.Entry) {
	if q.paused = s.Paused; e != nil {
		q.start(l, e)
	}
}

// ReadFor asks for recipients of a message for a selection.
func (q *Qmgr) ReadFor(m *sched.Message) bool { return q.read(messageOf(m)) }

// Preempted reports, for readers of decisions, that a message goes first at the expense
// of another, and counts it.
func (q *Qmgr) Preempted(l *sched.Lane, current, by mail.QueueID, level int) {
	q.counts.Preemptions++
	if q.cfg.Debug {
		q.emit(Preempted{Transport: l.Name, Current: current, By: by, Level: level})
	}
}

// start hands an entry to the host.
func (q *Qmgr) start(l *flows.Lane, e *sched.Entry) {
	t, d, m := transportOf(&l.Lane), queueOf(e.Destination()), messageOf(e.Message)
	if t.cfg.Scheduler == sched.Preemptive {
		q.stagger(e)
	}
	q.lastEntry++
	v := q.stocks.deliveries.Take()
	v.id, v.entry, v.started = q.lastEntry, e, q.now
	q.busy[v.id] = v
	l.Start(e)
	l.Served(e)
	if t.cfg.Scheduler == sched.RoundRobin {
		t.queues.Turned(&d.inOrder)
	}
	q.countWarmup(d, v)
	if d.site == nil {
		v.attempt = d.window.Begin(d.Busy)
	}
	if m.callout == nil {
		q.counts.Started++
	}
	if m.flow != nil {
		m.flow.StartedAfter(q.now.Sub(m.Queued))
	}
	if t.group != nil {
		q.send(t, v)
		if m.flow != nil {
			q.spread(d)
		}
	} else {
		q.emit(Deliver{Entry: v.id, Delivery: deliveryOf(t, e)})
	}
	q.counted(e)
	l.PassOn(&d.Destination)
}

// deliveryOf is what the host has to know of an entry.
func deliveryOf(t *transport, e *sched.Entry) mail.Delivery {
	m, d := messageOf(e.Message), queueOf(e.Destination())
	return mail.Delivery{
		Transport:  t.Name,
		Nexthop:    d.nexthop,
		Source:     d.source.String(),
		Security:   d.security,
		Envelope:   m.env,
		Recipients: append([]mail.Recipient(nil), e.Recipients...),
		Origin:     d.instead,
		Said:       d.said,
		Callout:    m.callout != nil,
	}
}

// schedule starts deliveries as long as there is something that may start.
// Transports take turns.
func (q *Qmgr) schedule() {
	for !q.halt && !q.paused.Pending() {
		t := q.nextReady()
		if t == nil {
			// Connections that are taken over make room; mail whose destination
			// cannot be reached is deferred, which is a delivery, too.
			taken := q.connect()
			q.advanceAll()
			if t = q.nextReady(); t == nil && taken {
				continue
			}
		}
		if t == nil || !q.mayStart() {
			return
		}
		q.serve(t)
		q.overflow()
	}
}

// nextReady returns the next transport, in turn, that could start a delivery.
// The turn goes to the one behind it.
func (q *Qmgr) nextReady() *transport {
	q.stale.Refresh()
	for t := q.ring.Front(); t != nil; t = q.ring.Next(&t.inRing) {
		if t.ready() {
			q.ring.RotateAfter(&t.inRing)
			return t
		}
	}
	return nil
}

// agentReady gives an offered agent something to do.
func (q *Qmgr) agentReady(name string) {
	t := q.transports[name]
	if t == nil || q.halt {
		return
	}
	assert.That(t.cfg.Agents == AgentsOffered, "an agent of %s is offered, which has its own", name)
	if q.paused.Pending() || t.dead() {
		return
	}
	q.runDeadlines(true)
	q.serve(t)
}

// selectTransport says which transport should be given an agent: the first, in
// turn, that has more entries to start than agents on their way.
func (q *Qmgr) selectTransport(pending map[string]int) {
	q.stale.Refresh()
	for t := range q.ring.All() {
		if t.delay.MayAsk(pending[t.Name], maxPending) && t.offers(pending[t.Name], q.cfg.AsPostfix) {
			q.ring.RotateAfter(&t.inRing)
			if t.cfg.TransportRateDelay > 0 {
				t.delay.Asked()
			}
			q.emit(Selected{Transport: t.Name})
			return
		}
	}
	q.emit(Selected{})
}

// maxPending is the maximum number of agents of a transport that are on their way.
const maxPending = 2

// offers reports whether the transport has an entry to start for one more agent.
//
// In Postfix a destination that has more deliveries under way than its window
// allows now counts against the others, if it came about before them, so that it
// may hide their work.
func (t *transport) offers(pending int, asPostfix bool) bool {
	switch {
	case t.paused:
		return false
	case t.cfg.Scheduler == sched.Runner:
		return pending == 0 && t.First().CanRun()
	case !asPostfix:
		return t.Startable > pending
	}
	need := pending + 1
	for d := range t.destinations() {
		if d.ready() {
			need -= min(d.window.Size()-d.Busy, d.Waiting)
		}
		if need <= 0 {
			return true
		}
	}
	return false
}
