package qmgr_test

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// What a dead host has said goes with the mail that is put off because of it: its
// code, its status and its name.
//
// Seen failing: only status and text were handed over, as the name of a destination.
func TestWordsOfTheDead(t *testing.T) {
	for name, said := range map[string]mail.Reply{
		"the host's": {Code: 554, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "closed to you", By: "mx.a.test[192.0.2.1]"},
		// Seen failing: it was 450 in the outcome of the mail, and 451 as the last failure of the destination.
		"ours": {Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connect to 192.0.2.1:25: connection refused"},
	} {
		t.Run(name, func(t *testing.T) { checkWordsOfTheDead(t, said) })
	}
}

func checkWordsOfTheDead(t *testing.T, said mail.Reply) {
	q, err := qmgr.New(qmgr.Config{DefaultTransport: qmgr.TransportConfig{Window: window.Config{Initial: 1, Limit: 1}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := mail.Instant(1e18)
	step := func(ev qmgr.Event) (route *qmgr.Route, deliver *qmgr.Deliver) {
		now++
		for _, a := range q.Step(now, ev) {
			switch a := a.(type) {
			case qmgr.Route:
				route = &a
			case qmgr.Deliver:
				deliver = &a
			}
		}
		return route, deliver
	}
	arrive := func(id mail.QueueID) *qmgr.Deliver {
		step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Recipients: 1, Arrived: now},
			Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: "a@a.test"}}, Next: 1}}})
		_, d := step(qmgr.Routed{ID: id, Routes: []mail.Route{{Transport: "smtp", Nexthop: "a.test"}}})
		if d == nil {
			t.Fatalf("message %v is not delivered", id)
		}
		return d
	}
	step(qmgr.Wake{})
	for _, s := range []qmgr.Scan{qmgr.ScanIncoming, qmgr.ScanDeferred} {
		step(qmgr.Found{Scan: s, Found: mail.Found{NextDue: mail.Never}})
	}
	step(qmgr.Delivered{Entry: arrive(mail.NewQueueID(now, 0)).Entry, Result: mail.DeliveryResult{Site: said,
		Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: said}}}})
	d := arrive(mail.NewQueueID(now+1e6, 0))
	got := d.Delivery.Said
	if d.Delivery.Transport != qmgr.TransportRetry || got.Text != mail.SuspendedPrefix+said.Text || got.Said() != said {
		t.Errorf("given to %s because of %+v, want %+v", d.Delivery.Transport, got, said)
	}
}
