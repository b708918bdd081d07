package flows

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// Where several claims have mail waiting for one destination, its room is shared. If there
// is enough for each to start an entry, each may, and what decides is the order in which
// lanes take turns in their transport. If there is not, the room is scarce: the claims take
// turns at it in a fair order (package fair), and none but the one whose turn it is has any.
// That begins anew whenever room becomes scarce, with those that have something under way
// behind the others. So what flows do elsewhere does not count here, nor what they did
// while there was enough.
//
// Room that just suffices becomes scarce with the next entry that starts. It is taken to
// suffice again only when there is twice as much, or each entry that starts or ends would
// change what all claims may do. Where starts are limited by time, by a rate or because they
// are spread (Outlet.Paced), what is scarce is not the room, of which there may be plenty after
// each pause: there the claims take turns until none is left. One claim that is left alone
// keeps the order of turns until then, too: another that comes back for one entry after the
// other would have nothing to pay in a new one, and so have every second start, whatever its
// weight.

// sharing is a destination's part in this.
type sharing struct {
	contention contention
	contenders ilist.List[Claim] // those that have mail waiting
	turns      *fair.Order       // nil until the room has been scarce
	turn       *Claim            // contentionScarce: whose turn it is
}

// A contention is how the room of a destination stands.
type contention uint8

const (
	contentionNone   contention = iota // at most one claim has mail waiting, and may use all of it
	contentionAmple                    // each that has may start an entry
	contentionScarce                   // they take turns
	contentions      = iota
)

// contentionTransitions[from][to] reports which changes there are.
var contentionTransitions = [contentions][contentions]bool{
	contentionNone:   {contentionAmple: true, contentionScarce: true},
	contentionAmple:  {contentionNone: true, contentionScarce: true},
	contentionScarce: {contentionNone: true, contentionAmple: true},
}

// Refresh brings up to date how the room of the claim's destination is shared, and returns
// the claim's.
func (c *Claim) Refresh() int {
	c.contend()
	return c.Room()
}

// Room is how many of the claim's entries may start.
func (c *Claim) Room() int {
	d := c.At
	room := d.Outlet.Room()
	switch {
	case room <= 0, d.contention == contentionNone:
		return room
	case d.contention == contentionScarce && d.turn != c:
		return 0
	}
	return 1
}

// contend brings up to date who has mail waiting for the claim's destination, and what
// follows from that and from the room there is.
func (c *Claim) contend() {
	d := c.At
	if waits := c.Waiting > 0; waits != c.inContenders.Listed() {
		if waits {
			d.contenders.PushBack(&c.inContenders, c)
		} else {
			d.contenders.Remove(&c.inContenders)
		}
		switch {
		case d.contention != contentionScarce:
		case waits:
			d.turns.Join(&c.leaf, c.lane.flow.Path())
		default:
			d.turns.Leave(&c.leaf)
		}
	}
	if next := d.nextContention(); next != d.contention {
		d.changeContention(next)
	}
	switch d.contention {
	case contentionNone:
		if only := d.contenders.Front(); only != nil && only != c {
			only.Touch() // another's entry has ended
		}
	case contentionScarce:
		d.passTurn()
	}
}

// passTurn finds out whose turn it is, and has that claim use the room there is.
func (d *Destination) passTurn() {
	next := d.turns.Next().Owner.(*Claim)
	if next != d.turn {
		d.dropTurn()
		d.turn = next
		next.lane.held.PushBack(&next.inHeld, next)
	}
	if (next.Startable > 0) != (d.Outlet.Room() > 0) {
		next.Touch()
	}
}

// nextContention says how the room stands.
func (d *Destination) nextContention() contention {
	n := d.contenders.Len()
	if n == 0 || n == 1 && d.contention != contentionScarce {
		return contentionNone // however much room there is, which nearly always is so
	}
	room := d.Outlet.Room()
	switch {
	case d.contention == contentionScarce && (room < 2*n || d.Outlet.Paced()):
		return contentionScarce
	case n == 1:
		return contentionNone
	case room < n:
		return contentionScarce
	}
	return contentionAmple
}

// dropTurn takes its turn from the claim that has it, if any has.
func (d *Destination) dropTurn() {
	if c := d.turn; c != nil {
		c.lane.held.Remove(&c.inHeld)
		c.Touch()
		d.turn = nil
	}
}

func (d *Destination) changeContention(next contention) {
	assert.That(contentionTransitions[d.contention][next], "%s: contention %d cannot become %d", d.name, d.contention, next)
	if d.contention == contentionScarce {
		for c := range d.contenders.All() {
			d.turns.Leave(&c.leaf)
		}
		d.dropTurn()
	}
	d.contention = next
	if next == contentionScarce && d.turns == nil {
		d.turns = new(fair.Order)
		d.turns.Configure(d.transport.shares)
	}
	for c := range d.contenders.All() {
		if next == contentionScarce {
			d.turns.Join(&c.leaf, c.lane.flow.Path())
		}
		c.Touch()
	}
	if next != contentionScarce {
		return
	}
	for c := range d.contenders.All() {
		if c.Busy > 0 {
			d.turns.Forfeit(&c.leaf)
		}
	}
}

// PassOn takes from a lane that has started an entry for one destination some turns that it
// has at others, if its transport can start nothing more for now. Without that it might have a
// turn and always be served elsewhere, while another that waits for this destination alone
// would get nothing. A turn that was not used is not given back.
func (l *Lane) PassOn(served *Destination) {
	if !l.transport.Owner.Full() {
		return
	}
	for range min(l.held.Len(), passedOn) {
		c := l.held.Front()
		l.held.MoveToBack(&c.inHeld)
		if d := c.At; d != served && d.Outlet.Room() > 0 {
			d.turns.Forfeit(&c.leaf)
			c.Touch()
		}
	}
}

// passedOn is the number of turns that are passed on with each entry.
const passedOn = 4

// served notes that an entry of the claim has started.
func (c *Claim) served() {
	if d := c.At; d.contention == contentionScarce {
		d.turns.Serve(&c.leaf)
	}
}
