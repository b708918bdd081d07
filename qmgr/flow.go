package qmgr

import (
	"math/bits"
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A flow is what of a mail.Flow is in core. It has a lane in each transport that is to
// carry some of it.
//
// Mail that was not classified has no flow of its own: it is in each transport's first
// lane, and so is all mail of a transport whose scheduler is there for comparison. A
// core without flows decides as Postfix does.
type flow struct {
	name     mail.Flow
	messages int // in core
	lanes    []*lane
	flowCounts
	idle ilist.Link[flow] // on Qmgr.idle, if it has no messages
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
	switch {
	case f == nil:
		f = q.stocks.flows.Take()
		f.name = name
		q.flows[name] = f
	case f.idle.Listed():
		q.idle.Remove(&f.idle)
	}
	f.messages++
	m.flow = f
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
	q.idle.PushBack(&f.idle, f)
	if q.idle.Len() > idleFlows {
		f = q.idle.PopFront()
		delete(q.flows, f.name)
		q.stocks.giveFlow(f)
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
