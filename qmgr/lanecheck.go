package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// check panics where an invariant of a lane does not hold. It takes linear time.
func (l *lane) check() {
	l.jobs.Check()
	l.servable.check()
	checkRing(&l.order, (*dest).ringNumber)
	l.jobsByTime.check()
	l.unread.check()
	assert.That(l.jobs.Len() == l.jobsByTime.count, "%s: %d jobs in order, %d by time", l.name, l.jobs.Len(), l.jobsByTime.count)
	startable, busy := 0, 0
	for d := range l.order.All() {
		d.todo.Check()
		n := max(min(d.owner.room(), d.todo.Len()), 0)
		assert.That(n == d.startable, "%s:%s: %d startable, counted %d", l.name, d.name, n, d.startable)
		startable += n
		busy += d.busy
	}
	assert.That(startable == l.startable, "%s: %d startable, counted %d", l.name, startable, l.startable)
	assert.That(busy == l.busy, "%s: %d busy, counted %d", l.name, busy, l.busy)
	l.checkOrder()
	if l.startable > 0 && l.scheduler == Preemptive {
		assert.That(l.current != nil, "%s: %d entries could start, but no job is current", l.name, l.startable)
	}
}

// checkOrder checks what is in list order.
func (l *lane) checkOrder() {
	l.special.check()
	l.roomy.check()
	l.open.Check()
	l.stacked.Check()
	beforeCurrent := true
	var previous, unstacked, earlier *job
	for j := range l.jobs.All() {
		assert.That(j.listed && j.lane == l, "%s lists a job that is not its own", l.name)
		assert.That(previous == nil || previous.label < j.label, "%s: labels do not grow", l.name)
		previous = j
		l.checkStack(j)
		l.checkFiling(j)
		l.checkBlocking(j)
		beforeCurrent = beforeCurrent && j != l.current
		assert.That(!beforeCurrent || l.blocked(j), "%s: job of %v stands before the current one and is not blocked", l.name, j.message.id)
		if j.stack.level == 0 {
			assert.That(unstacked == nil || !unstacked.after(j), "%s: jobs are not in the order of their age", l.name)
			unstacked = j
		}
	}
	for p := l.jobsByTime.first; p != nil; p = p.next() {
		j := p.elem
		assert.That(j.unread.taken() == j.message.more, "%s: job of %v has unread recipients: %t", l.name, j.message.id, j.unread.taken())
		assert.That(earlier == nil || !earlier.after(j), "%s: the list by time is not", l.name)
		earlier = j
	}
	for d := range l.order.All() {
		l.checkMarking(d)
	}
}

func (l *lane) checkStack(j *job) {
	j.stack.children.Check()
	assert.That(j.stack.parent == nil || j.stack.parent.listed, "%s: a job's parent is not listed", l.name)
	assert.That(j.stack.level > 0 || j.stack.parent == nil, "%s: a job of level 0 has a parent", l.name)
}

func (l *lane) checkBlocking(j *job) {
	m, id := j.message, j.message.id
	assert.That(!j.blocking.openIn.Listed() || j.label < l.passed, "%s: job of %v is open without need", l.name, id)
	special := j.waiting() == 0 || m.more && m.limit > m.inCore
	assert.That(j.blocking.special.taken() == special, "%s: job of %v is special: %t", l.name, id, special)
	if l.exact {
		assert.That(l.blocked(j) == (j.blocking.tag == l.tag), "%s: job of %v has tag %d of %d, blocked %t", l.name, id, j.blocking.tag, l.tag, l.blocked(j))
	}
	for p := range j.peers.All() {
		assert.That(p.waiting.taken() == !p.todo.Empty(), "%s: a peer of %v waits: %t", l.name, id, p.waiting.taken())
		assert.That(!l.blocked(j) || p.todo.Empty() || !p.queue.hasRoom(), "%s: job of %v is blocked and could be served", l.name, id)
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

func (l *lane) checkMarking(d *dest) {
	first := d.marking.waiting.first.element()
	assert.That(!d.marking.roomy.taken() || d.marking.first == first && first.served.taken(), "%s:%s: its first peer is not known to be servable", l.name, d.name)
	if l.scheduler == RoundRobin {
		assert.That(d.served.taken() == (d.startable > 0), "%s:%s takes part: %t", l.name, d.name, d.served.taken())
	}
	d.marking.waiting.check()
	assert.That(d.marking.roomy.taken() == (d.startable > 0), "%s:%s is ready: %t", l.name, d.name, d.marking.roomy.taken())
	assert.That(d.startable == 0 || d.marking.roomy.job == d.marking.waiting.first.job, "%s:%s is ready in the wrong place", l.name, d.name)
	if l.exact {
		assert.That(l.marked(d) == (d.marking.tag == l.tag), "%s:%s has tag %d of %d, marked %t", l.name, d.name, d.marking.tag, l.tag, l.marked(d))
	}
}
