package qmgr

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// A roster has the few places that there are for what strangers ask for, and hands
// them to networks of clients in turn. Each network has fewer than there are, so
// that whoever asks for thousands of things waits for himself.
type roster[T any] struct {
	networks map[netip.Prefix]*network[T]
	line     ilist.List[network[T]] // those for which something waits, the next one to serve in front
	busy     int                    // places that are taken
}

// A network is where clients come from that are taken for one. It exists while
// something waits for it, or it has places.
type network[T any] struct {
	prefix  netip.Prefix
	waiting ilist.List[T] // oldest first
	busy    int
	inLine  ilist.Link[network[T]] // on roster.line
}

func newRoster[T any]() roster[T] {
	return roster[T]{networks: make(map[netip.Prefix]*network[T])}
}

// networkOf returns the addresses that are taken for one owner's: that is how
// they are given out. The zero prefix is clients without an address.
func networkOf(client netip.Addr) netip.Prefix {
	bits := 64
	if client = client.Unmap().WithZone(""); client.Is4() {
		bits = 24
	}
	p, err := client.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// wait puts something in line for a client's network.
func (r *roster[T]) wait(client netip.Addr, link *ilist.Link[T], elem *T) *network[T] {
	prefix := networkOf(client)
	n := r.networks[prefix]
	if n == nil {
		n = &network[T]{prefix: prefix}
		r.networks[prefix] = n
	}
	if n.waiting.Empty() {
		r.line.PushBack(&n.inLine, n)
	}
	n.waiting.PushBack(link, elem)
	return n
}

// leave takes something out of the line again.
func (r *roster[T]) leave(n *network[T], link *ilist.Link[T]) {
	n.waiting.Remove(link)
	if n.waiting.Empty() {
		r.line.Remove(&n.inLine)
	}
	r.release(n)
}

// next returns the network whose turn it is to have one more place, of at most limit
// and each of its own; nil if there is none. Of those that are passed each has
// reached its limit, so they are few.
func (r *roster[T]) next(limit, each int) *network[T] {
	if !share.Allowed(r.busy, limit, 0, 0) {
		return nil
	}
	for n := range r.line.All() {
		if share.Allowed(n.busy, each, 0, 0) {
			return n
		}
	}
	return nil
}

// begin gives a network in line a place. The turn goes to the next one.
func (r *roster[T]) begin(n *network[T]) {
	n.busy++
	r.busy++
	r.line.MoveToBack(&n.inLine)
}

// end takes a place back.
func (r *roster[T]) end(n *network[T]) {
	n.busy--
	r.busy--
	r.release(n)
}

// release forgets a network that has nothing left.
func (r *roster[T]) release(n *network[T]) {
	if n.waiting.Empty() && n.busy == 0 {
		delete(r.networks, n.prefix)
	}
}

// check panics where an invariant does not hold; taken is the places that each
// network has. It returns how much waits.
func (r *roster[T]) check(taken map[*network[T]]int) (waiting int) {
	r.line.Check()
	busy := 0
	for prefix, n := range r.networks { //archtest:anyorder sums and assertions
		assert.That(n.prefix == prefix && (n.busy > 0 || !n.waiting.Empty()), "network %v is known as %v and has nothing", n.prefix, prefix)
		assert.That(n.busy == taken[n], "network %v has %d places, counted %d", prefix, taken[n], n.busy)
		assert.That(n.inLine.Listed() == !n.waiting.Empty(), "network %v is in line: %t", prefix, n.inLine.Listed())
		busy += n.busy
		waiting += n.waiting.Len()
	}
	assert.That(busy == r.busy, "%d places are taken, counted %d", busy, r.busy)
	return waiting
}
