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
func (d *dest) part() { d.lane.order.Remove(&d.inOrder) }

func (d *dest) hasRoom() bool { return d.owner.room() > 0 }

// changed brings up to date how many entries may be started. It is called after
// every change of what its room depends on, of busy or of todo.
func (d *dest) changed() {
	n := max(min(d.owner.room(), d.todo.Len()), 0)
	d.lane.startable += n - d.startable
	d.startable = n
	if d.lane.scheduler == RoundRobin {
		d.takePart()
	}
	d.refresh()
	if n == 0 {
		d.owner.starved()
	}
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

// refresh keeps lane.roomy up to date, and the servable peers of jobs.
func (d *dest) refresh() {
	l := d.lane
	first := d.marking.waiting.first
	stands := &d.marking.roomy
	if stands.taken() && (d.startable == 0 || first == nil || stands.job != first.job) {
		l.roomy.drop(stands)
		d.marking.first.job.servable.drop(&d.marking.first.served)
	}
	if d.startable > 0 && first != nil && !stands.taken() {
		l.roomy.add(stands, d, first.job)
		d.marking.first = first.elem
		first.job.servable.add(&first.elem.served, first.elem, first.job)
	}
}
