package qmgr_test

import (
	"fmt"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// started returns a core whose spool is empty, and its clock.
func started(tb testing.TB, cfg qmgr.Config) (*qmgr.Qmgr, mail.Instant) {
	tb.Helper()
	q, err := qmgr.New(cfg, 1)
	if err != nil {
		tb.Fatal(err)
	}
	now := mail.Instant(1e18)
	q.Step(now, qmgr.Wake{})
	for _, s := range []qmgr.Scan{qmgr.ScanIncoming, qmgr.ScanDeferred} {
		q.Step(now, qmgr.Found{Scan: s, Found: mail.Found{NextDue: mail.Never}})
	}
	return q, now
}

// relay steps a core through the whole life of b.N messages with one recipient
// each: arrived, routed, delivered, changed. inFlight messages are under way
// at any time. One operation is one message, that is four Steps.
func relay(b *testing.B, destinations, inFlight int, lookups bool) {
	cfg := qmgr.Config{LookupLimit: inFlight, DefaultTransport: qmgr.TransportConfig{ProcessLimit: inFlight}}
	cfg.DefaultTransport.Window.Initial, cfg.DefaultTransport.Window.Limit = inFlight, -1
	q, now := started(b, cfg)
	nexthops := make([]string, destinations)
	for i := range nexthops {
		nexthops[i] = fmt.Sprintf("d%d.test", i)
	}
	var pending []qmgr.Action
	step := func(ev qmgr.Event) {
		now += 1000
		for _, a := range q.Step(now, ev) {
			switch a.(type) {
			case qmgr.Route, qmgr.Lookup, qmgr.Deliver, qmgr.Change:
				pending = append(pending, a)
			}
		}
	}
	outcomes := []mail.Outcome{{Result: mail.Delivered, Reply: mail.Reply{Code: 250}}}
	answer := func(a qmgr.Action) {
		switch a := a.(type) {
		case qmgr.Route:
			step(qmgr.Routed{ID: a.ID, Routes: []mail.Route{{Transport: "smtp", Nexthop: nexthops[int(a.ID)%destinations], NeedsLookup: lookups}}})
		case qmgr.Lookup:
			step(qmgr.LookedUp{Lookup: a.Lookup, Route: mail.Route{Transport: a.Transport, Nexthop: a.Nexthop}})
		case qmgr.Deliver:
			step(qmgr.Delivered{Entry: a.Entry, Result: mail.DeliveryResult{Outcomes: outcomes}})
		case qmgr.Change:
			step(qmgr.Changed{Changed: mail.Changed{ID: a.Change.ID}})
		}
	}
	rcpts := []mail.Recipient{{Address: "somebody@d1.test"}}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: mail.QueueID(n + 1), Sender: "s@x.test", Arrived: now},
			Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: rcpts, Next: 1}}})
		for len(pending) > inFlight/2 {
			a := pending[0]
			pending = pending[1:]
			answer(a)
		}
	}
}

func BenchmarkRelay(b *testing.B) {
	for _, destinations := range []int{1, 100, 10000} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) { relay(b, destinations, 100, false) })
	}
}

// Mail to destinations that have to be looked up, every time.
func BenchmarkRelayLookups(b *testing.B) {
	for _, destinations := range []int{100, 10000} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) { relay(b, destinations, 100, true) })
	}
}
