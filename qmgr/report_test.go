package qmgr_test

import (
	"fmt"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A sender gets one report for a round, not one for each destination that
// fails: a failure that comes while an earlier one is being recorded has to be
// recorded, too, before the report is made.
func TestOneReportForARound(t *testing.T) {
	q, err := qmgr.New(qmgr.Config{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	const id = 7
	now := mail.Instant(1e18)
	step := func(ev qmgr.Event) (actions []qmgr.Action) {
		now++
		for _, a := range q.Step(now, ev) {
			switch a.(type) {
			case qmgr.Route, qmgr.Deliver, qmgr.Change, qmgr.Report:
				actions = append(actions, a)
			}
		}
		return actions
	}
	want := func(what string, actions []qmgr.Action, types ...string) {
		t.Helper()
		var got []string
		for _, a := range actions {
			got = append(got, fmt.Sprintf("%T", a))
		}
		if fmt.Sprint(got) != fmt.Sprint(types) {
			t.Fatalf("%s: actions %v, want %v", what, got, types)
		}
	}
	place := mail.Place{Area: mail.AreaIncoming}
	failed := func(d qmgr.Action, index uint32) qmgr.Delivered {
		return qmgr.Delivered{Entry: d.(qmgr.Deliver).Entry, Result: mail.DeliveryResult{
			Outcomes: []mail.Outcome{{Index: index, Result: mail.Failed, Reply: mail.Reply{Code: 550}}}}}
	}

	step(qmgr.Wake{})
	step(qmgr.Found{Scan: qmgr.ScanIncoming, Found: mail.Found{NextDue: mail.Never}})
	step(qmgr.Found{Scan: qmgr.ScanDeferred, Found: mail.Found{NextDue: mail.Never}})
	actions := step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Recipients: 2, Arrived: now},
		Place: place, Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Index: 0, Address: "a@a.test"}, {Index: 1, Address: "b@b.test"}}, Next: 2}}})
	want("arrival", actions, "qmgr.Route")
	deliver := step(qmgr.Routed{ID: id, Routes: []mail.Route{{Transport: "smtp", Nexthop: "a.test"}, {Transport: "smtp", Nexthop: "b.test"}}})
	want("routes", deliver, "qmgr.Deliver", "qmgr.Deliver")
	want("first failure", step(failed(deliver[0], 0)), "qmgr.Change")
	want("second failure, while the first is being recorded", step(failed(deliver[1], 1)))
	place.Touched, place.Owes = true, true
	changed := qmgr.Changed{Changed: mail.Changed{ID: id, Place: place, Reports: true}}
	want("first recorded", step(changed), "qmgr.Change")
	want("both recorded", step(changed), "qmgr.Report")
	want("report made", step(qmgr.Reported{ID: id}), "qmgr.Change")
}
