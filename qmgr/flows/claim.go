package flows

import (
	"cmp"
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A Destination is what a destination is to flows: their claims, and whose turn it is.
type Destination struct {
	sched.Load // of all claims
	Outlet     Outlet

	transport *Transport
	name      string
	claims    ilist.List[Claim]
	byLane    map[*Lane]*Claim // nil until there are two claims
	sharing
}

// An Outlet is the whole of a destination: its window, its connections, its limits by time.
type Outlet interface {
	// Room is the number of further deliveries that the destination may take now; it may be
	// negative where fewer are allowed than before. It changes nothing.
	Room() int
	// Paced reports whether starts are limited by time, so that there is too little of that even
	// where there is room.
	Paced() bool
	// Dead reports whether the destination takes nothing at all.
	Dead() bool
	// Starved is called when nothing that waits can start because there is no room.
	Starved()
	// Place says which destination it is, for views.
	Place() Place
}

// SetUp makes a destination of a transport; the name is what it is sorted by.
func (d *Destination) SetUp(t *Transport, name string, outlet Outlet) {
	d.transport, d.name, d.Outlet = t, name, outlet
}

// SetShares puts rules for fair orders in force that the transport has.
func (d *Destination) SetShares() {
	if d.turns != nil {
		d.turns.Configure(d.transport.shares)
		d.Touch()
	}
}

// A Claim is what one lane has waiting and under way at one destination, which has
// what all claims share, and says how much of its room a claim may use (contention.go).
//
// A claim exists as long as it has entries; that of the transport's first lane as long as
// the destination.
type Claim struct {
	sched.Destination
	At           *Destination
	lane         *Lane
	inQueue      ilist.Link[Claim] // on At.claims
	inContenders ilist.Link[Claim] // on At.contenders, if it has mail waiting
	inHeld       ilist.Link[Claim] // on lane.held, if it is its turn
	leaf         fair.Leaf         // in At.turns, while it has and the room is scarce
}

// ClaimOf returns the claim that the scheduler has.
func ClaimOf(d *sched.Destination) *Claim { return d.Outlet.(*Claim) }

// Claim returns what a flow has at the destination, and makes the claim if need be.
func (d *Destination) Claim(f *Flow) *Claim {
	l := d.transport.lane(f)
	if c := d.claimOf(l); c != nil {
		return c
	}
	return d.add(l)
}

// ClaimFirst makes the claim of mail without a flow, where dumps show it although no mail may come to it.
func (d *Destination) ClaimFirst() { d.add(d.transport.first) }

// Has reports whether a message of a flow has entries at the destination, waiting or under way.
func (d *Destination) Has(f *Flow, m *sched.Message) bool {
	c := d.claimOf(d.transport.Lane(f))
	return c != nil && m.HasPeer(&c.Destination)
}

// claimOf returns the claim of a lane; nil if there is none.
func (d *Destination) claimOf(l *Lane) *Claim {
	if first := d.claims.Front(); first != nil && first.lane == l {
		return first
	}
	return d.byLane[l]
}

func (d *Destination) add(l *Lane) *Claim {
	c := d.transport.flows.spare.claims.Take()
	c.At, c.lane, c.leaf.Owner = d, l, c
	c.Lane, c.Name, c.Outlet, c.Sum = &l.Lane, d.name, c, &d.Load
	d.claims.PushBack(&c.inQueue, c)
	if d.claims.Len() > 1 && d.byLane == nil {
		d.byLane = make(map[*Lane]*Claim)
	}
	if d.byLane != nil {
		d.byLane[l] = c
	}
	c.Join()
	return c
}

// FreeIfEmpty ends a claim that has no entries any more.
func (c *Claim) FreeIfEmpty() {
	if c.Waiting == 0 && c.Busy == 0 && c.lane.flow != nil {
		c.free()
	}
}

func (c *Claim) free() {
	d := c.At
	c.contend()
	c.Part()
	d.claims.Remove(&c.inQueue)
	delete(d.byLane, c.lane)
	*c = Claim{}
	d.transport.flows.spare.claims.Give(c)
}

// Free ends the claims of a destination that has no entries, and is not needed any more.
func (d *Destination) Free() {
	for c := d.claims.Front(); c != nil; c = d.claims.Front() {
		c.free()
	}
}

// Dead reports whether the destination takes nothing at all.
func (c *Claim) Dead() bool { return c.At.Outlet.Dead() }

// Starved has a connection asked for: no entry of the claim can be started. If another claim has
// the turn, its entry starts before connections are asked for.
func (c *Claim) Starved() { c.At.Outlet.Starved() }

// Touch says that the destination has more or less room than before. One claim is
// enough: what follows for others is found out with it.
func (d *Destination) Touch() {
	if c := cmp.Or(d.turn, d.contenders.Front()); c != nil {
		c.Touch()
	}
}

// Runs reports whether the destination, at which mail waits, has a use for connections: a runner
// has some other message under way if not.
func (d *Destination) Runs() bool {
	c := d.claims.Front()
	return c.Lane.RunsTo(&c.Destination)
}

// Entries are those that wait for the destination, claim by claim, with the one first whose
// turn it is, and the oldest first in each.
func (d *Destination) Entries() iter.Seq[*sched.Entry] {
	return func(yield func(*sched.Entry) bool) {
		if d.turn != nil {
			for e := range d.turn.Todo.All() {
				if !yield(e) {
					return
				}
			}
		}
		for c := range d.claims.All() {
			if c == d.turn {
				continue
			}
			for e := range c.Todo.All() {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Oldest returns the entry that waits first of some claim, nil if none waits.
func (d *Destination) Oldest() *sched.Entry {
	for c := range d.claims.All() {
		if e := c.Todo.Front(); e != nil {
			return e
		}
	}
	return nil
}

// Last returns the entry that waits last, nil if none waits, where all mail is in one lane.
func (d *Destination) Last() *sched.Entry {
	if c := d.claims.Front(); c != nil {
		return c.Todo.Back()
	}
	return nil
}

// Newest are so many of the entries that wait, each the one that waits last of the claim that has
// most waiting. They are fewer than there are. The one that is yielded must be ended.
func (d *Destination) Newest(n int) iter.Seq[*sched.Entry] {
	return func(yield func(*sched.Entry) bool) {
		var claims []*Claim
		for c := range d.claims.All() {
			if c.Waiting > 0 {
				claims = append(claims, c)
			}
		}
		slices.SortStableFunc(claims, func(a, b *Claim) int { return cmp.Compare(b.Waiting, a.Waiting) })
		for n > 0 {
			// All that have as much waiting as the first, one after the other.
			level := claims[0].Waiting
			for _, c := range claims {
				if n == 0 || c.Waiting < level {
					break
				}
				n--
				if !yield(c.Todo.Back()) {
					return
				}
			}
		}
	}
}
