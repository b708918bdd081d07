package qmgr

import (
	"cmp"
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A claim is what one lane has waiting and under way at one destination. The queue has
// what all claims share: the window, the connections, the limits by time; and it says how
// much of its room a claim may use (contention.go).
//
// A claim exists as long as it has entries; that of the transport's first lane as long as
// the queue.
type claim struct {
	sched.Destination
	queue        *queue
	lane         *lane
	inQueue      ilist.Link[claim] // on queue.claims
	inContenders ilist.Link[claim] // on queue.contenders, if it has mail waiting
	inHeld       ilist.Link[claim] // on lane.held, if it is its turn
	leaf         fair.Leaf         // in queue.turns, while it has and the room is scarce
}

// claim returns the claim of a message at a destination, and makes it if need be.
func (q *Qmgr) claim(m *message, d *queue) *claim {
	l := q.lane(m, d.transport)
	if c := d.claimOf(l); c != nil {
		return c
	}
	return q.newClaim(l, d)
}

// claimOf returns the claim of a lane; nil if there is none.
func (d *queue) claimOf(l *lane) *claim {
	if first := d.claims.Front(); first != nil && first.lane == l {
		return first
	}
	return d.byLane[l]
}

func (q *Qmgr) newClaim(l *lane, d *queue) *claim {
	c := q.stocks.claims.Take()
	c.queue, c.lane, c.leaf.Owner = d, l, c
	c.Lane, c.Name, c.Outlet, c.Sum = &l.Lane, d.name, c, &d.Load
	d.claims.PushBack(&c.inQueue, c)
	if d.claims.Len() > 1 && d.byLane == nil {
		d.byLane = make(map[*lane]*claim)
	}
	if d.byLane != nil {
		d.byLane[l] = c
	}
	c.Join()
	return c
}

// freeIfEmpty ends a claim that has no entries any more.
func (q *Qmgr) freeIfEmpty(c *claim) {
	if c.Waiting == 0 && c.Busy == 0 && c.lane.flow != nil {
		q.freeClaim(c)
	}
}

func (q *Qmgr) freeClaim(c *claim) {
	d := c.queue
	c.contend()
	c.Part()
	d.claims.Remove(&c.inQueue)
	delete(d.byLane, c.lane)
	q.stocks.giveClaim(c)
}

// freeClaims ends the claims of a queue that has no entries.
func (q *Qmgr) freeClaims(d *queue) {
	for c := d.claims.Front(); c != nil; c = d.claims.Front() {
		q.freeClaim(c)
	}
}

// Dead reports whether the destination takes nothing at all.
func (c *claim) Dead() bool { return c.queue.dead() }

// Starved has a connection asked for: no entry of the claim can be started. If another claim has
// the turn, its entry starts before connections are asked for.
func (c *claim) Starved() {
	if c.queue.site != nil {
		c.queue.want()
	}
}

// touch says that the destination has more or less room than before. One claim is
// enough: what follows for others is found out with it.
func (d *queue) touch() {
	if c := cmp.Or(d.turn, d.contenders.Front()); c != nil {
		c.Touch()
	}
}

// runs reports whether the destination, at which mail waits, has a use for connections: a runner
// has some other message under way if not.
func (d *queue) runs() bool {
	c := d.claims.Front()
	return c.Lane.RunsTo(&c.Destination)
}

// entries are those that wait for a destination, claim by claim, with the one first whose
// turn it is, and the oldest first in each.
func (d *queue) entries() iter.Seq[*sched.Entry] {
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

// oldest returns the entry that waits first of some claim, nil if none waits.
func (d *queue) oldest() *sched.Entry {
	for c := range d.claims.All() {
		if e := c.Todo.Front(); e != nil {
			return e
		}
	}
	return nil
}

// last returns the entry that waits last, nil if none waits, where all mail is in one lane.
func (d *queue) last() *sched.Entry {
	if c := d.claims.Front(); c != nil {
		return c.Todo.Back()
	}
	return nil
}

// newest are so many of the entries that wait, each the one that waits last of the claim that has
// most waiting. They are fewer than there are. The one that is yielded must be ended.
func (d *queue) newest(n int) iter.Seq[*sched.Entry] {
	return func(yield func(*sched.Entry) bool) {
		var claims []*claim
		for c := range d.claims.All() {
			if c.Waiting > 0 {
				claims = append(claims, c)
			}
		}
		slices.SortStableFunc(claims, func(a, b *claim) int { return cmp.Compare(b.Waiting, a.Waiting) })
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
