package qmgr_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// flowsWorld returns a world whose destinations take two deliveries at once, and a function
// that has a message arrive of a flow of tenant t, or of another as in tenant/flow.
func flowsWorld(t *testing.T, cfg qmgr.Config) (*qmgrtest.World, func(flow, to string) *qmgrtest.Message) {
	t.Helper()
	cfg.DefaultTransport.ProcessLimit = 500
	cfg.DefaultTransport.Window.Initial, cfg.DefaultTransport.Window.Limit = 2, 2
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	return w, func(flow, to string) *qmgrtest.Message {
		f := mail.Flow{Class: "normal", Tenant: "t", Flow: flow}
		if tenant, name, named := strings.Cut(flow, "/"); named {
			f.Tenant, f.Flow = tenant, name
		}
		w.Flow = func() mail.Flow { return f }
		m := w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address("u@" + to)}})
		for i := 0; i < len(w.Outstanding); i++ {
			if _, delivery := w.Outstanding[i].(qmgr.Deliver); !delivery {
				w.Answer(w.Take(i))
				i = -1
			}
		}
		return m
	}
}

func TestFlows(t *testing.T) {
	w, arrive := flowsWorld(t, qmgr.Config{})
	for range 5 {
		arrive("news", "a.test")
	}
	last := arrive("otp", "a.test")
	arrive("otp", "b.test")
	got := w.Core.Flows(qmgr.FlowQuery{Most: 10})
	name := func(flow string) mail.Flow { return mail.Flow{Class: "normal", Tenant: "t", Flow: flow} }
	// Two of news are under way at a.test, so otp goes next there: one start of the other flow
	// may come between two of its own.
	want := []qmgr.FlowView{
		{Flow: name("news"), Messages: 5, Waiting: 3, Busy: 2, Started: 2, Half: time.Millisecond, NinetyNine: time.Millisecond,
			Places: []qmgr.FlowPlace{{Transport: "smtp", Nexthop: "a.test", Waiting: 3, Busy: 2, Sharing: qmgr.Sharing{Flows: 2, Share: 500, Turns: 1}}}},
		{Flow: name("otp"), Messages: 2, Waiting: 1, Busy: 1, Started: 1, Half: time.Millisecond, NinetyNine: time.Millisecond,
			Places: []qmgr.FlowPlace{{Transport: "smtp", Nexthop: "a.test", Waiting: 1, Sharing: qmgr.Sharing{Flows: 2, Share: 500}}}},
	}
	if got.Matched != 2 || got.More || !reflect.DeepEqual(got.Flows, want) {
		t.Errorf("flows:\n%+v\nwant\n%+v", got, want)
	}
	v := w.Core.Explain([]mail.QueueID{last.Envelope.ID}, 5)
	if p := v[0].Places; len(p) != 1 || p[0].Sharing != (qmgr.Sharing{Flows: 2, Share: 500}) || p[0].WaitReason.Kind != qmgr.WaitWindow {
		t.Errorf("the waiting message: %+v", p)
	}
	for i := range 7 { // there, two are under way and one waits
		for range 3 {
			arrive("many", fmt.Sprint("m", i, ".test"))
		}
	}
	for range 20 { // flows are looked at in no order
		one := w.Core.Flows(qmgr.FlowQuery{Most: 1, Match: func(f mail.Flow) bool { return f.Flow != "many" }})
		if len(one.Flows) != 1 || one.Flows[0].Flow != name("news") || !one.More || one.Matched != 2 {
			t.Errorf("the first flow: %+v", one)
		}
	}
	many := w.Core.Flows(qmgr.FlowQuery{Most: 1, Match: func(f mail.Flow) bool { return f.Flow == "many" }})
	if len(many.Flows) != 1 || len(many.Flows[0].Places) != 5 || many.Flows[0].More != 2 || many.Matched != 1 || many.More {
		t.Errorf("a flow with mail for seven destinations: %+v", many)
	}
	if v := w.Core.View(0); len(v.Transports) != 1 || v.Transports[0].Jobs != 11 {
		t.Errorf("%+v; 11 of the 28 messages have something waiting, and so a job on a list", v.Transports)
	}
}

// A tenant has eight flows of its own here, two of them for those that are remembered, and two for
// all others, by their names.
func TestTenantFlows(t *testing.T) {
	w, arrive := flowsWorld(t, qmgr.Config{TenantFlows: 8})
	counts := func(flow string) string {
		return w.Core.Explain([]mail.QueueID{arrive(flow, "a.test").Envelope.ID}, 0)[0].Flow.Flow
	}
	shared := make(map[string]int)
	for i := range 46 {
		name := fmt.Sprint("f", i)
		switch got := counts(name); {
		case i >= 6:
			shared[got]++
		case got != name:
			t.Errorf("flow %d counts to %s", i, got)
		}
	}
	if len(shared) != 2 || shared["#0"] < 10 || shared["#1"] < 10 {
		t.Errorf("40 flows more count to %v", shared)
	}
	if got := counts("f3"); got != "f3" {
		t.Errorf("a flow with mail in core counts to %s", got)
	}
	if got := counts("other/f"); got != "f" {
		t.Errorf("a flow of another tenant counts to %s", got)
	}
}

// A core that decides as Postfix does knows no flows.
func TestAsPostfixWithoutFlows(t *testing.T) {
	w, arrive := flowsWorld(t, qmgr.Config{AsPostfix: true})
	arrive("f", "a.test")
	if list := w.Core.Flows(qmgr.FlowQuery{Most: 1}); w.Core.View(0).Messages != 1 || list.Matched != 0 {
		t.Errorf("%+v", list)
	}
}

// What is counted of a flow outlives its mail, but not for ever: of 800 flows at most.
func TestIdleFlows(t *testing.T) {
	w, arrive := flowsWorld(t, qmgr.Config{})
	finish := func() {
		for len(w.Outstanding) > 0 {
			if d, delivery := w.Outstanding[0].(qmgr.Deliver); delivery {
				w.Take(0)
				w.Deliver(d, qmgrtest.Accepted)
				continue
			}
			w.Answer(w.Take(0))
		}
	}
	w.CheckEvery = checkOfMany()
	arrive("gone/f", "a.test") // of whose tenant nothing is known in the end
	finish()
	for i := range 805 {
		arrive(fmt.Sprint("f", i), "a.test")
		finish()
	}
	list := w.Core.Flows(qmgr.FlowQuery{Most: 2000})
	if len(list.Flows) != 800 {
		t.Fatalf("%d flows are remembered, want 800", len(list.Flows))
	}
	for _, f := range list.Flows {
		if f.Messages+f.Waiting+f.Busy > 0 || f.Started != 1 || len(f.Places) > 0 {
			t.Fatalf("an idle flow: %+v", f)
		}
		if f.Flow.Flow == "f4" {
			t.Error("the fifth flow is remembered, and the oldest were to be forgotten")
		}
	}
}

// Half of the deliveries have waited less than a millisecond, and one in a hundred 5 s.
func TestFlowWaits(t *testing.T) {
	w, arrive := flowsWorld(t, qmgr.Config{})
	take := func() {
		for i, a := range w.Outstanding {
			if d, delivery := a.(qmgr.Deliver); delivery {
				w.Take(i)
				w.Deliver(d, qmgrtest.Accepted)
				return
			}
		}
	}
	check := func(started uint64, half, ninetyNine time.Duration) {
		t.Helper()
		f := w.Core.Flows(qmgr.FlowQuery{Most: 1}).Flows[0]
		if f.Started != started || f.Half != half || f.NinetyNine != ninetyNine {
			t.Errorf("waits: %+v, want %d, %v, %v", f, started, half, ninetyNine)
		}
	}
	for range 3 {
		arrive("x", "a.test")
	}
	check(2, time.Millisecond, time.Millisecond)
	w.Now = w.Now.Add(5 * time.Second)
	take()
	check(3, time.Millisecond, 8192*time.Millisecond)
	for range 2 {
		arrive("x", "a.test") // two are under way there
	}
	w.Now = w.Now.Add(5 * time.Second)
	take()
	check(4, time.Millisecond, 8192*time.Millisecond) // exactly half of them
	for i := range 196 {
		arrive("x", fmt.Sprint("d", i/2, ".test"))
	}
	check(200, time.Millisecond, time.Millisecond) // exactly 99 of 100
	arrive("waits", "a.test")
	if f := w.Core.Flows(qmgr.FlowQuery{Most: 2}).Flows[1]; f.Started != 0 || f.Half != 0 || f.NinetyNine != 0 {
		t.Errorf("a flow of which nothing was started: %+v", f)
	}
}

// Flows, their lanes and claims are made of what others have left.
func TestFlowsAllocateNothing(t *testing.T) {
	cfg := qmgr.Config{}
	q, now := started(t, cfg)
	rcpts := []mail.Recipient{{Address: "u@a.test"}}
	outcomes := []mail.Outcome{{Result: mail.Delivered, Reply: mail.Reply{Code: 250}}}
	routes := []mail.Route{{Transport: "smtp", Nexthop: "a.test"}}
	var names [3000]mail.Flow
	for i := range names {
		names[i] = mail.Flow{Flow: fmt.Sprint("f", i)}
	}
	id, spare := mail.QueueID(0), mail.Flow{}
	life := func(f mail.Flow) {
		id++
		step := func(ev qmgr.Event) (entry qmgr.EntryID) {
			now += 1000
			for _, a := range q.Step(now, ev) {
				if d, is := a.(qmgr.Deliver); is {
					entry = d.Entry
				}
			}
			return entry
		}
		step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Arrived: now, Flow: f},
			Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: rcpts, Next: 1}}})
		entry := step(qmgr.Routed{ID: id, Routes: routes})
		step(qmgr.Delivered{Entry: entry, Result: mail.DeliveryResult{Outcomes: outcomes}})
		step(qmgr.Changed{Changed: mail.Changed{ID: id}})
	}
	for _, f := range names {
		life(f)
	}
	i := 0
	known := testing.AllocsPerRun(500, func() { life(spare) })
	flows := testing.AllocsPerRun(500, func() {
		life(names[i%len(names)])
		i++
	})
	const actions = 7 // and what they carry
	if flows > actions || known > actions {
		t.Errorf("%v allocations for a message of a flow that is not known, %v for one without a flow; want %d", flows, known, actions)
	}
}

// Check and View change nothing: a core that is never inspected makes the same decisions as one that
// is inspected after every Step.
func TestLookingChangesNothing(t *testing.T) {
	for seed := uint64(1); seed <= 2*uint64(golden.Runs(3)); seed += 2 {
		c := newChaos(t, seed)
		c.drawFlows()
		unseen, err := qmgr.New(c.cfg, seed)
		if err != nil {
			t.Fatal(err)
		}
		unseen.Step(c.w.Now, qmgr.Wake{})
		c.w.Stepped = func(ev qmgr.Event, actions []qmgr.Action) {
			c.w.Core.View(5)
			c.w.Core.Flows(qmgr.FlowQuery{Most: 5})
			if want := unseen.Step(c.w.Now, ev); len(actions)+len(want) > 0 && !reflect.DeepEqual(want, actions) {
				t.Fatalf("seed %d: %T%+v\nthe core that is looked at: %+v\nthe other one: %+v", seed, ev, ev, actions, want)
			}
		}
		for range 600 {
			c.step()
		}
	}
}
