package qmgr_test

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// The agents of retry and error answer from memory, and a host that says that such a
// destination cannot be reached makes a mistake. Step returns all the same, however
// often it does, and the recipients are deferred, or fail, as they were to be.
func TestSiteFailureOfRetry(t *testing.T) {
	for _, transport := range []string{"smtp", qmgr.TransportRetry, qmgr.TransportError} {
		for _, text := range []string{"4.4.1 no answer", "4.4.1 " + qmgr.SuspendedPrefix + "no answer", "y.test"} {
			q, err := qmgr.New(qmgr.Config{DefaultTransport: qmgr.TransportConfig{Window: window.Config{Limit: 1}}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			now := mail.Instant(1e18)
			step := func(ev qmgr.Event) []qmgr.Action {
				t.Helper()
				done := make(chan []qmgr.Action, 1)
				go func() { done <- q.Step(now, ev) }()
				select {
				case actions := <-done:
					return actions
				case <-time.After(10 * time.Second):
					panic("Step does not return")
				}
			}
			step(qmgr.Wake{})
			step(qmgr.Found{Scan: qmgr.ScanIncoming})
			step(qmgr.Found{Scan: qmgr.ScanDeferred, Found: mail.Found{NextDue: mail.Never}})
			var todo []qmgr.Action
			for n := range 3 {
				id := mail.QueueID(n+1)<<40 | 1
				a := mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Recipients: 1, Arrived: now},
					Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: "u@y.test"}}, Next: 1}}
				todo = append(todo, step(qmgr.Arrived{Arrival: a})...)
			}
			ended := 0
			for rounds := 0; len(todo) > 0; rounds++ {
				if rounds > 1000 {
					t.Fatalf("%s %q: there is always more to do", transport, text)
				}
				a := todo[0]
				todo = todo[1:]
				switch a := a.(type) {
				case qmgr.Route:
					todo = append(todo, step(qmgr.Routed{ID: a.ID, Routes: []mail.Route{{Transport: transport, Nexthop: text}}})...)
				case qmgr.Deliver:
					failed := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "no answer"}
					todo = append(todo, step(qmgr.Delivered{Entry: a.Entry, Result: mail.DeliveryResult{Site: failed,
						Outcomes: []mail.Outcome{{Index: 0, Result: mail.Deferred, Reply: failed}}}})...)
				case qmgr.Change:
					ended++
					place := mail.Place{Area: mail.AreaDeferred, Due: a.Change.Due}
					todo = append(todo, step(qmgr.Changed{Changed: mail.Changed{ID: a.Change.ID, Place: place}})...)
				}
			}
			if ended != 3 {
				t.Errorf("%s %q: %d of 3 messages were recorded", transport, text, ended)
			}
		}
	}
}
