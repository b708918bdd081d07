package qmgr

import "github.com/posthaste-mta/posthaste/internal/ilist"

// A dest is what a destination is to the scheduler: the entries that wait for it
// and those under way, and how many more may start. Its owner knows the window, the
// connections and the limits from which that number follows.
type dest struct {
	lane    *lane
	name    string // among the destinations of the lane
	owner   *queue
	todo    ilist.List[entry] // those that wait, oldest first, all messages
	busy    int
	marking marking
	// startable is how many of the waiting entries may be started now. It is
	// kept so that a lane knows in constant time whether to look for something
	// to select.
	startable int
	stale     ilist.Link[dest] // on lane.staleDests
	inOrder   ilist.Link[dest] // on lane.order
	turn      uint64           // its number in the ring that this is
	served    place[dest]      // in lane.servable
}

// join makes a destination one of its lane's.
func (d *dest) join() {
	d.turn = joinRing(&d.lane.order, (*dest).ringNumber, d.lane.labelGap)
	d.lane.order.PushBack(&d.inOrder, d)
}

// part takes it out again; it has no entries.
func (d *dest) part() {
	l := d.lane
	l.order.Remove(&d.inOrder)
	l.startable -= d.startable
	d.startable = 0
	if l.scheduler == RoundRobin {
		d.takePart()
	}
	if d.stale.Listed() {
		l.staleDests.Remove(&d.stale)
	}
}

func (d *dest) hasRoom() bool { return d.owner.room() > 0 }

// touch says that the destination may have more or less room, or other entries, than
// before. It may be called too often, but never too seldom.
func (d *dest) touch() {
	if !d.stale.Listed() {
		d.lane.staleDests.PushBack(&d.stale, d)
	}
}

// ended says that an entry of the destination has ended. Postfix looks at blocked jobs
// after each of them, be they ever so many in one go (qmgr_job_blocker_update), which
// shows in its tags.
func (d *dest) ended() {
	d.touch()
	if d.lane.exact {
		d.refresh()
	}
}

// refresh brings up to date what follows from the room of a destination and the
// entries that wait for it.
func (d *dest) refresh() {
	l, room := d.lane, d.owner.room()
	n := max(min(room, d.todo.Len()), 0)
	l.startable += n - d.startable
	d.startable = n
	if l.scheduler == RoundRobin {
		d.takePart()
	}
	if first := d.marking.waiting.first; n == 0 || d.marking.first != nil && d.marking.first != first.elem {
		d.stepBack()
	}
	if first := d.marking.waiting.first; n > 0 && d.marking.first == nil {
		l.roomy.add(&d.marking.roomy, d, first.job)
		d.marking.first = first.elem
		first.job.servable.add(&first.elem.served, first.elem, first.job)
	}
	if room > 0 || d.owner.dead() {
		d.unblock()
	}
	if n == 0 {
		d.owner.starved()
	}
}

// stepBack takes a destination out of lane.roomy, and its first peer out of those that
// can be served: it is not the first any more, or has no room.
func (d *dest) stepBack() {
	if first := d.marking.first; first != nil {
		d.lane.roomy.drop(&d.marking.roomy)
		first.job.servable.drop(&first.served)
		d.marking.first = nil
	}
}

// await adds a peer to those that have entries to select.
func (d *dest) await(p *peer) {
	d.marking.waiting.add(&p.waiting, p, p.job)
	d.touch()
}

// unawait takes it out again.
func (d *dest) unawait(p *peer) {
	if d.marking.first == p {
		d.stepBack()
	}
	d.marking.waiting.drop(&p.waiting)
	d.touch()
}

// takePart keeps lane.servable up to date.
func (d *dest) takePart() {
	switch s := &d.lane.servable; {
	case (d.startable > 0) == d.served.taken():
	case d.startable > 0:
		s.add(&d.served, d, nil)
	default:
		s.drop(&d.served)
	}
}
