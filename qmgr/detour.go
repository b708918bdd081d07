package qmgr

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Mail whose fate at a host has been unknown several times (mail.Doubts) should go to other hosts of its
// destination first: the host may choke on this message, and each further attempt may be one more copy. Which connection
// carries an entry is decided late and without regard to the message, so such mail has a queue of its own: a
// detour, whose plan has the avoided hosts behind all others. They are used when no other can be, as those of worse
// preference are.
//
// A detour belongs to its main queue, which stays as long as the detour does. It has no hosts, no limits, no measures and
// no state of its own: the main queue looks the hosts up, is dead or suspended for both, and counts what both send. Where the
// main queue cannot go on, and where a detour is of no use any more, its mail goes back to the main queue (rejoin).
//
// There may be many detours, one for each set of hosts that some mail avoids. They take turns with one connection, which counts
// within the limit of their destination (turns.go).

// detouring is what a queue has to do with detours.
type detouring struct {
	main    *queue            // of a detour: the queue of mail that avoids nothing
	avoided []netip.AddrPort  // of a detour, in order
	inAll   ilist.Link[queue] // of a detour: on main.detours.all
	detours *detours          // of a main queue; nil if it has none
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

// detourFor returns the queue for a recipient whose mail would go to d, which is alive: d itself, or a detour.
func (q *Qmgr) detourFor(d *queue, r *mail.Recipient) *queue {
	if r.Doubts == nil || d.site == nil || !d.limits.allowDetours() {
		return d
	}
	hosts := r.Doubts.Avoided()
	if len(hosts) == 0 || d.site.Known() && !(splits(d.site.Set().Tiers, hosts) && (d.reset != 0 || q.othersWork(d, hosts))) { // after a reset, all are tried
		return d
	}
	return q.detour(d, hosts)
}

// allowDetours reports whether mail of a destination may have detours. Without a second connection, or where each connection or delivery
// has to come some time after the one before, a detour could only take from the other mail what it uses.
func (l *limits) allowDetours() bool {
	return l.window.Limit != 1 && l.rateDelay <= 0 && l.dials == rate.Limits{}
}

// splits reports whether some hosts of a plan are avoided and some are not. Otherwise a detour has the same plan.
func splits(tiers [][]mail.Host, avoided []netip.AddrPort) bool {
	some, others := false, false
	for _, tier := range tiers {
		for _, h := range tier {
			if slices.Contains(avoided, h.Addr) {
				some = true
			} else {
				others = true
			}
		}
	}
	return some && others
}

// othersWork reports whether a main queue has a host that is not avoided and may be tried now. Otherwise a detour would send to
// those that are avoided, over one connection.
func (q *Qmgr) othersWork(main *queue, avoided []netip.AddrPort) bool {
	return q.conns.Usable(main.site, func(h mail.Host) bool { return !slices.Contains(avoided, h.Addr) }, q.now)
}

// detour returns the detour of a queue for mail that avoids hosts, and makes it if need be.
func (q *Qmgr) detour(main *queue, hosts []netip.AddrPort) *queue {
	is := main.identity
	is.avoids = detourKey(hosts)
	d := main.transport.queues.Get(is.key())
	if d == nil {
		d = q.newQueue(main.transport, is)
		d.main, d.avoided = main, hosts
		q.joinTurns(d)
		q.shape(d, nil)
		d.window = window.New(&d.limits.window)
		q.pace(d)
		if main.site.Known() {
			q.planDetour(d, main.site.Set())
		}
	}
	d.reset = max(d.reset, main.reset)
	d.rearrange() // something is about to wait for it

	return d
}

// planDetour gives a detour the hosts of its main queue.
func (q *Qmgr) planDetour(d *queue, set mail.HostSet) {
	set.Tiers = d.lastComes(set.Tiers)
	q.hangupAll(q.conns.SetHosts(d.site, set, q.hostLimits(d)))
	d.touch()
}

// planDetours does so for all of them. Where all hosts are avoided, or none is, the mail goes back to the main queue.
func (q *Qmgr) planDetours(main *queue, set mail.HostSet) {
	for _, d := range main.ownDetours() {
		q.planDetour(d, set)
		if !splits(set.Tiers, d.avoided) {
			q.rejoin(d)
		}
	}
}

// rejoin has what waits for a detour wait for its main queue.
func (q *Qmgr) rejoin(d *queue) {
	main, most := d.main, d.Waiting
	for e := d.Oldest(); e != nil; e = d.Oldest() {
		assert.That(most > 0, "mail that leaves a detour of %s comes back", d.name)
		most--
		q.moveTo(e, main)
	}
}

// rejoinAll has what waits for all detours of a queue wait for it.
func (q *Qmgr) rejoinAll(main *queue) {
	for _, d := range main.ownDetours() {
		if d.Waiting > 0 {
			q.rejoin(d)
		}
	}
}

// detourAnew returns the queue for a waiting entry that has come to d, which is alive, from another source's: d itself, or a detour.
func (q *Qmgr) detourAnew(d *queue, e *sched.Entry) *queue {
	to := q.detourFor(d, &e.Recipients[0])
	for i := range e.Recipients {
		if to != d && detourKey(e.Recipients[i].Doubts.Avoided()) != to.avoids { // they had waited for a main queue
			q.freeIfIdle(to)
			return d
		}
	}
	return to
}

// whole returns the queue that measures are for, and whose state a queue has.
func (d *queue) whole() *queue {
	if d.main != nil {
		return d.main
	}
	return d
}

// ownDetours are the detours of a main queue.
func (d *queue) ownDetours() (all []*queue) {
	if d.detours != nil {
		all = slices.Collect(d.detours.all.All())
	}
	return all
}

// withDetours are a main queue's detours behind itself.
func (d *queue) withDetours() []*queue { return append([]*queue{d}, d.ownDetours()...) }

// touchAll is touch for a main queue and its detours, after a change of its state.
func (d *queue) touchAll() {
	d.touch()
	for _, one := range d.ownDetours() {
		one.touch()
	}
}

// lastComes returns tiers in which the hosts that a detour avoids are behind all others.
func (d *queue) lastComes(tiers [][]mail.Host) [][]mail.Host {
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

// checkDetour checks that a queue and its detours know of each other.
func (d *queue) checkDetour() {
	assert.That((d.main == nil) == (d.avoids == "") && (d.main == nil) == (len(d.avoided) == 0) && d.avoids == detourKey(d.avoided), "%s:%s avoids %q, %v", d.transport.Name, d.nexthop, d.avoids, d.avoided)
	assert.That(d.inAll.Listed() == (d.main != nil), "%s:%s avoids %q, and is listed as a detour: %t", d.transport.Name, d.nexthop, d.avoids, d.inAll.Listed())
	if d.main == nil {
		d.checkTurns()
		return
	}
	main := d.main
	assert.That(d.transport.queues.Get(main.key()) == main && main.main == nil && main.site != nil, "the main queue of a detour of %s:%s is gone", d.transport.Name, d.nexthop)
	assert.That(d.inAll.On(&main.detours.all), "a detour of %s:%s is not known there", d.transport.Name, d.nexthop)
	assert.That(d.measures == nil && d.detours == nil && !d.resolving, "a detour of %s:%s has measures, or detours, or looks its hosts up", d.transport.Name, d.nexthop)
	assert.That(d.window.State() == window.Ready && (d.Waiting == 0 || main.window.State() != window.Dead), "a detour of %s:%s is %v, and %d wait for it; its main queue is %v", d.transport.Name, d.nexthop, d.window.State(), d.Waiting, main.window.State())
	assert.That(d.paused == main.paused, "a detour of %s:%s may start something: %t, its main queue: %t", d.transport.Name, d.nexthop, !d.paused, !main.paused)
}
