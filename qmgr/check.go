package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Check walks the whole structure and panics where an invariant does not hold.
// Tests and simulations call it after every Step; it takes linear time.
func (q *Qmgr) Check() {
	inCore, surplus := 0, 0
	slots, underWay := make(map[*transport]int), make(map[*message]int)
	for _, e := range q.busy { //archtest:anyorder sums
		underWay[e.message] += len(e.recipients)
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
		assert.That(t.pool.unused+slots[t] == t.cfg.RecipientPool, "%s: %d slots unused and %d held of %d", t.name, t.pool.unused, slots[t], t.cfg.RecipientPool)
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
	running := make(map[*transport]*message)
	for _, e := range q.busy { //archtest:anyorder assertions
		t := e.queue().transport
		if t.cfg.Scheduler != Runner {
			continue
		}
		m := running[t]
		assert.That(m == nil || m == e.message, "%s: %v is under way before the last entry of another message has ended", t.name, e.message.id)
		running[t] = e.message
	}
}

// checkMessage checks a message, so many recipients of which are under way, and adds
// the slots that its jobs hold.
func (q *Qmgr) checkMessage(m *message, underWay int, slots map[*transport]int) {
	entries, recipients, limit := 0, underWay+len(m.unrouted)+m.routing.count, m.own
	for _, j := range m.jobs {
		waiting := 0
		limit += j.slots.limit
		slots[j.transport] += j.slots.limit
		j.peers.Check()
		j.servable.check()
		checkRing(&j.peers, (*peer).ringNumber)
		for p := range j.peers.All() {
			assert.That(p.entries > 0, "peer of %v without entries", m.id)
			assert.That(!p.served.taken() || p.queue.marking.roomy.taken() && p.queue.marking.first == p, "peer of %v for %s is servable", m.id, p.queue.name)
			assert.That(p.entries >= p.todo.Len(), "peer of %v: %d entries, %d wait", m.id, p.entries, p.todo.Len())
			assert.That(j.transport.queues[p.queue.name] == p.queue, "queue %s is gone, its peer is not", p.queue.nexthop)
			entries += p.entries
			waiting += p.todo.Len()
			for e := range p.todo.All() {
				recipients += len(e.recipients)
			}
		}
		assert.That(waiting == j.waiting(), "job of %v: %d entries wait, counted %d", m.id, waiting, j.waiting())
		assert.That(j.listed || waiting == 0 || j.transport.cfg.Scheduler == RoundRobin, "job of %v has entries and is not listed", m.id)
	}
	assert.That(limit == m.limit, "message %v may have %d recipients in core, counted %d", m.id, m.limit, limit)
	assert.That(entries == m.entries, "message %v has %d entries, counted %d", m.id, entries, m.entries)
	assert.That(m.reserved == 0 || m.awaits&awaitsRead != 0, "message %v has room for %d recipients that nobody reads", m.id, m.reserved)
	assert.That(m.reserved == 0 || q.roundRobin() || m.inCore+m.reserved <= m.limit, "message %v has %d recipients in core, %d are being read, and %d may be", m.id, m.inCore, m.reserved, m.limit)
	assert.That(recipients == m.inCore, "message %v has %d recipients in core, counted %d", m.id, recipients, m.inCore)
	assert.That(m.entries > 0 || m.awaits != 0 || m.routing.count > 0 || q.halt, "message %v waits for nothing", m.id)
}

func (t *transport) check(leftovers bool) {
	t.jobs.Check()
	t.servable.check()
	checkRing(&t.order, (*queue).ringNumber)
	t.jobsByTime.check()
	t.unread.check()
	assert.That(t.jobs.Len() == t.jobsByTime.count, "%s: %d jobs in order, %d by time", t.name, t.jobs.Len(), t.jobsByTime.count)
	startable, busy := 0, 0
	for _, d := range t.queues { //archtest:anyorder sums and assertions
		d.todo.Check()
		if d.site != nil {
			d.site.Check()
		}
		n := max(min(d.room(), d.todo.Len()), 0)
		assert.That(n == d.startable, "%s:%s: %d startable, counted %d", t.name, d.nexthop, n, d.startable)
		assert.That(!d.todo.Empty() || d.busy > 0 || d.window.State() != window.Ready || leftovers || d.inUse() || d.pace.slot.Heaped(), "%s:%s is idle and not freed", t.name, d.nexthop)
		assert.That(d.window.State() != window.Dead && !t.dead() || d.todo.Empty(), "%s:%s is dead and has entries", t.name, d.nexthop)
		assert.That((d.window.State() == window.Ready) != d.timer.slot.Heaped(), "%s:%s: state and timer disagree", t.name, d.nexthop)
		startable += n
		busy += d.busy
	}
	assert.That(startable == t.startable, "%s: %d startable, counted %d", t.name, startable, t.startable)
	assert.That(busy == t.busy, "%s: %d busy, counted %d", t.name, busy, t.busy)
	assert.That(t.dead() == t.outage.timer.slot.Heaped(), "%s: state and timer disagree", t.name)
	assert.That((t.lull.state == lullWaiting || t.lull.fresh) == t.lull.timer.slot.Heaped(), "%s: lull and timer disagree", t.name)
	assert.That(t.lull.state == lullFree || t.lull.state == lullTaken || t.cfg.TransportRateDelay > 0, "%s waits and has no rate delay", t.name)
	t.checkOrder()
	if t.startable > 0 && t.cfg.Scheduler == Preemptive {
		assert.That(t.current != nil, "%s: %d entries could start, but no job is current", t.name, t.startable)
	}
}

// checkOrder checks what is in list order.
func (t *transport) checkOrder() {
	t.special.check()
	t.roomy.check()
	t.open.Check()
	t.stacked.Check()
	beforeCurrent := true
	var previous, unstacked, earlier *job
	for j := range t.jobs.All() {
		assert.That(j.listed && j.transport == t, "%s lists a job that is not its own", t.name)
		assert.That(previous == nil || previous.label < j.label, "%s: labels do not grow", t.name)
		previous = j
		t.checkStack(j)
		t.checkFiling(j)
		t.checkBlocking(j)
		beforeCurrent = beforeCurrent && j != t.current
		assert.That(!beforeCurrent || t.blocked(j), "%s: job of %v stands before the current one and is not blocked", t.name, j.message.id)
		if j.stack.level == 0 {
			assert.That(unstacked == nil || !unstacked.after(j), "%s: jobs are not in the order of their age", t.name)
			unstacked = j
		}
	}
	for p := t.jobsByTime.first; p != nil; p = p.next() {
		j := p.elem
		assert.That(j.unread.taken() == j.message.more, "%s: job of %v has unread recipients: %t", t.name, j.message.id, j.unread.taken())
		assert.That(earlier == nil || !earlier.after(j), "%s: the list by time is not", t.name)
		earlier = j
	}
	for _, d := range t.queues { //archtest:anyorder assertions
		t.checkMarking(d)
	}
}

func (t *transport) checkStack(j *job) {
	j.stack.children.Check()
	assert.That(j.stack.parent == nil || j.stack.parent.listed, "%s: a job's parent is not listed", t.name)
	assert.That(j.stack.level > 0 || j.stack.parent == nil, "%s: a job of level 0 has a parent", t.name)
}

func (t *transport) checkBlocking(j *job) {
	m, id := j.message, j.message.id
	assert.That(!j.blocking.openIn.Listed() || j.label < t.passed, "%s: job of %v is open without need", t.name, id)
	special := j.waiting() == 0 || m.more && m.limit > m.inCore
	assert.That(j.blocking.special.taken() == special, "%s: job of %v is special: %t", t.name, id, special)
	if t.exact {
		assert.That(t.blocked(j) == (j.blocking.tag == t.tag), "%s: job of %v has tag %d of %d, blocked %t", t.name, id, j.blocking.tag, t.tag, t.blocked(j))
	}
	for p := range j.peers.All() {
		assert.That(p.waiting.taken() == !p.todo.Empty(), "%s: a peer of %v waits: %t", t.name, id, p.waiting.taken())
		assert.That(!t.blocked(j) || p.todo.Empty() || !p.queue.hasRoom(), "%s: job of %v is blocked and could be served", t.name, id)
	}
}

// checkRing checks that numbers grow once round a ring.
func checkRing[T any](l *ilist.List[T], number func(*T) *uint64) {
	descents, last := 0, uint64(0)
	for e := range l.All() {
		assert.That(*number(e) != last, "two elements of a ring have the number %d", last)
		if *number(e) < last {
			descents++
		}
		last = *number(e)
	}
	assert.That(descents == 0 || descents == 1 && last < *number(l.Front()), "numbers fall %d times along a ring", descents)
}

func (t *transport) checkMarking(d *queue) {
	first := d.marking.waiting.first.element()
	assert.That(!d.marking.roomy.taken() || d.marking.first == first && first.served.taken(), "%s:%s: its first peer is not known to be servable", t.name, d.name)
	if t.cfg.Scheduler == RoundRobin {
		assert.That(d.served.taken() == (d.startable > 0), "%s:%s takes part: %t", t.name, d.name, d.served.taken())
	}
	d.marking.waiting.check()
	assert.That(d.marking.roomy.taken() == (d.startable > 0), "%s:%s is ready: %t", t.name, d.name, d.marking.roomy.taken())
	assert.That(d.startable == 0 || d.marking.roomy.job == d.marking.waiting.first.job, "%s:%s is ready in the wrong place", t.name, d.name)
	if t.exact {
		assert.That(t.marked(d) == (d.marking.tag == t.tag), "%s:%s has tag %d of %d, marked %t", t.name, d.name, d.marking.tag, t.tag, t.marked(d))
	}
}
