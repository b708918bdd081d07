package source

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// Turns is whose turn it is at each destination. The zero value is ready to use.
type Turns struct {
	of     map[place]*turn
	recent ilist.List[turn] // the one used last at the end
	first  map[string]order // by pool: over the destinations that are new
}

// turnsMax is the number of destinations of which the order is remembered, those used
// last. One that is forgotten begins anew, as if it were another destination; it costs
// about 200 bytes, and 20 more for each member of its pool.
const turnsMax = 10_000

// A place is one destination as a pool sees it.
type place struct{ pool, transport, name string }

type turn struct {
	place
	order    order
	message  uint64 // the last that was asked for, 0 for none
	given    int    // what it got: a member
	inRecent ilist.Link[turn]
}

// An order is the balance of each member: the sum of its weights in the picks for which it
// could be used, less the sums of all such weights in those that it got. The sum of all
// balances is 0.
type order []int

// Next returns which member of a pool the next message for a destination of a transport
// gets, out of those that are usable; false if none is. The same message, named by a number
// that is not 0, gets the same member again if nothing else was asked for the destination
// since, so that its recipients there stay together.
func (t *Turns) Next(p *Pool, transport, name string, message uint64, usable func(member string) bool) (member int, ok bool) {
	at := place{p.Name, transport, name}
	now := t.of[at]
	switch {
	case now == nil:
		return t.begin(p, at, message, usable)
	case now.message == message && message != 0 && usable(p.Members[now.given].Source):
		return now.given, true
	}
	if now.given, ok = now.order.next(p, usable); !ok {
		return 0, false
	}
	now.message = message
	t.recent.MoveToBack(&now.inRecent)
	return now.given, true
}

// begin makes the first pick for a destination.
func (t *Turns) begin(p *Pool, at place, message uint64, usable func(string) bool) (member int, ok bool) {
	if t.of == nil {
		t.of, t.first = make(map[place]*turn), make(map[string]order)
	}
	first := t.first[p.Name]
	if first == nil {
		first = make(order, len(p.Members))
		t.first[p.Name] = first
	}
	if member, ok = first.next(p, usable); !ok {
		return 0, false
	}
	now := &turn{place: at, order: make(order, len(p.Members)), message: message, given: member}
	now.order.take(p, member, usable)
	t.of[at] = now
	t.recent.PushBack(&now.inRecent, now)
	if t.recent.Len() > turnsMax {
		delete(t.of, t.recent.PopFront().place)
	}
	return member, true
}

// next takes the pick of the usable member that is owed most, the first of several.
func (o order) next(p *Pool, usable func(string) bool) (member int, ok bool) {
	most := 0
	for i := range o {
		if !usable(p.Members[i].Source) {
			continue
		}
		if owed := o[i] + p.Members[i].Weight; !ok || owed > most {
			member, most, ok = i, owed, true
		}
	}
	if ok {
		o.take(p, member, usable)
	}
	return member, ok
}

// take gives a pick to a member.
func (o order) take(p *Pool, member int, usable func(string) bool) {
	for i := range o {
		if weight := p.Members[i].Weight; usable(p.Members[i].Source) {
			o[i] += weight
			o[member] -= weight
		}
	}
}

// Forget begins all orders anew: the pools have changed.
func (t *Turns) Forget() { *t = Turns{} }
