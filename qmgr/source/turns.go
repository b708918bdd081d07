package source

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// Turns is whose turn it is at each destination. The zero value is ready to use.
type Turns struct {
	of     map[place]*turn
	recent ilist.List[turn]     // the one used last at the end
	pools  map[string]*rotation // by name
}

// turnsMax is the number of destinations of which the turn is remembered, those used
// last. One that is forgotten begins anew, as if it were another destination; it costs
// about 200 bytes.
const turnsMax = 10_000

// A place is one destination as a pool sees it.
type place struct{ pool, transport, name string }

type turn struct {
	place
	next     int    // position in the pool's rotation
	message  uint64 // the last that was asked for, 0 for none
	given    int    // what it got: a member
	inRecent ilist.Link[turn]
}

// Next returns which member of a pool the next message for a destination of a transport
// gets, out of those that are usable; false if none is. The same message, named by a number
// that is not 0, gets the same member again if nothing else was asked for the destination
// since, so that its recipients there stay together.
//
// It asks whether the member whose turn it is can be used, and whether others can only if
// that one cannot.
func (t *Turns) Next(p *Pool, transport, name string, message uint64, usable func(member int) bool) (member int, ok bool) {
	at := place{p.Name, transport, name}
	now, all := t.of[at], t.rotation(p)
	if now == nil {
		if member, ok = all.pick(&all.first, usable); ok {
			t.begin(&turn{place: at, next: all.first, message: message, given: member})
		}
		return member, ok
	}
	if now.message == message && message != 0 && usable(now.given) {
		return now.given, true
	}
	if member, ok = all.pick(&now.next, usable); ok {
		now.message, now.given = message, member
		t.recent.MoveToBack(&now.inRecent)
	}
	return member, ok
}

// Last returns the member that the last message for a destination got, if it is this one.
func (t *Turns) Last(p *Pool, transport, name string, message uint64) (member int, ok bool) {
	now := t.of[place{p.Name, transport, name}]
	if now == nil || message == 0 || now.message != message {
		return 0, false
	}
	return now.given, true
}

// begin remembers a destination at which the first pick was made.
func (t *Turns) begin(now *turn) {
	if t.of == nil {
		t.of = make(map[place]*turn)
	}
	t.of[now.place] = now
	t.recent.PushBack(&now.inRecent, now)
	if t.recent.Len() > turnsMax {
		delete(t.of, t.recent.PopFront().place)
	}
}

// rotation returns the rotation of a pool.
func (t *Turns) rotation(p *Pool) *rotation {
	r := t.pools[p.Name]
	if r == nil {
		if t.pools == nil {
			t.pools = make(map[string]*rotation)
		}
		r = newRotation(p.Members)
		t.pools[p.Name] = r
	}
	return r
}

// Configure puts other pools in force. At each destination it is the turn of the same member
// as before, or of the next one that remains if that was removed from its pool; a pool with
// none of its members begins anew.
func (t *Turns) Configure(pools []Pool) {
	old := t.pools
	t.pools = nil
	moves := make(map[string]*move, len(pools))
	for i := range pools {
		p := &pools[i]
		if was := old[p.Name]; was != nil {
			moves[p.Name] = newMove(was, p.Members)
			t.rotation(p)
			t.pools[p.Name] = moves[p.Name].to
		}
	}
	for now := t.recent.Front(); now != nil; {
		next := t.recent.Next(&now.inRecent)
		if m := moves[now.pool]; m != nil {
			m.turn(now)
		} else {
			t.recent.Remove(&now.inRecent)
			delete(t.of, now.place)
		}
		now = next
	}
}
