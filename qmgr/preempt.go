package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// Preemption lets mail with few recipients slip past mail with many, and bounds
// what that costs the latter.
//
// For every k entries that are selected of a job it earns one delivery slot,
// which another job may use: k is the slot cost. When a job has earned as many
// slots as some job behind it needs in all, that job may go first. What a job
// loses is therefore at most one entry's turn for k of its own, and no more than
// a factor of k/(k-1) even if its preempters are preempted in turn.
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
	parent   *job // the job that this one has preempted, or that adopted it
	children ilist.List[job]
	sibling  ilist.Link[job] // on parent.stack.children
	// level is 0 for a job that has preempted nobody. One whose parent has left
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
	candidate, current *job
	second             int64
}

func (c *candidateCache) reset() { c.current = nil }

func (c *candidateCache) valid(current *job, now mail.Instant) bool {
	return c.current == current && (c.second == now.Seconds() || c.candidate == nil)
}

// most is how many entries the job can have had in the end: those it had and
// one for each unread recipient of its message.
func (j *job) most() int { return j.read + j.message.unread }

// preempt returns the job to select from: the current one, or one that goes
// first at its expense.
func (t *transport) preempt(current *job, now mail.Instant) *job {
	cfg, s := &t.cfg, &current.stack
	if cfg.SlotCost < 2 || s.available <= 0 || current.most() < cfg.MinimumSlots*cfg.SlotCost {
		return current
	}
	j := t.candidate(current, now)
	if j == nil {
		return current
	}
	need := j.most() - j.selected
	// floor(available/k) + loan < need × (100 − discount)/100, in whole numbers.
	if (s.available/cfg.SlotCost+cfg.SlotLoan)*100 < need*(100-cfg.SlotDiscount) {
		return current
	}
	if j.stack.level > 0 {
		j.pop()
	}
	t.jobs.Remove(&j.inOrder)
	t.jobs.InsertBefore(&j.inOrder, j, &current.inOrder)
	j.stack.parent = current
	s.children.PushBack(&j.stack.sibling, j)
	j.stack.level = s.level + 1
	t.current = j
	t.cache.reset()
	s.available -= need * cfg.SlotCost
	j.stack.used = -need
	t.pool.grantExtra(t, j)
	return j
}

// candidate returns the job behind the current one that gains most by going
// first: the longest wait for each entry, among those whose entries the current
// job can surely pay for before it ends.
func (t *transport) candidate(current *job, now mail.Instant) *job {
	if t.cache.valid(current, now) {
		return t.cache.candidate
	}
	t.cache = candidateCache{candidate: t.searchCandidate(current, now), current: current, second: now.Seconds()}
	return t.cache.candidate
}

func (t *transport) searchCandidate(current *job, now mail.Instant) *job {
	slots := (current.read - current.selected + current.stack.available) / t.cfg.SlotCost
	if slots <= 0 {
		return nil
	}
	// A score is a delay divided by a number of entries; scores are compared
	// by multiplying out.
	var best *job
	bestDelay, bestTotal := int64(0), int64(1)
	for j := t.jobs.Next(&current.inOrder); j != nil; j = t.jobs.Next(&j.inOrder) {
		if !j.stack.children.Empty() || j.blocked() {
			continue
		}
		total := int64(j.most())
		need := j.most() - j.selected
		delay := int64((now.Sub(j.message.queued) + time.Second) / time.Millisecond)
		if need > 0 && need <= slots && delay*bestTotal > bestDelay*total {
			best, bestDelay, bestTotal = j, delay, total
		}
		// Those behind are younger, so they cannot have a better score than
		// their delay, unless they stand on a stack.
		if delay*bestTotal <= bestDelay && j.stack.level == 0 {
			break
		}
	}
	return best
}

// pop takes the job off its preemption stack. The job that it really preempted
// gets back what was not used; its children are adopted. Its place on the
// scheduler list stays.
func (j *job) pop() {
	t, parent := j.transport, j.stack.parent
	assert.That(j.stack.level > 0, "job of %v is on no stack", j.message.id)
	if parent != nil {
		if j.stack.level == parent.stack.level+1 {
			parent.stack.available -= j.stack.used * t.cfg.SlotCost
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
	t.cache.reset()
}

// orphanChildren leaves the jobs that preempted this one without a parent. They
// keep their levels.
func (j *job) orphanChildren() {
	for c := j.stack.children.PopFront(); c != nil; c = j.stack.children.PopFront() {
		c.stack.parent = nil
	}
}

// earned counts a selected entry.
func (s *stacking) earned() {
	s.available++
	s.used++
}
