package qmgr

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Mail whose fate at a host has been unknown several times (mail.Doubts) should go to other hosts of its
// destination first: the host may choke on this message, and each further attempt may be one more copy. Which connection
// carries an entry is decided late and without regard to the message, so such mail has a queue of its own: a
// detour, whose plan has the avoided hosts behind all others. They are used when no other can be, as those of worse
// preference are.
//
// A detour belongs to its main queue, which stays as long as the detour does. Measures of rules are those of
// the main queue alone, and mail that would be put off because the main queue is dead gets no detour. What
// a detour sends counts against its main queue's limits by time. It has one connection: what its main queue has learned
// of the destination's concurrency was learned of other hosts.

// detouring is what a queue has to do with detours.
type detouring struct {
	main    *queue           // of a detour: the queue of mail that avoids nothing
	avoided []netip.AddrPort // of a detour, in order
	detours int              // of a main queue: how many there are
}

// detourKey returns identity.avoids.
func detourKey(hosts []netip.AddrPort) string {
	var b strings.Builder
	for _, h := range hosts {
		b.WriteString(h.String())
		b.WriteByte(' ')
	}
	return b.String()
}

// detour returns the detour of a queue for mail that avoids hosts, and makes it if need be.
func (q *Qmgr) detour(main *queue, hosts []netip.AddrPort) *queue {
	is := main.identity
	is.avoids = detourKey(hosts)
	if d := main.transport.queues.Get(is.key()); d != nil {
		return d
	}
	main.detours++
	d := q.newQueue(main.transport, is)
	d.main, d.avoided = main, hosts
	q.shape(d, nil)
	d.window = window.New(&d.limits.window)

	return d
}

// detourFor returns the queue for a recipient whose mail would go to d: d itself, or a detour.
func (q *Qmgr) detourFor(d *queue, r *mail.Recipient) *queue {
	if r.Doubts == nil || d.site == nil {
		return d
	}
	if hosts := r.Doubts.Avoided(); len(hosts) > 0 {
		return q.detour(d, hosts)
	}
	return d
}

// bindDetour gives a recipient that has a queue a detour if it needs one.
func (q *Qmgr) bindDetour(m *message, b *bound) {
	d := q.detourFor(b.queue, &b.recipient)
	if d == b.queue {
		return
	}
	d.reset = max(d.reset, b.queue.reset)
	switch {
	case !d.dead():
		b.queue = d
	case m.from == intake.FromRetry:
		q.revive(d, CauseRevival)
		b.queue = d
	default:
		q.bindToRetry(m, b, d.reason, d.origin())
	}
}

// whole returns the queue that measures are for.
func (d *queue) whole() *queue {
	if d.main != nil {
		return d.main
	}
	return d
}

// ownDetours are the detours of a main queue.
func (d *queue) ownDetours() (all []*queue) {
	if d.detours > 0 {
		for _, other := range d.transport.queues.Variants(d.name).All() {
			if other.main == d {
				all = append(all, other)
			}
		}
	}
	return all
}

// withDetours are a main queue's detours behind itself.
func (d *queue) withDetours() []*queue { return append([]*queue{d}, d.ownDetours()...) }

// lastComes returns tiers in which the hosts that a detour avoids are behind all others.
func (d *queue) lastComes(tiers [][]mail.Host) [][]mail.Host {
	if len(d.avoided) == 0 {
		return tiers
	}
	avoided := func(h mail.Host) bool { return slices.Contains(d.avoided, h.Addr) }
	var first, last [][]mail.Host
	for _, tier := range tiers {
		var rest, late []mail.Host
		for _, h := range tier {
			if avoided(h) {
				late = append(late, h)
			} else {
				rest = append(rest, h)
			}
		}
		if len(rest) > 0 {
			first = append(first, rest)
		}
		if len(late) > 0 {
			last = append(last, late)
		}
	}
	return append(first, last...)
}

// putOffDetours puts off what waits in the detours of a queue that rests.
func (q *Qmgr) putOffDetours(main *queue) {
	for _, d := range main.ownDetours() {
		d.pin()
		q.putOffAll(d, TransportRetry, main.reason)
		q.unpin(d)
	}
}

// checkDetour checks that a queue and its detours know of each other.
func (d *queue) checkDetour() {
	assert.That((d.main == nil) == (d.avoids == "") && (d.main == nil) == (len(d.avoided) == 0) && d.avoids == detourKey(d.avoided), "%s:%s avoids %q, %v", d.transport.Name, d.nexthop, d.avoids, d.avoided)
	if d.main == nil {
		assert.That(len(d.ownDetours()) == d.detours, "%s:%s has %d detours, counted %d", d.transport.Name, d.nexthop, len(d.ownDetours()), d.detours)
		return
	}
	assert.That(d.transport.queues.Get(d.main.key()) == d.main && d.main.main == nil && d.main.site != nil, "the main queue of a detour of %s:%s is gone", d.transport.Name, d.nexthop)
	assert.That(d.measures == nil, "a detour of %s:%s has measures", d.transport.Name, d.nexthop)
}
