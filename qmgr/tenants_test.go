package qmgr_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// However many tenants and destinations there are, an answer has the first of them by name, and the rest
// as one: a metric with a name for each would grow with what senders think of.
func TestSumsOfTheRest(t *testing.T) {
	w := newSums(t)
	list := w.Tenants(2)
	if len(list.Tenants) != 2 || list.Known != 7 || len(list.Classes) != 2 {
		t.Fatalf("%+v", list)
	}
	if first := list.Tenants[0]; first.Tenant != "t6" || first.Class != "bulk" {
		t.Errorf("the first is %+v, want the one with most waiting", first)
	}
	sum := list.Others
	for _, v := range list.Tenants {
		sum.Messages += v.Messages
		sum.Waiting += v.Waiting
		sum.Busy += v.Busy
	}
	var classes qmgr.TenantView
	for _, v := range list.Classes {
		classes.Messages += v.Messages
		classes.Waiting += v.Waiting
		classes.Busy += v.Busy
	}
	view := w.View(3)
	smtp := view.Transports[0]
	for _, tr := range view.Transports {
		if tr.Name == "smtp" {
			smtp = tr
		}
	}
	if sum != classes || sum.Messages != view.Messages || sum.Busy != view.Busy || sum.Waiting != smtp.All.Todo || sum.Waiting == 0 {
		t.Errorf("tenants have %+v, classes %+v, destinations %+v, all %d messages", sum, classes, smtp.All, view.Messages)
	}
	if len(smtp.Queues) != 3 || smtp.All.Queues != 7 || smtp.All.Busy != smtp.Busy || smtp.All.Window < 7 {
		t.Errorf("%d destinations by name, all: %+v", len(smtp.Queues), smtp.All)
	}
	if all := w.View(0).Transports[0].All; all != (qmgr.QueueSum{}) {
		t.Errorf("sums that nobody has asked for: %+v", all)
	}
}

// newSums returns a core with 7 tenants, each of which has more messages than the one before.
func newSums(t *testing.T) *qmgr.Qmgr {
	q, err := qmgr.New(qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {ProcessLimit: 5}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := mail.Instant(1_750_000_000_000_000_000)
	id := mail.NewQueueID(now, 0)
	for tenant := range 7 {
		for range tenant + 2 { // the first of all waits for a scan
			id++
			class := "normal"
			if tenant > 2 {
				class = "bulk"
			}
			e := mail.Envelope{ID: id, Arrived: now, Sender: "s@x.test", Recipients: 1, Flow: mail.Flow{Class: class, Tenant: fmt.Sprint("t", tenant), Flow: "f"}}
			a := mail.Arrival{Envelope: e, Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u@d%d.test", tenant))}}, Next: 1}}
			for _, action := range slices.Clone(q.Step(now, qmgr.Arrived{Arrival: a})) {
				if r, is := action.(qmgr.Route); is {
					q.Step(now, qmgr.Routed{ID: r.ID, Routes: []mail.Route{{Transport: "smtp", Nexthop: fmt.Sprintf("d%d.test", tenant)}}})
				}
			}
		}
	}
	return q
}
