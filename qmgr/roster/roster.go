// Package roster shares a few slots among networks of clients. Strangers decide how
// much is asked for on their behalf, so each network may hold fewer slots than there
// are, and networks take turns: whoever asks for thousands of things waits behind
// himself. Package intake shares lookups in this way, package callout call-outs.
package roster

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// A Roster has slots for requests of type T. A request waits in line (Wait) until it
// leaves the line (Leave): for good, or because it begins (Begin). Then it ends (End), or
// gives its slot up before that (SlowDown, EndSlow). A Roster is not safe for concurrent
// use.
type Roster[T any] struct {
	networks map[netip.Prefix]*Network[T]
	line     ilist.List[Network[T]] // those with a request that waits, the next to serve in front
	Use                             // sum over all networks
}

// A Network is the clients that are taken for one. It exists while a request of it
// waits, or while it uses something.
type Network[T any] struct {
	prefix  netip.Prefix
	waiting ilist.List[T]          // oldest first
	inLine  ilist.Link[Network[T]] // on Roster.line while waiting is not empty
	Use
}

// Use counts the requests that have begun and not ended.
type Use struct {
	Busy int // with a slot
	Slow int // without one: they took too long (Roster.SlowDown)
}

// New returns a roster without requests.
func New[T any]() Roster[T] {
	return Roster[T]{networks: make(map[netip.Prefix]*Network[T])}
}

// networkOf returns the addresses that are taken for one owner's, as they are assigned: an
// IPv4 /24, an IPv6 /64. The zero prefix is clients without an address.
func networkOf(client netip.Addr) netip.Prefix {
	bits := 64
	if client = client.Unmap().WithZone(""); client.Is4() {
		bits = 24
	}
	p, _ := client.Prefix(bits) // no address has fewer bits; the zero Addr has the zero Prefix
	return p
}

// Wait puts a request in line for a client's network, which it returns. link is on no
// list; it belongs to the Roster until Leave.
func (r *Roster[T]) Wait(client netip.Addr, link *ilist.Link[T], request *T) *Network[T] {
	prefix := networkOf(client)
	n := r.networks[prefix]
	if n == nil {
		n = &Network[T]{prefix: prefix}
		r.networks[prefix] = n
	}
	if n.waiting.Empty() {
		r.line.PushBack(&n.inLine, n)
	}
	n.waiting.PushBack(link, request)
	return n
}

// Leave takes a request out of the line of its network.
func (r *Roster[T]) Leave(n *Network[T], link *ilist.Link[T]) {
	n.waiting.Remove(link)
	if n.waiting.Empty() {
		r.line.Remove(&n.inLine)
	}
	r.release(n)
}

// Oldest returns the request that has waited for longest; nil if none waits.
func (n *Network[T]) Oldest() *T { return n.waiting.Front() }

// Next returns the network whose turn it is to have one more slot, of limit slots in all
// and each for one network; nil if there is none. A network with slow requests that go on
// without a slot, or more, has to wait for these. The networks that are passed over have
// reached a limit of their own, so they are few.
func (r *Roster[T]) Next(limit, each, slow int) *Network[T] {
	if !share.Allowed(r.Busy, limit, 0, 0) {
		return nil
	}
	for n := range r.line.All() {
		if share.Allowed(n.Busy, each, 0, 0) && n.Slow < slow {
			return n
		}
	}
	return nil
}

// Begin gives the Oldest request of a network in line a slot, and passes the turn to the
// next network. The request is to Leave the line then.
func (r *Roster[T]) Begin(n *Network[T]) {
	assert.That(n.inLine.On(&r.line), "nothing of network %v waits for a slot", n.prefix)
	n.Busy++
	r.Busy++
	r.line.MoveToBack(&n.inLine)
}

// End takes back the slot of a request that has ended.
func (r *Roster[T]) End(n *Network[T]) {
	assert.That(n.Busy > 0, "network %v has no slot", n.prefix)
	n.Busy--
	r.Busy--
	r.release(n)
}

// SlowDown takes back the slot of a request that goes on without it.
func (r *Roster[T]) SlowDown(n *Network[T]) {
	n.Slow++
	r.Slow++
	r.End(n)
}

// EndSlow notes the end of a request that went on without a slot.
func (r *Roster[T]) EndSlow(n *Network[T]) {
	assert.That(n.Slow > 0, "nothing of network %v goes on without a slot", n.prefix)
	n.Slow--
	r.Slow--
	r.release(n)
}

// release forgets a network that has nothing left. It is made anew by Wait.
func (r *Roster[T]) release(n *Network[T]) {
	if n.waiting.Empty() && n.Use == (Use{}) {
		delete(r.networks, n.prefix)
	}
}

// Check panics where an invariant does not hold; uses is what each network uses. It
// returns how many requests wait. Tests call it; it takes linear time.
func (r *Roster[T]) Check(uses map[*Network[T]]Use) (waiting int) {
	r.line.Check()
	var all Use
	for prefix, n := range r.networks { //archtest:anyorder sums and assertions
		assert.That(n.prefix == prefix && (n.Use != Use{} || !n.waiting.Empty()), "network %v is known as %v and has nothing", n.prefix, prefix)
		assert.That(n.Use == uses[n], "network %v uses %d, counted %d", prefix, uses[n], n.Use)
		assert.That(n.inLine.Listed() == !n.waiting.Empty(), "network %v is in line: %t", prefix, n.inLine.Listed())
		all.Busy += n.Busy
		all.Slow += n.Slow
		waiting += n.waiting.Len()
	}
	assert.That(all == r.Use, "%d are used, counted %d", all, r.Use)
	return waiting
}
