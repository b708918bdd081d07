package qmgr_test

import (
	"fmt"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
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

func contend(b *testing.B, flows, jobs, window int) {
	cfg := qmgr.Config{ActiveLimit: 2 * jobs}
	cfg.DefaultTransport.ProcessLimit = max(window, 100)
	cfg.DefaultTransport.Window.Initial, cfg.DefaultTransport.Window.Limit = window, window
	q, now := started(b, cfg)
	names := make([]mail.Flow, max(flows, 1))
	for i := range names[:flows] {
		names[i] = mail.Flow{Class: "normal", Tenant: fmt.Sprint("t", i%100), Flow: fmt.Sprint("f", i)}
	}
	rcpts := []mail.Recipient{{Address: "somebody@d1.test"}}
	outcomes := []mail.Outcome{{Result: mail.Delivered, Reply: mail.Reply{Code: 250}}}
	routes := []mail.Route{{Transport: "smtp", Nexthop: "d1.test"}}
	var busy []qmgr.Deliver
	var left []mail.QueueID
	step := func(ev qmgr.Event) {
		now += 1000
		for _, a := range q.Step(now, ev) {
			switch a := a.(type) {
			case qmgr.Deliver:
				busy = append(busy, a)
			case qmgr.Change:
				left = append(left, a.Change.ID)
			}
		}
	}
	id := mail.QueueID(0)
	arrive := func(f mail.Flow) {
		id++
		step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Arrived: now, Flow: f},
			Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: rcpts, Next: 1}}})
		step(qmgr.Routed{ID: id, Routes: routes})
	}
	for i := range jobs {
		arrive(names[i%len(names)])
	}
	b.ReportAllocs()
	for b.Loop() {
		d := busy[0]
		busy = append(busy[:0], busy[1:]...)
		step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: outcomes}})
		step(qmgr.Changed{Changed: mail.Changed{ID: left[0]}})
		left = left[:0]
		arrive(d.Delivery.Envelope.Flow)
	}
}
