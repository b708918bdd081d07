package sched

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// Preemption lets mail with few recipients slip past mail with many, and bounds
// what that costs the latter.
//
// For every k entries that are selected of a job it earns one delivery slot,
// which another job may use: k is the slot cost. When a job has earned as many
// slots as some job behind it needs in all, that job may go first. So n entries of
// a job pay for n/k entries of others. These may be preempted in turn, at the price
// of n/k² more, and so on; as 1/k + 1/k² + … = 1/(k-1), the job is delayed by at
// most 1/(k-1) of its own turns, that is by a factor of k/(k-1).
//
// Slots could be spent one by one as they are earned. They are saved up instead:
// the sequence 111…1 is no worse for the big job than 1.1.1.1, and a job that has
// begun is not overtaken by one that came later and needs just as much. A loan
// and a discount let a job go before all of its slots have been earned; they are
// charged in full all the same.
//
// The counters below are in units of one selected entry, k of which make a slot,
// so that nothing is lost by rounding.

// stacking is a job's part in preemption.
type stacking struct {
	parent   *Job // the job that this one has preempted, or that adopted it
	children ilist.List[Job]
	sibling  ilist.Link[Job] // on parent.stack.children
	// level is 0 for a job that has preempted no other. One whose parent has left
	// keeps its level.
	level int
	// available is what the job has earned and not spent. Negative after a loan.
	available int
	// used is, while the job stands on a stack, the entries selected since minus
	// the entries that it was expected to need.
	used int
}

// candidateCache remembers the answer of the search for a candidate. It holds
// for the same current job and the same second; that there is none holds until
// something changes.
type candidateCache struct {
	candidate, current *Job
	second             int64
}

func (c *candidateCache) reset() { c.current = nil }

func (c *candidateCache) valid(current *Job, now mail.Instant) bool {
	return c.current == current && (c.second == now.Seconds() || c.candidate == nil)
}

// preempt returns the job to select from: the current one, or one that goes
// first at its expense.
func (l *Lane) preempt(current *Job, now mail.Instant) *Job {
	rules, s := &l.rules, &current.stack
	if rules.SlotCost < 2 || s.available <= 0 || current.most() < rules.MinimumSlots*rules.SlotCost {
		return current
	}
	j := l.candidate(current, now)
	if j == nil {
		return current
	}
	need := j.need()
	// floor(available/k) + loan < need × (100 − discount)/100, in whole numbers.
	if (s.available/rules.SlotCost+rules.SlotLoan)*100 < need*(100-rules.SlotDiscount) {
		return current
	}
	if j.stack.level > 0 {
		j.pop()
	}
	j.push(current)
	l.cache.reset()
	s.available -= need * rules.SlotCost
	j.stack.used = -need
	l.pool.grantExtra(l, j)
	return j
}

// candidate returns the job that may go first at the expense of the current
// one, if there is any.
func (l *Lane) candidate(current *Job, now mail.Instant) *Job {
	if l.cache.valid(current, now) {
		return l.cache.candidate
	}
	var best *Job
	if slots := (current.read - current.selected + current.stack.available) / l.rules.SlotCost; slots > 0 {
		best = l.find.candidate(l, current, slots, now)
	}
	l.cache = candidateCache{candidate: best, current: current, second: now.Seconds()}
	return best
}

// push puts the job on the stack of another: it stands before that one from now
// on, and is current.
func (j *Job) push(parent *Job) {
	l := j.lane
	l.keepMarks(j)
	l.unfile(j)
	l.leave(j)
	l.jobs.Remove(&j.inOrder)
	l.jobs.InsertBefore(&j.inOrder, j, &parent.inOrder)
	j.label = 0
	l.label(j)
	l.enter(j)
	j.stack.parent = parent
	parent.stack.children.PushBack(&j.stack.sibling, j)
	parent.touch()
	j.stack.level = parent.stack.level + 1
	l.stacked.PushBack(&j.filing.stackedIn, j)
	l.setCurrent(j)
}

// leave takes a job that is about to stand elsewhere out of whatever is in list
// order.
func (l *Lane) leave(j *Job) {
	if j.blocking.openIn.Listed() {
		l.open.Remove(&j.blocking.openIn)
	}
	if j.blocking.special.taken() {
		l.special.drop(&j.blocking.special)
	}
	for p := range j.peers.All() {
		if p.waiting.taken() {
			p.Destination.dropWaiting(p)
		}
	}
}

// enter puts it back.
func (l *Lane) enter(j *Job) {
	l.openIfPassed(j)
	j.touch()
	for p := range j.peers.All() {
		if p.Todo.Len() > 0 {
			p.Destination.addWaiting(p)
		}
	}
}

// pop takes the job off its preemption stack. The job that it really preempted
// gets back what was not used; its children are adopted. Its place on the
// scheduler list stays.
func (j *Job) pop() {
	l, parent := j.lane, j.stack.parent
	assert.That(j.stack.level > 0, "job of %v is on no stack", j.message.ID)
	if parent != nil {
		if j.stack.level == parent.stack.level+1 {
			parent.stack.available -= j.stack.used * l.rules.SlotCost
		}
		parent.stack.children.Remove(&j.stack.sibling)
	}
	for c := j.stack.children.PopFront(); c != nil; c = j.stack.children.PopFront() {
		c.stack.parent = parent
		if parent != nil {
			parent.stack.children.PushBack(&c.stack.sibling, c)
		}
	}
	j.stack.level, j.stack.parent = 0, nil
	l.stacked.Remove(&j.filing.stackedIn)
	j.touch()
	if parent != nil {
		parent.touch()
	}
	l.cache.reset()
}

// orphanChildren leaves the jobs that preempted this one without a parent. They
// keep their levels.
func (j *Job) orphanChildren() {
	for c := j.stack.children.PopFront(); c != nil; c = j.stack.children.PopFront() {
		c.stack.parent = nil
	}
}

// earned counts a selected entry.
func (s *stacking) earned() {
	s.available++
	s.used++
}
