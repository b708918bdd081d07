package flows

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A Transport is what a transport is to flows: its lanes, and their turns.
type Transport struct {
	Name       string
	Owner      Carrier
	sched.Load // of all lanes

	first     *Lane            // that of mail without a flow; the others come and go
	lanes     ilist.List[Lane] // all, in the order in which they came about
	turns     fair.Order       // of those that are ready, if there are several
	pools     pools
	scheduler sched.Scheduler
	shares    *fair.Rules
	flows     *Registry
}

// A Carrier is the whole of a transport.
type Carrier interface {
	// Rules are those of the transport for selection; its recipient slots are shared by the lanes.
	Rules() sched.Rules
	// Full reports whether the transport can start nothing more for now, whatever its destinations can.
	Full() bool
}

// SetUp makes a transport of a name that has its first lane. Owner must know its rules.
func (t *Transport) SetUp(name string, owner Carrier, s sched.Scheduler, flows *Registry, shares *fair.Rules) {
	t.Name, t.Owner, t.scheduler, t.flows, t.pools.parts = name, owner, s, flows, 1
	t.first = t.add(nil)
	t.SetShares(shares)
}

// SetShares puts new rules for fair orders in force, at first only for the lanes: see Destination.SetShares.
func (t *Transport) SetShares(r *fair.Rules) {
	t.shares = r
	t.turns.Configure(r)
}

// Configure puts rules in force that the owner has changed.
func (t *Transport) Configure() {
	for l := range t.lanes.All() {
		l.Configure(t.rules())
	}
}

// A Lane is Postfix's scheduler for the jobs of one flow in one transport (package sched).
// Where a transport has more than one, they take turns: what they do not know of each other
// is in the transport and in its destinations.
type Lane struct {
	sched.Lane
	transport   *Transport
	flow        *Flow             // nil: the transport's first
	sibling     *Lane             // another one of flow
	inTransport ilist.Link[Lane]  // on transport.lanes
	leaf        fair.Leaf         // in transport.turns, if it is ready and there are others
	held        ilist.List[Claim] // whose turn it is where room is scarce
	unread      ilist.Link[Lane]  // on transport.pools.unread, if some of its messages have unread recipients
}

// LaneOf returns the lane that the scheduler has.
func LaneOf(l *sched.Lane) *Lane { return l.Owner.(*Lane) }

// Transport returns the lane's.
func (l *Lane) Transport() *Transport { return l.transport }

// First returns the lane of mail without a flow.
func (t *Transport) First() *Lane { return t.first }

// Lane returns the lane of a flow; nil if there is none yet.
func (t *Transport) Lane(f *Flow) *Lane {
	if f == nil || t.scheduler != sched.Preemptive {
		return t.first
	}
	for l := range f.all() {
		if l.transport == t {
			return l
		}
	}
	return nil
}

// lane returns the lane of a flow, and makes it if need be.
func (t *Transport) lane(f *Flow) *Lane {
	l := t.Lane(f)
	if l == nil {
		l = t.add(f)
		l.sibling, f.lanes = f.lanes, l
	}
	return l
}

// add makes a lane, which has as many recipient slots as one of those that share them.
func (t *Transport) add(f *Flow) *Lane {
	l := t.flows.spare.lanes.Take()
	l.transport, l.flow, l.leaf.Owner = t, f, l
	l.SetUp(t.Name, l, &t.Load, t.rules(), t.scheduler, t.flows.Lanes)
	t.lanes.PushBack(&l.inTransport, l)
	if t.lanes.Len() == 2 {
		t.lanes.Front().takeTurns()
	}
	return l
}

// end ends a lane that has no jobs any more. It may still be among those that will be
// refreshed, so it is not used again before this Step is over.
func (t *Transport) end(l *Lane) {
	l.Refresh()
	t.lanes.Remove(&l.inTransport)
	if t.lanes.Len() == 1 {
		t.lanes.Front().leaveTurns()
	}
	assert.That(!l.leaf.Joined() && !l.unread.Listed() && l.Load == (sched.Load{}), "a lane of %s ends and has mail", t.Name)
	t.flows.left = append(t.flows.left, l)
}

// Refreshed is called after something has changed in the lane.
func (l *Lane) Refreshed() {
	t := l.transport
	if t.lanes.Len() > 1 {
		l.takeTurns()
	}
	if unread := l.HasUnread(); unread != l.unread.Listed() {
		t.sharePools(l, unread)
	}
}

// takeTurns brings up to date whether the lane is among those that take turns.
func (l *Lane) takeTurns() {
	switch ready := l.Ready(); {
	case ready == l.leaf.Joined():
	case ready:
		l.transport.turns.Join(&l.leaf, l.flow.Path())
	default:
		l.transport.turns.Leave(&l.leaf)
	}
}

func (l *Lane) leaveTurns() {
	if l.leaf.Joined() {
		l.transport.turns.Leave(&l.leaf)
	}
}

// Jobs is the number of jobs that are on the scheduler lists.
func (t *Transport) Jobs() (n int) {
	for l := range t.lanes.All() {
		n += l.Listed()
	}
	return n
}

// Next returns the lane whose turn it is; nil if none is ready.
func (t *Transport) Next() *Lane {
	if t.lanes.Len() > 1 {
		if leaf := t.turns.Next(); leaf != nil {
			return leaf.Owner.(*Lane)
		}
		return nil
	}
	if l := t.lanes.Front(); l.Ready() {
		return l
	}
	return nil
}

// Served notes that the lane has started an entry: its turn, and that of its claim, is over.
func (l *Lane) Served(e *sched.Entry) {
	if l.leaf.Joined() {
		l.transport.turns.Serve(&l.leaf)
	}
	ClaimOf(e.Destination()).served()
}
