package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Check walks the whole structure and panics where an invariant does not hold.
// Tests and simulations call it after every Step; it takes linear time.
func (q *Qmgr) Check() {
	inCore, surplus := 0, 0
	slots, underWay := make(map[*lane]int), make(map[*message]int)
	for _, v := range q.busy { //archtest:anyorder sums
		underWay[v.entry.message.owner] += len(v.entry.recipients)
	}
	for _, m := range q.messages { //archtest:anyorder a sum and assertions
		q.checkMessage(m, underWay[m], slots)
		if m.callout == nil {
			inCore += m.inCore
		}
		surplus += m.surplus()
	}
	assert.That(surplus == q.surplus.used, "%d recipients beyond the minimum, counted %d", q.surplus.used, surplus)
	if !q.cfg.AsPostfix {
		assert.That(surplus <= max(q.surplus.most, q.surplus.granted), "%d recipients beyond the minimum, %d may be", surplus, q.surplus.most)
	}
	assert.That(inCore == q.recipients, "%d recipients in core, counted %d", inCore, q.recipients)
	q.checkLapses()
	q.checkLookups()
	q.calling.check(q.messages)
	q.debts.check(q.messages)
	q.words.check(q.messages)
	q.ring.Check()
	q.timers.Check()
	q.conns.Check()
	for t := range q.ring.All() {
		assert.That(q.halt || q.leftover || q.paused.job != nil || !t.ready(), "%s could start a delivery and does not", t.name)
	}
	q.checkHeld()
	q.checkRuns()
	busy, queues := 0, 0
	for t := range q.ring.All() {
		t.check(q.cfg.AsPostfix && t.name == TransportRetry)
		assert.That(t.pool.unused+slots[&t.lane] == t.cfg.RecipientPool, "%s: %d slots unused and %d held of %d", t.name, t.pool.unused, slots[&t.lane], t.cfg.RecipientPool)
		queues += len(t.queues)
		busy += t.busy
	}
	assert.That(queues == q.queues, "%d destinations, counted %d", q.queues, queues)
	assert.That(busy == len(q.busy), "%d deliveries busy, counted %d", len(q.busy), busy)
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
		assert.That(held[m] == m.held, "message %v holds %d connections, counted %d", m.id, held[m], m.held)
	}
}

// checkRuns checks that a transport whose scheduler is Runner has one message
// under way.
func (q *Qmgr) checkRuns() {
	running := make(map[*transport]*load)
	for _, v := range q.busy { //archtest:anyorder assertions
		e := v.entry
		t := e.queue().transport
		if t.scheduler != Runner {
			continue
		}
		m := running[t]
		assert.That(m == nil || m == e.message, "%s: %v is under way before the last entry of another message has ended", t.name, e.message.id)
		running[t] = e.message
	}
}

// checkMessage checks a message, so many recipients of which are under way, and adds
// the slots that its jobs hold.
func (q *Qmgr) checkMessage(m *message, underWay int, slots map[*lane]int) {
	entries, recipients, limit := 0, underWay+m.unbound, m.own
	assert.That(m.unbound == len(m.unrouted)+m.routing.count, "message %v has %d recipients that are in no entry, counted %d", m.id, len(m.unrouted)+m.routing.count, m.unbound)
	assert.That(m.reading == (m.awaits&awaitsRead != 0), "message %v is being read: %t", m.id, m.reading)
	for _, j := range m.jobs {
		waiting := 0
		limit += j.slots.limit
		slots[j.lane] += j.slots.limit
		j.peers.Check()
		j.servable.check()
		checkRing(&j.peers, (*peer).ringNumber)
		for p := range j.peers.All() {
			assert.That(p.entries > 0, "peer of %v without entries", m.id)
			assert.That(!p.served.taken() || p.queue.marking.roomy.taken() && p.queue.marking.first == p, "peer of %v for %s is servable", m.id, p.queue.name)
			assert.That(p.entries >= p.todo.Len(), "peer of %v: %d entries, %d wait", m.id, p.entries, p.todo.Len())
			assert.That(j.lane.owner.queues[p.queue.name] == p.queue.owner, "queue %s is gone, its peer is not", p.queue.name)
			entries += p.entries
			waiting += p.todo.Len()
			for e := range p.todo.All() {
				recipients += len(e.recipients)
			}
		}
		assert.That(waiting == j.waiting(), "job of %v: %d entries wait, counted %d", m.id, waiting, j.waiting())
		assert.That(j.listed || waiting == 0 || j.lane.scheduler == RoundRobin, "job of %v has entries and is not listed", m.id)
	}
	assert.That(limit == m.limit, "message %v may have %d recipients in core, counted %d", m.id, m.limit, limit)
	assert.That(entries == m.entries, "message %v has %d entries, counted %d", m.id, entries, m.entries)
	assert.That(m.reserved == 0 || m.awaits&awaitsRead != 0, "message %v has room for %d recipients that nobody reads", m.id, m.reserved)
	assert.That(m.reserved == 0 || q.roundRobin() || m.inCore+m.reserved <= m.limit, "message %v has %d recipients in core, %d are being read, and %d may be", m.id, m.inCore, m.reserved, m.limit)
	assert.That(recipients == m.inCore, "message %v has %d recipients in core, counted %d", m.id, recipients, m.inCore)
	assert.That(m.entries > 0 || m.awaits != 0 || m.routing.count > 0 || q.halt, "message %v waits for nothing", m.id)
}

func (t *transport) check(leftovers bool) {
	t.lane.check()
	for _, d := range t.queues { //archtest:anyorder assertions
		if d.site != nil {
			d.site.Check()
		}
		assert.That(!d.todo.Empty() || d.busy > 0 || d.window.State() != window.Ready || leftovers || d.inUse() || d.pace.slot.Heaped(), "%s:%s is idle and not freed", t.name, d.nexthop)
		assert.That(d.window.State() != window.Dead && !t.dead() || d.todo.Empty(), "%s:%s is dead and has entries", t.name, d.nexthop)
		assert.That((d.window.State() == window.Ready) != d.timer.slot.Heaped(), "%s:%s: state and timer disagree", t.name, d.nexthop)
	}
	assert.That(t.order.Len() == len(t.queues), "%s: %d destinations in order, %d by name", t.name, t.order.Len(), len(t.queues))
	assert.That(t.dead() == t.outage.timer.slot.Heaped(), "%s: state and timer disagree", t.name)
	assert.That((t.lull.state == lullWaiting || t.lull.fresh) == t.lull.timer.slot.Heaped(), "%s: lull and timer disagree", t.name)
	assert.That(t.lull.state == lullFree || t.lull.state == lullTaken || t.cfg.TransportRateDelay > 0, "%s waits and has no rate delay", t.name)
}
