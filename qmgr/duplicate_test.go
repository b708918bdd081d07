package qmgr_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// An answer that comes twice, as after a host's restart or from a host with a fault, is
// counted and noted the second time, and changes nothing.
func TestAnswersThatComeTwice(t *testing.T) {
	w, err := qmgrtest.New(qmgr.Config{RecipientLimit: 20, RecipientMinimum: 10, DefaultTransport: qmgr.TransportConfig{RecipientPool: 1, RecipientLimit: 5},
		Transports: map[string]qmgr.TransportConfig{"lines": {Agents: qmgr.AgentsConnections}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.Routes["a.test"] = mail.Route{Transport: "lines", Nexthop: "a.test"}
	w.Lookups["b.test"] = mail.Route{Transport: "smtp", Nexthop: "b.test"}
	// What asks for each answer.
	questions := map[string]string{"Found": "Fetch", "Opened": "Open", "Broken": "Open", "Recipients": "Read", "Routed": "Route", "LookedUp": "Lookup",
		"Hosts": "Resolve", "Dialed": "Dial", "Closed": "none", "Delivered": "none", "Changed": "Change", "Reported": "Report"}
	kind := func(of any) string { return strings.TrimPrefix(fmt.Sprintf("%T", of), "qmgr.") }
	tried := make(map[string]int)
	w.Stepped = func(ev qmgr.Event, actions []qmgr.Action) {
		question := questions[kind(ev)]
		asksAgain := slices.ContainsFunc(actions, func(a qmgr.Action) bool { return kind(a) == question })
		if c, is := ev.(qmgr.Changed); question == "" || asksAgain || is && !w.Core.Explain([]mail.QueueID{c.Changed.ID}, 1)[0].Held {
			return
		}
		tried[kind(ev)]++
		before, dump := w.Core.View(0).Counts, w.Core.Dump(qmgr.DumpOptions{})
		again := w.Core.Step(w.Now, ev)
		if len(again) != 1 || kind(again[0]) != "Note" || again[0].(qmgr.Note).Kind != qmgr.NoteDuplicate {
			t.Errorf("%s comes twice: %v", kind(ev), again)
		}
		before.Duplicates++
		if after := w.Core.View(0).Counts; after != before {
			t.Errorf("%s comes twice: counted %+v, want %+v", kind(ev), after, before)
		}
		if now := w.Core.Dump(qmgr.DumpOptions{}); now != dump {
			t.Errorf("%s comes twice:\n%s\nwas\n%s", kind(ev), now, dump)
		}
	}
	answer := func() {
		for len(w.Outstanding) > 0 {
			if d, is := w.Outstanding[0].(qmgr.Deliver); is {
				how := qmgrtest.Accepted
				if d.Delivery.Nexthop == "c.test" {
					how = qmgrtest.Rejected
				}
				w.Take(0)
				w.Deliver(d, how)
				continue
			}
			w.Answer(w.Take(0))
		}
	}
	several := func(n int, domain string) (list []mail.Recipient) {
		for i := range n {
			list = append(list, mail.Recipient{Address: mail.Address(fmt.Sprintf("u%d@%s", i, domain))})
		}
		return list
	}
	w.Step(qmgr.Wake{})
	answer()
	stored := w.Store("s@x.test", several(300, "c.test"))
	broken := w.Store("s@x.test", several(30, "d.test"))
	w.Trouble[broken.Envelope.ID] = qmgr.TroubleTemporary
	w.Step(qmgr.Retry{IDs: []mail.QueueID{stored.Envelope.ID, broken.Envelope.ID}})
	answer()
	w.Arrive("s@x.test", several(30, "a.test"))
	w.Arrive("s@x.test", several(30, "b.test"))
	answer()
	for _, c := range w.Connections() {
		for len(c.Sends) > 0 {
			w.Sent(c, qmgrtest.Accepted)
			answer()
		}
		w.Close(c, mail.CloseIdle)
	}
	answer()
	for k := range questions {
		if tried[k] == 0 {
			t.Errorf("no answer %s came twice", k)
		}
	}
}
