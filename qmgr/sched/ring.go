package sched

import "github.com/posthaste-mta/posthaste/internal/ilist"

// Where elements take turns, those that can be served now are few among many at
// times: destinations with room among those of a large message, or of a lane.
// The turn goes round a list, which is rotated behind the one served last, and
// walking along it would pass all the others. So each element has a number that
// grows once round the list, and those that can be served are kept in the order of
// these numbers: the next in turn is the first of them from the front's number on,
// or else the first of all.

// Numbers of elements that were appended one after the other are as far apart as
// labels of jobs (labelGap). Where the ring was cut by a rotation, what is appended
// keeps close to the element before it, so that there is room for a million of them
// before all must be numbered anew.

// ringNumber returns a number for an element that is put between the back and the
// front of a ring; false if there is none left.
func ringNumber(back, front, gap uint64) (n uint64, ok bool) {
	if front <= back { // the front has the smallest number
		return back + gap, back <= maxLabel-gap
	}
	n = back + min((front-back)/2, max(gap>>20, 1))
	return n, n > back
}

// renumber gives all elements of a ring new numbers, in the same order, beginning
// with the one that has the smallest.
func renumber[T any](l *ilist.List[T], number func(*T) *uint64, gap uint64) {
	var smallest *T
	for e := range l.All() {
		if smallest == nil || *number(e) < *number(smallest) {
			smallest = e
		}
	}
	begun, next := false, uint64(0)
	for range 2 { // from the smallest to the back, then from the front to the smallest
		for e := range l.All() {
			switch {
			case begun && e == smallest:
				return
			case e == smallest:
				begun = true
			}
			if begun {
				next += gap
				*number(e) = next
			}
		}
	}
}

// nextInRing returns the next of the elements that can be served, in turn. front is
// the number of the ring's front.
func nextInRing[T any](servable *sequence[T], front uint64, number func(*T) *uint64) *T {
	if p := servable.find(func(e *T) bool { return *number(e) >= front }); p != nil {
		return p.elem
	}
	return servable.first.element()
}

func (p *Peer) ringNumber() *uint64        { return &p.turn }
func (d *Destination) ringNumber() *uint64 { return &d.turn }

func earlierPeer(a, b *Peer) bool        { return a.turn < b.turn }
func earlierDest(a, b *Destination) bool { return a.turn < b.turn }

// joinRing returns the number for an element that is about to become the last of a
// ring.
func joinRing[T any](l *ilist.List[T], number func(*T) *uint64, gap uint64) uint64 {
	back, front := l.Back(), l.Front()
	if back == nil {
		return gap
	}
	n, ok := ringNumber(*number(back), *number(front), gap)
	if !ok {
		renumber(l, number, gap)
		n, _ = ringNumber(*number(back), *number(front), gap)
	}
	return n
}
