package qmgr

import (
	"iter"
	"math"
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
//
// What is remembered of a flow without mail is kept below 200 bytes.
type flow struct {
	name     string // within its tenant
	tenant   *tenant
	messages int   // in core
	lanes    *lane // one of them, which leads to the others; nil if there are none
	flowCounts
	idle ilist.Link[flow] // on Qmgr.idle, if it has no messages
}

// A flowKey finds a flow. Tenants are compared by identity: one is known as long as its flows are.
type flowKey struct {
	tenant *tenant
	name   string
}

// full returns the name of the flow together with those of its class and its tenant.
func (f *flow) full() mail.Flow {
	return mail.Flow{Class: f.tenant.name.class, Tenant: f.tenant.name.tenant, Flow: f.name}
}

// A tenantKey finds a tenant: the same name in two classes is two tenants.
type tenantKey struct{ class, tenant string }

// A tenant is the flows of one tenant, in one class, that are known.
type tenant struct {
	name  tenantKey
	known int // flows, and those that are remembered
	flows int // with messages in core
}

// idleFlows is the number of flows without a message in core that are remembered, for views.
// They have no lanes.
const idleFlows = 800

// join makes a message one of its flow's.
func (q *Qmgr) join(m *message) {
	name := m.env.Flow
	if name == (mail.Flow{}) || q.cfg.AsPostfix {
		return
	}
	t := q.tenant(name)
	f := q.flows[flowKey{t, name.Flow}]
	if f == nil || f.messages == 0 {
		f = q.begin(t, name, f)
	}
	f.messages++
	m.flow = f
}

// begin returns the flow to which mail of a name counts that has none in core: its own, which is
// f if it is remembered, or one that it shares.
func (q *Qmgr) begin(t *tenant, name mail.Flow, f *flow) *flow {
	limit := q.cfg.TenantFlows
	if f == nil {
		limit -= limit / 4
	}
	if t.flows >= limit {
		name.Flow = sharedFlow(name, q.cfg.TenantFlows)
		if f = q.flows[flowKey{t, name.Flow}]; f != nil && f.messages > 0 {
			return f
		}
	}
	if f == nil {
		f = q.stocks.flows.Take()
		f.name, f.tenant = name.Flow, t
		q.flows[flowKey{t, f.name}] = f
		t.known++
	} else {
		q.idle.Remove(&f.idle)
	}
	t.flows++
	return f
}

// tenant returns that of a flow.
func (q *Qmgr) tenant(name mail.Flow) *tenant {
	key := tenantKey{name.Class, name.Tenant}
	t := q.tenants[key]
	if t == nil {
		t = &tenant{name: key}
		q.tenants[key] = t
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
	for l := f.lanes; l != nil; l = f.lanes {
		f.lanes = l.sibling
		q.freeLane(l)
	}
	f.tenant.flows--
	q.idle.PushBack(&f.idle, f)
	if q.idle.Len() > idleFlows {
		q.forgetFlow(q.idle.PopFront())
	}
}

// forgetFlow ends what is known of an idle flow.
func (q *Qmgr) forgetFlow(f *flow) {
	delete(q.flows, flowKey{f.tenant, f.name})
	if f.tenant.known--; f.tenant.known == 0 {
		delete(q.tenants, f.tenant.name)
	}
	q.stocks.giveFlow(f)
}

// checkFlows checks how many flows tenants have.
func (q *Qmgr) checkFlows() {
	known, flows, lanes := make(map[*tenant]int), make(map[*tenant]int), 0
	for key, f := range q.flows { //archtest:anyorder sums
		name := f.full()
		assert.That(key == flowKey{f.tenant, f.name} && q.tenants[f.tenant.name] == f.tenant && (f.messages == 0) == f.idle.Listed(), "flow %v has %d messages, and is idle: %t", name, f.messages, f.idle.Listed())
		for range f.allLanes() {
			lanes++
		}
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

// allLanes yields the flow's lanes.
func (f *flow) allLanes() iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		for l := f.lanes; l != nil && yield(l); l = l.sibling {
		}
	}
}

// load is what the flow has in all transports.
func (f *flow) load() (sum sched.Load) {
	for l := range f.allLanes() {
		sum.Add(l.Load)
	}
	return sum
}

// flowCounts is what has happened to the mail of a flow.
type flowCounts struct {
	started uint64 // deliveries
	// waits counts deliveries by the time from a message's admission to the
	// start of a delivery. When one count is full, all are halved.
	waits [waits]uint16
}

// waits is the number of classes of waiting times. Class 0 is less than a millisecond, and
// each that follows has times up to twice as long; the last one, whatever is longer.
const waits = 24

// startedAfter counts a delivery.
func (c *flowCounts) startedAfter(wait time.Duration) {
	c.started++
	n := &c.waits[min(bits.Len64(uint64(max(wait, 0)/time.Millisecond)), waits-1)]
	if *n == math.MaxUint16 {
		for i := range c.waits {
			c.waits[i] /= 2
		}
	}
	*n++
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
