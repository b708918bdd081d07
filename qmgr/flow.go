package qmgr

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A flow is what of a mail.Flow is in core. It has a lane in each transport that is to
// carry some of it.
//
// A tenant has so many flows with a lane of their own, and no more, whatever senders it invents:
// further ones share a quarter as many, which are chosen by a hash of their names, as in FQ-CoDel
// (RFC 8290). So a flow takes turns with a bounded number of others. Which flows share is decided
// when the first message of a flow comes into core. The last quarter of what a tenant may have of its own is
// for flows that are remembered: who has sent before should not have to share with a flood of new names.
//
// Mail that was not classified has no flow of its own: it is in each transport's first
// lane, and so is all mail of a transport whose scheduler is there for comparison. A
// core without flows decides as Postfix does.
type flow struct {
	name     mail.Flow
	tenant   *tenant
	messages int // in core
	lanes    []*lane
	flowCounts
	idle ilist.Link[flow] // on Qmgr.idle, if it has no messages
}

// A tenant is the flows of one tenant, in one class, that are known.
type tenant struct {
	name  mail.Flow // without that of a flow
	known int       // flows, and those that are remembered
	flows int       // with messages in core
}

// idleFlows is how many flows are remembered that have no message in core, for views.
// They have no lanes.
const idleFlows = 1000

// join makes a message one of its flow's.
func (q *Qmgr) join(m *message) {
	name := m.env.Flow
	if name == (mail.Flow{}) || q.cfg.AsPostfix {
		return
	}
	f := q.flows[name]
	if f == nil || f.messages == 0 {
		f = q.begin(name, f)
	}
	f.messages++
	m.flow = f
}

// begin returns the flow to which mail of a name counts that has none in core: its own, which is
// f if it is remembered, or one that it shares.
func (q *Qmgr) begin(name mail.Flow, f *flow) *flow {
	t := q.tenant(name, f)
	limit := q.cfg.TenantFlows
	if f == nil {
		limit -= limit / 4
	}
	if t.flows >= limit {
		name.Flow = sharedFlow(name, q.cfg.TenantFlows)
		if f = q.flows[name]; f != nil && f.messages > 0 {
			return f
		}
	}
	if f == nil {
		f = q.stocks.flows.Take()
		f.name, f.tenant = name, t
		q.flows[name] = f
		t.known++
	} else {
		q.idle.Remove(&f.idle)
	}
	t.flows++
	return f
}

// tenant returns that of a flow, which may be known.
func (q *Qmgr) tenant(name mail.Flow, f *flow) *tenant {
	if f != nil {
		return f.tenant
	}
	name.Flow = ""
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		q.tenants[name] = t
	}
	return t
}

// sharedFlow returns under which name mail of a flow is in core if its tenant has as many flows as it may
// have. A sender who takes such a name for himself is one of those who share it.
func sharedFlow(name mail.Flow, most int) string {
	return "#" + strconv.Itoa(int(name.Bucket())%max(most/4, 1))
}

// part takes a message out of its flow. It has no jobs any more.
func (q *Qmgr) part(f *flow) {
	if f == nil {
		return
	}
	if f.messages--; f.messages > 0 {
		return
	}
	for _, l := range f.lanes {
		q.freeLane(l)
	}
	clear(f.lanes)
	f.lanes = f.lanes[:0]
	f.tenant.flows--
	q.idle.PushBack(&f.idle, f)
	if q.idle.Len() > idleFlows {
		q.forgetFlow(q.idle.PopFront())
	}
}

// forgetFlow ends what is known of an idle flow.
func (q *Qmgr) forgetFlow(f *flow) {
	delete(q.flows, f.name)
	if f.tenant.known--; f.tenant.known == 0 {
		delete(q.tenants, f.tenant.name)
	}
	q.stocks.giveFlow(f)
}

// checkFlows checks how many flows tenants have.
func (q *Qmgr) checkFlows() {
	known, flows, lanes := make(map[*tenant]int), make(map[*tenant]int), 0
	for name, f := range q.flows { //archtest:anyorder sums
		assert.That(f.name == name && (f.messages == 0) == f.idle.Listed(), "flow %v has %d messages, and is idle: %t", name, f.messages, f.idle.Listed())
		assert.That(f.tenant.name == mail.Flow{Class: name.Class, Tenant: name.Tenant}, "flow %v is of tenant %v", name, f.tenant.name)
		lanes += len(f.lanes)
		if known[f.tenant]++; f.messages > 0 {
			flows[f.tenant]++
		}
	}
	for t := range q.ring.All() {
		lanes -= t.lanes.Len() - 1 // the first is no flow's
	}
	assert.That(lanes == 0, "flows have %d lanes more than transports", lanes)
	assert.That(len(known) == len(q.tenants), "%d tenants have flows, %d are known", len(known), len(q.tenants))
	for _, t := range q.tenants { //archtest:anyorder assertions
		assert.That(known[t] == t.known && flows[t] == t.flows, "%v has %d flows, of which %d are idle, counted %d and %d", t.name, known[t], flows[t], t.known, t.flows)
	}
}

// load is what the flow has in all transports.
func (f *flow) load() (sum sched.Load) {
	for _, l := range f.lanes {
		sum.Add(l.Load)
	}
	return sum
}

// flowCounts is what has happened to the mail of a flow. It only grows.
type flowCounts struct {
	started uint64        // deliveries
	waits   [waits]uint32 // by the time from a message's admission to the start of a delivery
}

// waits is the number of classes of waiting times. Class 0 is less than a millisecond, and
// each that follows has times up to twice as long; the last one, whatever is longer.
const waits = 24

// startedAfter counts a delivery.
func (c *flowCounts) startedAfter(wait time.Duration) {
	c.started++
	c.waits[min(bits.Len64(uint64(max(wait, 0)/time.Millisecond)), waits-1)]++
}

// quantile returns a time that so many thousandths of the deliveries have not waited
// longer than: the upper end of a class; 0 if there were no deliveries.
func (c *flowCounts) quantile(permille uint64) time.Duration {
	var total, sum uint64
	for _, n := range c.waits {
		total += uint64(n)
	}
	for i, n := range c.waits {
		if sum += uint64(n); n > 0 && sum*1000 >= total*permille {
			return time.Millisecond << i
		}
	}
	return 0
}
