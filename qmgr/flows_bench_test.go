package qmgr_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// BenchmarkFlows steps a core through the whole life of a message with one recipient while
// 200,000 of so many flows wait for one destination that is full: one delivery ends, the
// next one starts, and a message of the flow that was served comes in. With 0 flows nothing
// is classified.
func BenchmarkFlows(b *testing.B) {
	for _, n := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) { contend(b, n, 200_000, 20) })
	}
}

// BenchmarkFlowsUnderWay does so where nothing waits: each message of each flow is under way to
// the one destination.
func BenchmarkFlowsUnderWay(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) { contend(b, n, 1000, 2000) })
	}
}

// BenchmarkFlowDecision is one decision which of so many flows goes next at a destination that
// has no room for an entry of each, and which of its messages, when 200,000 messages wait there.
// It includes what follows from the start of the entry for the flow, the destination and all
// that wait. The entries are put back by the batch, which is not part of ns/decision.
func BenchmarkFlowDecision(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) {
			batch := max(1, n/2)
			c := newContest(b, n, 200_000, batch)
			c.step(qmgr.Halt{}) // so that slots that come free stay so
			for len(c.busy) > 0 {
				c.end()
			}
			started := make([]*sched.Entry, 0, batch)
			var deciding time.Duration
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += len(started) {
				started = started[:0]
				begin := time.Now()
				for len(started) < min(batch, b.N-done) {
					started = append(started, c.q.StartNext("smtp"))
				}
				deciding += time.Since(begin)
				c.q.PutBack(started)
			}
			b.ReportMetric(float64(deciding.Nanoseconds())/float64(b.N), "ns/decision")
		})
	}
}

// BenchmarkIdleFlows measures how much memory a flow takes that is remembered without mail. It is
// the same for each of the 800 that are; their names come with the messages.
func BenchmarkIdleFlows(b *testing.B) {
	const n = 800
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for b.Loop() {
		c := newContest(b, 1, 2, 2)
		names := make([]mail.Flow, n)
		for i := range names {
			names[i] = mail.Flow{Class: "normal", Tenant: fmt.Sprint("t", i%100), Flow: fmt.Sprint("sender", i, "@example.com")}
		}
		before := heap()
		for _, f := range names {
			c.arrive(f)
			c.end()
		}
		b.ReportMetric(float64(heap()-before)/n, "B/flow")
		runtime.KeepAlive(c)
		runtime.KeepAlive(names)
	}
}

// A contest is a core in which messages of flows wait for one destination.
type contest struct {
	q    *qmgr.Qmgr
	now  mail.Instant
	id   mail.QueueID
	busy []qmgr.Deliver
	left []mail.QueueID
}

func newContest(b *testing.B, flows, jobs, window int) *contest {
	cfg := qmgr.Config{ActiveLimit: 2 * jobs}
	cfg.DefaultTransport.ProcessLimit = max(window, 100)
	cfg.DefaultTransport.Window.Initial, cfg.DefaultTransport.Window.Limit = window, window
	c := &contest{}
	c.q, c.now = started(b, cfg)
	names := make([]mail.Flow, max(flows, 1))
	for i := range names[:flows] {
		names[i] = mail.Flow{Class: "normal", Tenant: fmt.Sprint("t", i%100), Flow: fmt.Sprint("f", i)}
	}
	for i := range jobs {
		c.arrive(names[i%len(names)])
	}
	return c
}

func (c *contest) step(ev qmgr.Event) {
	c.now += 1000
	for _, a := range c.q.Step(c.now, ev) {
		switch a := a.(type) {
		case qmgr.Deliver:
			c.busy = append(c.busy, a)
		case qmgr.Change:
			c.left = append(c.left, a.Change.ID)
		}
	}
}

var (
	contestTo     = []mail.Recipient{{Address: "somebody@d1.test"}}
	contestRoutes = []mail.Route{{Transport: "smtp", Nexthop: "d1.test"}}
	contestEnds   = []mail.Outcome{{Result: mail.Delivered, Reply: mail.Reply{Code: 250}}}
)

func (c *contest) arrive(f mail.Flow) {
	c.id++
	c.step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: c.id, Sender: "s@x.test", Arrived: c.now, Flow: f},
		Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: contestTo, Next: 1}}})
	c.step(qmgr.Routed{ID: c.id, Routes: contestRoutes})
}

// end ends the oldest delivery, and returns whose it was.
func (c *contest) end() mail.Flow {
	d := c.busy[0]
	c.busy = append(c.busy[:0], c.busy[1:]...)
	c.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: contestEnds}})
	c.step(qmgr.Changed{Changed: mail.Changed{ID: c.left[0]}})
	c.left = c.left[:0]
	return d.Delivery.Envelope.Flow
}

func contend(b *testing.B, flows, jobs, window int) {
	c := newContest(b, flows, jobs, window)
	b.ReportAllocs()
	for b.Loop() {
		c.arrive(c.end())
	}
}
