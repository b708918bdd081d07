package sched

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// Check panics where an invariant of a lane does not hold. It takes linear time.
func (l *Lane) Check() {
	l.jobs.Check()
	l.servable.check()
	checkRing(&l.order, (*Destination).ringNumber)
	l.jobsByTime.check()
	l.unread.check()
	assert.That(l.jobs.Len() == l.jobsByTime.count, "%s: %d jobs in order, %d by time", l.Name, l.jobs.Len(), l.jobsByTime.count)
	var sum Load
	for d := range l.order.All() {
		d.Todo.Check()
		n := max(min(d.Outlet.Room(), d.Todo.Len()), 0)
		assert.That(n == d.Startable, "%s:%s: %d startable, counted %d", l.Name, d.Name, n, d.Startable)
		assert.That(d.Todo.Len() == d.Waiting, "%s:%s: %d wait, counted %d", l.Name, d.Name, d.Todo.Len(), d.Waiting)
		sum.Waiting += d.Waiting
		sum.Startable += n
		sum.Busy += d.Busy
	}
	assert.That(sum == l.Load, "%s: %+v, counted %+v", l.Name, sum, l.Load)
	l.checkOrder()
	assert.That(l.pool.unread == nil || l.pool.unused <= 0, "%s: %d recipient slots are unused, and a message has unread recipients", l.Name, l.pool.unused)
	if l.Startable > 0 && l.Scheduler == Preemptive {
		assert.That(l.current != nil, "%s: %d entries could start, but no job is current", l.Name, l.Startable)
	}
}

// checkOrder checks what is in list order.
func (l *Lane) checkOrder() {
	l.special.check()
	l.roomy.check()
	l.open.Check()
	l.stacked.Check()
	beforeCurrent := true
	var previous, unstacked, earlier *Job
	for j := range l.jobs.All() {
		assert.That(j.listed && j.lane == l, "%s lists a job that is not its own", l.Name)
		assert.That(previous == nil || previous.label < j.label, "%s: labels do not grow", l.Name)
		previous = j
		l.checkStack(j)
		l.checkFiling(j)
		l.checkBlocking(j)
		beforeCurrent = beforeCurrent && j != l.current
		assert.That(!beforeCurrent || l.blocked(j), "%s: job of %v stands before the current one and is not blocked", l.Name, j.message.ID)
		if j.stack.level == 0 {
			assert.That(unstacked == nil || !unstacked.after(j), "%s: jobs are not in the order of their age", l.Name)
			unstacked = j
		}
	}
	for p := l.jobsByTime.first; p != nil; p = p.next() {
		j := p.elem
		assert.That(j.unread.taken() == j.message.More, "%s: job of %v has unread recipients: %t", l.Name, j.message.ID, j.unread.taken())
		assert.That(earlier == nil || !earlier.after(j), "%s: the list by time is not", l.Name)
		earlier = j
	}
	for d := range l.order.All() {
		l.checkMarking(d)
	}
}

func (l *Lane) checkStack(j *Job) {
	j.stack.children.Check()
	assert.That(j.stack.parent == nil || j.stack.parent.listed, "%s: a job's parent is not listed", l.Name)
	assert.That(j.stack.level > 0 || j.stack.parent == nil, "%s: a job of level 0 has a parent", l.Name)
}

func (l *Lane) checkBlocking(j *Job) {
	m, id := j.message, j.message.ID
	assert.That(!j.blocking.openIn.Listed() || j.label < l.passed, "%s: job of %v is open without need", l.Name, id)
	special := j.waiting() == 0 || m.More && m.Limit > m.InCore
	assert.That(j.blocking.special.taken() == special, "%s: job of %v is special: %t", l.Name, id, special)
	if l.exact {
		assert.That(l.blocked(j) == (j.blocking.tag == l.tag), "%s: job of %v has tag %d of %d, blocked %t", l.Name, id, j.blocking.tag, l.tag, l.blocked(j))
	}
	for p := range j.peers.All() {
		assert.That(p.waiting.taken() == !p.Todo.Empty(), "%s: a peer of %v waits: %t", l.Name, id, p.waiting.taken())
		assert.That(!l.blocked(j) || p.Todo.Empty() || !p.Destination.hasRoom(), "%s: job of %v is blocked and could be served", l.Name, id)
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

func (l *Lane) checkMarking(d *Destination) {
	first := d.marking.waiting.first.element()
	assert.That(!d.marking.roomy.taken() || d.marking.first == first && first.served.taken(), "%s:%s: its first peer is not known to be servable", l.Name, d.Name)
	if l.Scheduler == RoundRobin {
		assert.That(d.served.taken() == (d.Startable > 0), "%s:%s takes part: %t", l.Name, d.Name, d.served.taken())
	}
	d.marking.waiting.check()
	assert.That(d.marking.roomy.taken() == (d.Startable > 0), "%s:%s is ready: %t", l.Name, d.Name, d.marking.roomy.taken())
	assert.That(d.Startable == 0 || d.marking.roomy.job == d.marking.waiting.first.job, "%s:%s is ready in the wrong place", l.Name, d.Name)
	if l.exact {
		assert.That(l.marked(d) == (d.marking.tag == l.tag), "%s:%s has tag %d of %d, marked %t", l.Name, d.Name, d.marking.tag, l.tag, l.marked(d))
	}
}

// Check panics where an invariant of a message does not hold, so many recipients of
// which are under way, and adds the slots that its jobs hold.
func (m *Message) Check(underWay int, slots map[*Lane]int) {
	entries, recipients, limit := 0, underWay+m.Unbound, m.Own
	for _, j := range m.jobs {
		waiting := 0
		limit += j.slots.limit
		slots[j.lane] += j.slots.limit
		j.peers.Check()
		j.servable.check()
		checkRing(&j.peers, (*Peer).ringNumber)
		for p := range j.peers.All() {
			assert.That(p.entries > 0, "peer of %v without entries", m.ID)
			assert.That(!p.served.taken() || p.Destination.marking.roomy.taken() && p.Destination.marking.first == p, "peer of %v for %s is servable", m.ID, p.Destination.Name)
			assert.That(p.entries >= p.Todo.Len(), "peer of %v: %d entries, %d wait", m.ID, p.entries, p.Todo.Len())
			entries += p.entries
			waiting += p.Todo.Len()
			for e := range p.Todo.All() {
				recipients += len(e.Recipients)
			}
		}
		assert.That(waiting == j.waiting(), "job of %v: %d entries wait, counted %d", m.ID, waiting, j.waiting())
		assert.That(j.listed || waiting == 0 || j.lane.Scheduler == RoundRobin, "job of %v has entries and is not listed", m.ID)
	}
	assert.That(limit == m.Limit, "message %v may have %d recipients in core, counted %d", m.ID, m.Limit, limit)
	assert.That(entries == m.Entries, "message %v has %d entries, counted %d", m.ID, entries, m.Entries)
	assert.That(recipients == m.InCore, "message %v has %d recipients in core, counted %d", m.ID, recipients, m.InCore)
}

// CheckSlots panics unless the unused slots and those that jobs hold add up to the pool.
func (l *Lane) CheckSlots(held int) {
	p := &l.pool
	assert.That(p.unused+held == l.rules.RecipientPool, "%s: %d slots unused and %d held of %d", l.Name, p.unused, held, l.rules.RecipientPool)
}
