package sched

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// An Outlet knows how much a destination takes.
type Outlet interface {
	// Refresh draws the consequences of what has changed for the destination, and returns
	// Room. It may touch other destinations.
	Refresh() int
	// Room is the number of further deliveries that the destination may take now; it may be
	// negative where fewer are allowed than before. It changes nothing.
	Room() int
	// Dead reports whether it takes none at all, so that nothing may wait for it.
	Dead() bool
	// Starved is called when nothing that waits for it can start.
	Starved()
}

// A Destination is what a destination is to the scheduler: the entries that wait for it
// and those under way, and how many more may start. Its outlet knows the window, the
// connections and the limits from which that number follows.
type Destination struct {
	Lane    *Lane
	Name    string // among the destinations of the lane
	Outlet  Outlet
	Todo    ilist.List[Entry] // those that wait, oldest first, all messages
	Load                      // kept so that a lane knows in constant time whether to look for something to select
	Sum     *Load             // that of all destinations which share the outlet
	marking marking
	stale   bool                    // it is among lane.staleDests
	inOrder ilist.Link[Destination] // on lane.order
	turn    uint64                  // its number in the ring that this is
	served  place[Destination]      // in lane.servable
}

// Join makes a destination one of its lane's.
func (d *Destination) Join() {
	d.turn = joinRing(&d.Lane.order, (*Destination).ringNumber, d.Lane.labelGap)
	d.Lane.order.PushBack(&d.inOrder, d)
}

// Part takes it out again; it has no entries.
func (d *Destination) Part() {
	l := d.Lane
	assert.That(d.Todo.Empty() && d.Busy == 0 && d.marking.first == nil, "%s:%s leaves and has entries", l.Name, d.Name)
	l.order.Remove(&d.inOrder)
	d.startable(0)
	if l.Scheduler == RoundRobin {
		d.takePart()
	}
	d.stale = false
}

func (d *Destination) hasRoom() bool { return d.Outlet.Room() > 0 }

// Touch says that the destination may have more or less room, or other entries, than
// before. It may be called too often, but never too seldom.
func (d *Destination) Touch() {
	if !d.stale {
		d.markStale()
	}
}

// markStale is apart from Touch so that the latter, which mostly has nothing to do, is
// inlined.
func (d *Destination) markStale() {
	d.stale = true
	d.Lane.staleDests = append(d.Lane.staleDests, d)
	d.Lane.touch()
}

// Ended says that an entry of the destination has ended. Postfix looks at blocked jobs
// after each of them, be they ever so many in one go (qmgr_job_blocker_update), which
// shows in its tags.
func (d *Destination) Ended() {
	d.Touch()
	if d.Lane.exact {
		d.refresh()
	}
}

// refresh brings up to date what follows from the room of a destination and the
// entries that wait for it.
func (d *Destination) refresh() {
	l, room := d.Lane, d.Outlet.Refresh()
	n := max(min(room, d.Todo.Len()), 0)
	d.startable(n)
	if l.Scheduler == RoundRobin {
		d.takePart()
	}
	if first := d.marking.waiting.first; n == 0 || d.marking.first != nil && d.marking.first != first.elem {
		d.dropRoomy()
	}
	if first := d.marking.waiting.first; n > 0 && d.marking.first == nil {
		l.roomy.add(&d.marking.roomy, d, first.job)
		d.marking.first = first.elem
		first.job.servable.add(&first.elem.served, first.elem, first.job)
	}
	if room > 0 || d.Outlet.Dead() {
		d.unblock()
	}
	if n == 0 {
		d.Outlet.Starved()
	}
}

func (d *Destination) startable(n int) {
	d.add(Load{Startable: n - d.Startable})
}

// add changes what the destination has, and with it the sums of its outlet, its lane, and
// the transport.
func (d *Destination) add(n Load) {
	d.Load.Add(n)
	d.Sum.Add(n)
	d.Lane.Load.Add(n)
	d.Lane.Sum.Add(n)
}

// dropRoomy takes a destination out of lane.roomy, and its first peer out of those that
// can be served: it is not the first any more, or has no room.
func (d *Destination) dropRoomy() {
	if first := d.marking.first; first != nil {
		d.Lane.roomy.drop(&d.marking.roomy)
		first.job.servable.drop(&first.served)
		d.marking.first = nil
	}
}

// addWaiting adds a peer to those that have entries to select.
func (d *Destination) addWaiting(p *Peer) {
	d.marking.waiting.add(&p.waiting, p, p.job)
	d.Touch()
}

// dropWaiting takes it out again.
func (d *Destination) dropWaiting(p *Peer) {
	if d.marking.first == p {
		d.dropRoomy()
	}
	d.marking.waiting.drop(&p.waiting)
}

// takePart keeps lane.servable up to date.
func (d *Destination) takePart() {
	switch s := &d.Lane.servable; {
	case (d.Startable > 0) == d.served.taken():
	case d.Startable > 0:
		s.add(&d.served, d, nil)
	default:
		s.drop(&d.served)
	}
}
