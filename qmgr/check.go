package qmgr

import (
	"iter"
	"maps"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/callout"
	"github.com/posthaste-mta/posthaste/qmgr/directory"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Check walks the whole structure and panics where an invariant does not hold.
// Tests and simulations call it after every Step; it takes linear time.
func (q *Qmgr) Check() {
	slots, underWay := make(map[*sched.Lane]int), make(map[*message]int)
	for _, v := range q.busy { //archtest:anyorder sums
		underWay[messageOf(v.entry.Message)] += len(v.entry.Recipients)
	}
	for _, m := range q.messages { //archtest:anyorder a sum and assertions
		q.checkMessage(m, underWay[m], slots)
	}
	assert.That(len(q.attended) == 0, "a Step has left %d messages", len(q.attended))
	q.room.Recipients.Check(q.mail())
	q.checkAdmission()
	q.flows.Check(q.lanes())
	q.checkDeadlines()
	q.lookups.Check(q.routings(), q.InCore)
	q.checkCallouts()
	q.checkDebts()
	q.checkOrders()
	q.texts.Check(func(yield func(*mail.Outcome) bool) {
		for _, m := range q.messages { //archtest:anyorder for sums
			for i := range m.outcomes {
				if !yield(&m.outcomes[i]) {
					return
				}
			}
		}
	})
	q.ring.Check()
	q.timers.Check()
	q.conns.Check(maps.Keys(q.sites)) //archtest:anyorder assertions
	for t := range q.ring.All() {
		assert.That(q.halt || q.leftover || q.paused.Pending() || !t.ready(), "%s could start a delivery and does not", t.Name)
	}
	q.checkHeld()
	q.checkWanted()
	q.checkRuns()
	q.sources.Check()
	q.checkMeasures()
	q.checkSuspensions()
	busy, queues := 0, 0
	for t := range q.ring.All() {
		t.check(q.cfg.AsPostfix && t.Name == TransportRetry)
		t.CheckSlots(slots)
		queues += t.queues.Len()
		busy += t.Busy
	}
	assert.That(queues == q.queues, "%d destinations, counted %d", q.queues, queues)
	assert.That(busy == len(q.busy), "%d deliveries busy, counted %d", len(q.busy), busy)
}

// lanes are what flows have of all transports.
func (q *Qmgr) lanes() iter.Seq[*flows.Transport] {
	return func(yield func(*flows.Transport) bool) {
		for t := range q.ring.All() {
			if !yield(&t.Transport) {
				return
			}
		}
	}
}

// checkMeasures checks that destinations do what is demanded of them, and nothing else.
func (q *Qmgr) checkMeasures() {
	q.measured.Check()
	for t := range q.ring.All() {
		for d := range t.destinations() {
			var has measure.Record
			if d.checkDetour(); d.main != nil {
				continue
			}
			if d.measures != nil {
				has = d.measures.Record
				assert.That(has != measure.Record{} || d.measures.timer.Running(), "%s:%s has measures that demand nothing", t.Name, d.nexthop)
			}
			assert.That(has == q.measured.Get(d.measureKey()), "%s:%s has the measures %+v, and the table %+v", t.Name, d.nexthop, has, q.measured.Get(d.measureKey()))
			assert.That(!d.resting(q.now) || d.dead(), "%s:%s is to rest, and is not dead", t.Name, d.nexthop)
		}
	}
}

// mail are the messages in core that are mail.
func (q *Qmgr) mail() iter.Seq[*sched.Message] {
	return func(yield func(*sched.Message) bool) {
		for _, m := range q.messages { //archtest:anyorder for sums
			if m.callout == nil && !yield(&m.Message) {
				return
			}
		}
	}
}

// routings are the recipients of all messages that wait for lookups.
func (q *Qmgr) routings() iter.Seq2[*sched.Message, *intake.Routing] {
	return func(yield func(*sched.Message, *intake.Routing) bool) {
		for _, m := range q.messages { //archtest:anyorder for assertions
			if !yield(&m.Message, &m.routing) {
				return
			}
		}
	}
}

func (q *Qmgr) checkCallouts() {
	inCore := make(map[mail.QueueID]*callout.Callout)
	for id, m := range q.messages { //archtest:anyorder a copy
		if m.callout != nil {
			inCore[id] = m.callout
		}
	}
	q.desk.Check(inCore)
}

// checkHeld checks how many connections each message holds.
func (q *Qmgr) checkHeld() {
	held := make(map[*message]int)
	for c := range q.conns.All() {
		if m := q.messages[c.Message()]; m != nil && m.serial == q.dialling[c.ID].message {
			held[m]++
		}
		seen := make(map[*message]bool)
		for _, l := range c.Loads() {
			if m := q.messages[l.Message]; !seen[m] {
				seen[m] = true
				held[m]++
			}
		}
	}
	for _, m := range q.messages { //archtest:anyorder assertions
		assert.That(held[m] == m.held, "message %v holds %d connections, counted %d", m.ID, held[m], m.held)
	}
}

// checkWanted checks that a destination that has use for a connection waits for one.
func (q *Qmgr) checkWanted() {
	if q.halt || q.leftover || q.paused.Pending() {
		return
	}
	for s, d := range q.sites { //archtest:anyorder assertions
		if !d.eager() || !s.Wants(d.Waiting) || d.whole().resolving || s.Waits() {
			continue
		}
		_, may := q.ask(d)
		assert.That(!may, "%s:%s has %d entries waiting and asks for no connection", d.transport.Name, d.name, d.Waiting)
	}
}

// checkRuns checks that a transport whose scheduler is Runner has one message
// under way.
func (q *Qmgr) checkRuns() {
	running := make(map[*transport]*sched.Message)
	for _, v := range q.busy { //archtest:anyorder assertions
		e := v.entry
		t := queueOf(e.Destination()).transport
		if t.cfg.Scheduler != sched.Runner {
			continue
		}
		m := running[t]
		assert.That(m == nil || m == e.Message, "%s: %v is under way before the last entry of another message has ended", t.Name, e.Message.ID)
		running[t] = e.Message
	}
}

// checkMessage checks a message, so many recipients of which are under way, and adds
// the slots that its jobs hold.
func (q *Qmgr) checkMessage(m *message, underWay int, slots map[*sched.Lane]int) {
	m.Message.Check(underWay, slots)
	assert.That(m.Unbound == len(m.unrouted)+m.routing.Len(), "message %v has %d recipients that are in no entry, counted %d", m.ID, len(m.unrouted)+m.routing.Len(), m.Unbound)
	assert.That(m.Reading == (m.awaits&awaitsRead != 0), "message %v is being read: %t", m.ID, m.Reading)
	assert.That(m.Reserved == 0 || m.Reading, "message %v has room for %d recipients that are not being read", m.ID, m.Reserved)
	assert.That(m.Reserved == 0 || q.cfg.readsInTurn() || m.InCore+m.Reserved <= m.Limit, "message %v has %d recipients in core, %d are being read, and %d may be", m.ID, m.InCore, m.Reserved, m.Limit)
	for p := range m.Peers() {
		d := queueOf(p.Destination)
		assert.That(d.transport.queues.Get(d.key()) == d, "queue %s is gone, its peer is not", d.name)
	}
	assert.That(!(m.stuck && m.warming || m.stuck && m.suspended || m.warming && m.suspended), "all recipients of message %v are put off for two reasons", m.ID)
	assert.That(m.Entries > 0 || m.awaits != 0 || m.routing.Len() > 0 || q.halt, "message %v waits for nothing", m.ID)
}

// checkAdmission checks how buckets share the core.
func (q *Qmgr) checkAdmission() {
	q.admission.Check()
	mails, retries, inCore := 0, 0, make(map[*intake.Account]int)
	for _, m := range q.messages { //archtest:anyorder sums
		if m.callout == nil {
			mails++
		}
		if m.from.Line() == intake.LineRetries {
			retries++
		}
		if m.account != nil {
			inCore[m.account]++
		}
	}
	q.room.Check(mails, retries)
	q.admission.CheckAccounts(inCore)
}

func (t *transport) check(leftovers bool) {
	t.Transport.Check()
	var sum sched.Load
	for d := range t.destinations() {
		sum.Add(d.Load)
		d.Destination.Check()
		assert.That(d.spreading.Pausing() == d.spreading.pause.Running(), "%s: a pause between starts and its timer disagree", d.name)
	}
	assert.That(sum == t.Load, "%s: %+v, counted %+v", t.Name, sum, t.Load)
	t.queues.Check(func(d *queue) directory.Key { return d.key() })
	for d := range t.destinations() {
		assert.That(d.Waiting > 0 || d.Busy > 0 || d.window.State() != window.Ready || leftovers || d.inUse() || d.pace.Running() || d.measures != nil, "%s:%s is idle and not freed", t.Name, d.nexthop)
		assert.That(d.window.State() != window.Dead && !t.dead() || d.Waiting == 0, "%s:%s is dead and has entries", t.Name, d.nexthop)
		assert.That(d.Waiting == 0 || d.source == nil || d.source.Up(), "%s:%s waits for source %s, which is withdrawn", t.Name, d.nexthop, d.source.String())
		assert.That((d.window.State() == window.Ready) != d.timer.Running(), "%s:%s: state and timer disagree", t.Name, d.nexthop)
	}
	assert.That(t.dead() == t.outage.timer.Running(), "%s: state and timer disagree", t.Name)
	assert.That(t.delay.Timed() == t.delay.timer.Running(), "%s: delay and timer disagree", t.Name)
	assert.That(t.delay.None() || t.cfg.TransportRateDelay > 0, "%s waits and has no rate delay", t.Name)
}
