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
	taken                           // by all of them
}

// A network is where clients come from that are taken for one. It exists while
// something waits for it, or it has something.
type network[T any] struct {
	prefix  netip.Prefix
	waiting ilist.List[T] // oldest first
	taken
	inLine ilist.Link[network[T]] // on roster.line
}

// taken is what a network has, or all of them.
type taken struct {
	busy int // places
	slow int // what goes on without a place
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
// reached its limit, or has too much that goes on without a place, so they are few.
func (r *roster[T]) next(limit, each int) *network[T] {
	if !share.Allowed(r.busy, limit, 0, 0) {
		return nil
	}
	for n := range r.line.All() {
		if share.Allowed(n.busy, each, 0, 0) && n.slow < slowLookups*each {
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

// slowDown takes a place back from what goes on without it.
func (r *roster[T]) slowDown(n *network[T]) {
	n.slow++
	r.slow++
	r.end(n)
}

// endSlow is for what has ended after that.
func (r *roster[T]) endSlow(n *network[T]) {
	n.slow--
	r.slow--
	r.release(n)
}

// release forgets a network that has nothing left.
func (r *roster[T]) release(n *network[T]) {
	if n.waiting.Empty() && n.taken == (taken{}) {
		delete(r.networks, n.prefix)
	}
}

// check panics where an invariant does not hold; has is what each network has. It
// returns how much waits.
func (r *roster[T]) check(has map[*network[T]]taken) (waiting int) {
	r.line.Check()
	var all taken
	for prefix, n := range r.networks { //archtest:anyorder sums and assertions
		assert.That(n.prefix == prefix && (n.taken != taken{} || !n.waiting.Empty()), "network %v is known as %v and has nothing", n.prefix, prefix)
		assert.That(n.taken == has[n], "network %v has %d, counted %d", prefix, has[n], n.taken)
		assert.That(n.inLine.Listed() == !n.waiting.Empty(), "network %v is in line: %t", prefix, n.inLine.Listed())
		all.busy += n.busy
		all.slow += n.slow
		waiting += n.waiting.Len()
	}
	assert.That(all == r.taken, "%d is taken, counted %d", all, r.taken)
	return waiting
}
