package flows

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// Check panics if it is counted wrongly how many flows tenants have, and how many lanes flows have in
// the transports, which are all that there are. It takes linear time.
func (r *Registry) Check(transports iter.Seq[*Transport]) {
	known, flows, lanes := make(map[*tenant]int), make(map[*tenant]int), 0
	for key, f := range r.flows { //archtest:anyorder sums
		name := f.Name()
		assert.That(key == flowKey{f.tenant, f.name} && r.tenants[f.tenant.name] == f.tenant && (f.messages == 0) == f.idle.Listed(), "flow %v has %d messages, and is idle: %t", name, f.messages, f.idle.Listed())
		for range f.all() {
			lanes++
		}
		if known[f.tenant]++; f.messages > 0 {
			flows[f.tenant]++
		}
	}
	for t := range transports {
		lanes -= t.lanes.Len() - 1 // the first is no flow's
	}
	assert.That(lanes == 0, "flows have %d lanes more than transports", lanes)
	assert.That(len(known) == len(r.tenants), "%d tenants have flows, %d are known", len(known), len(r.tenants))
	for _, t := range r.tenants { //archtest:anyorder assertions
		assert.That(known[t] == t.known && flows[t] == t.flows, "%v has %d flows, of which %d are idle, counted %d and %d", t.name, known[t], flows[t], t.known, t.flows)
	}
}

// Check panics where an invariant of the transport's lanes, and of how they share, does not hold.
func (t *Transport) Check() {
	for l := range t.lanes.All() {
		l.Lane.Check()
		assert.That(l.leaf.Joined() == (l.Ready() && t.lanes.Len() > 1), "a lane of %s takes turns: %t", t.Name, l.leaf.Joined())
		assert.That(l.unread.Listed() == l.HasUnread(), "a lane of %s shares recipient slots: %t", t.Name, l.unread.Listed())
	}
	t.turns.Check()
	n := t.pools.unread.Len()
	assert.That(n <= t.pools.parts && t.pools.parts < max(4*n, 2), "%s: %d lanes share recipient slots in %d parts", t.Name, n, t.pools.parts)
}

// CheckSlots panics if lanes have other numbers of recipient slots in use than these.
func (t *Transport) CheckSlots(slots map[*sched.Lane]int) {
	for l := range t.lanes.All() {
		l.Lane.CheckSlots(slots[&l.Lane])
	}
}

// Check panics where an invariant of the destination's claims does not hold.
func (d *Destination) Check() {
	var sum sched.Load
	for c := range d.claims.All() {
		sum.Add(c.Load)
		assert.That(c.At == d && c.Lane == &c.lane.Lane, "%s has a claim of another", d.name)
		assert.That(c.Waiting > 0 || c.Busy > 0 || c.lane.flow == nil, "%s has a claim without entries", d.name)
		d.checkSharing(c)
	}
	assert.That(d.contention == d.nextContention(), "%s: contention is %d, and should be %d", d.name, d.contention, d.nextContention())
	assert.That(sum == d.Load, "%s: %+v, counted %+v", d.name, sum, d.Load)
}

// checkSharing checks how a claim shares the room of its destination.
func (d *Destination) checkSharing(c *Claim) {
	assert.That(c.inContenders.Listed() == (c.Waiting > 0), "%s: a claim with %d entries waiting contends: %t", d.name, c.Waiting, c.inContenders.Listed())
	assert.That(c.leaf.Joined() == (c.Waiting > 0 && d.contention == contentionScarce), "%s: a claim takes turns: %t", d.name, c.leaf.Joined())
	assert.That(d.contention != contentionScarce || d.turns.Next().Owner == d.turn, "%s: it is the turn of another", d.name)
	assert.That(c.inHeld.Listed() == (d.turn == c), "%s: a claim has the turn: %t", d.name, c.inHeld.Listed())
	room, all := c.Room(), d.Outlet.Room()
	assert.That(room <= max(all, 0) || all < 0, "%s: a claim has room for %d, the destination for %d", d.name, room, all)
	assert.That(all <= 0 || c.Waiting == 0 || room > 0 || d.contention == contentionScarce && d.turn != c, "%s: a claim that waits has no room", d.name)
}
