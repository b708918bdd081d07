package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A lane is Postfix's scheduler for the jobs of one flow in one transport (package sched).
// Where a transport has more than one, they take turns: what they do not know of each other
// is in the transport and in its queues.
type lane struct {
	sched.Lane
	transport   *transport
	flow        *flow             // nil: the transport's first
	sibling     *lane             // another one of flow
	inTransport ilist.Link[lane]  // on transport.lanes
	leaf        fair.Leaf         // in transport.turns, if it is ready and there are others
	held        ilist.List[claim] // whose turn it is where room is scarce
	unread      ilist.Link[lane]  // on transport.unread, if some of its messages have unread recipients
}

// lane returns the lane of a message's flow in a transport, and makes it if need be.
func (q *Qmgr) lane(m *message, t *transport) *lane {
	l := t.laneOf(m)
	if l == nil {
		l = q.newLane(t, m.flow)
		l.sibling, m.flow.lanes = m.flow.lanes, l
	}
	return l
}

// laneOf returns the lane of a message's flow; nil if there is none yet.
func (t *transport) laneOf(m *message) *lane {
	if m.flow == nil || t.cfg.Scheduler != sched.Preemptive {
		return t.first
	}
	for l := range m.flow.allLanes() {
		if l.transport == t {
			return l
		}
	}
	return nil
}

// newLane makes a lane, which has as many recipient slots as one of those that share them.
func (q *Qmgr) newLane(t *transport, f *flow) *lane {
	l := q.stocks.lanes.Take()
	l.transport, l.flow, l.leaf.Owner = t, f, l
	l.SetUp(t.Name, l, &t.Load, t.rules(), t.cfg.Scheduler, q.lanes)
	t.lanes.PushBack(&l.inTransport, l)
	if t.lanes.Len() == 2 {
		t.lanes.Front().takeTurns()
	}
	return l
}

// freeLane ends a lane that has no jobs any more. It may still be among those that will be
// refreshed, so it is not used again before this Step is over.
func (q *Qmgr) freeLane(l *lane) {
	t := l.transport
	l.Refresh()
	t.lanes.Remove(&l.inTransport)
	if t.lanes.Len() == 1 {
		t.lanes.Front().leaveTurns()
	}
	assert.That(!l.leaf.Joined() && !l.unread.Listed() && l.Load == (sched.Load{}), "a lane of %s ends and has mail", t.Name)
	q.stocks.left = append(q.stocks.left, l)
}

// Refreshed is called after something has changed in the lane.
func (l *lane) Refreshed() {
	t := l.transport
	if t.lanes.Len() > 1 {
		l.takeTurns()
	}
	if unread := l.HasUnread(); unread != l.unread.Listed() {
		t.sharePools(l, unread)
	}
}

// takeTurns brings up to date whether the lane is among those that take turns.
func (l *lane) takeTurns() {
	switch ready := l.Ready(); {
	case ready == l.leaf.Joined():
	case ready:
		l.transport.turns.Join(&l.leaf, l.path())
	default:
		l.transport.turns.Leave(&l.leaf)
	}
}

func (l *lane) leaveTurns() {
	if l.leaf.Joined() {
		l.transport.turns.Leave(&l.leaf)
	}
}

// listed is the number of jobs that are on the scheduler lists.
func (t *transport) listed() (n int) {
	for l := range t.lanes.All() {
		n += l.Listed()
	}
	return n
}

// checkLanes checks the lanes of a transport, and how they share.
func (t *transport) checkLanes() {
	for l := range t.lanes.All() {
		l.Check()
		assert.That(l.leaf.Joined() == (l.Ready() && t.lanes.Len() > 1), "a lane of %s takes turns: %t", t.Name, l.leaf.Joined())
		assert.That(l.unread.Listed() == l.HasUnread(), "a lane of %s shares recipient slots: %t", t.Name, l.unread.Listed())
	}
	t.turns.Check()
	n := t.unread.Len()
	assert.That(n <= t.parts && t.parts < max(4*n, 2), "%s: %d lanes share recipient slots in %d parts", t.Name, n, t.parts)
}

// next returns the lane whose turn it is; nil if none is ready.
func (t *transport) next() *lane {
	if t.lanes.Len() > 1 {
		if leaf := t.turns.Next(); leaf != nil {
			return leaf.Owner.(*lane)
		}
		return nil
	}
	if l := t.lanes.Front(); l.Ready() {
		return l
	}
	return nil
}

// served notes that a lane has started an entry.
func (l *lane) served() {
	if l.leaf.Joined() {
		l.transport.turns.Serve(&l.leaf)
	}
}

// path is where the lane stands in a fair order.
func (l *lane) path() fair.Path { return l.flow.path() }

// path is where a flow stands in a fair order; nil is mail that was not classified.
func (f *flow) path() fair.Path {
	if f == nil {
		return fair.Path{}
	}
	return fair.Path(f.full())
}

// sharePools notes that a lane has messages with unread recipients, or has none any more,
// and gives each lane that has some an equal part of the transport's recipient slots: one
// of 1, 2, 4 … parts, fewer than four times as many as there are such lanes, so that the parts
// of all need not be changed for each lane more or less. A lane that has none keeps the part
// that it had.
func (t *transport) sharePools(l *lane, unread bool) {
	if !unread {
		t.unread.Remove(&l.unread)
		switch n := t.unread.Len(); {
		case t.parts == 1:
		case n <= 1:
			t.setParts(1)
		case n <= t.parts/4:
			t.setParts(t.parts / 2)
		}
		return
	}
	t.unread.PushBack(&l.unread, l)
	if t.unread.Len() > t.parts {
		t.setParts(t.parts * 2)
		return
	}
	l.setPart()
}

func (t *transport) setParts(n int) {
	t.parts = n
	for l := range t.unread.All() {
		l.setPart()
	}
}

func (l *lane) setPart() {
	r := l.transport.rules()
	l.SetPools(r.RecipientPool, r.ExtraRecipients)
}
