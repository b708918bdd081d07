package qmgr_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// sourcesWorld returns a world with sources a and b in a pool, whose connections are made at
// once.
func sourcesWorld(t *testing.T, change ...func(*qmgr.Config)) *qmgrtest.World {
	t.Helper()
	var cfg qmgr.Config
	cfg.DefaultTransport.Agents = qmgr.AgentsConnections
	cfg.Backoff.JitterPercent = -1
	cfg.Sources = source.Config{
		Sources: []source.Source{{Name: "a", Hello: "a.test", Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8::1")}},
			{Name: "b", Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.2")}}},
		Pools: []source.Pool{{Name: "main", Members: []source.Member{{Source: "a", Weight: 1}, {Source: "b", Weight: 1}}}},
	}
	for _, f := range change {
		f(&cfg)
	}
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// answerEach answers what is outstanding, dials with how.
func answerEach(w *qmgrtest.World, how func(mail.Opening) mail.OpenedConnection) {
	for len(w.Outstanding) > 0 {
		switch a := w.Take(0).(type) {
		case qmgr.Dial:
			w.Dialed(a, how(a.Opening))
		case qmgr.Deliver:
			w.Deliver(a, qmgrtest.Later)
		default:
			w.Answer(a)
		}
	}
}

func ready(mail.Opening) mail.OpenedConnection { return mail.OpenedConnection{} }

func arriveAt(w *qmgrtest.World, to string, n int) {
	for range n {
		w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address("u@" + to)}})
	}
}

// A list has one line for all sources of a destination, or one for each; the details of a
// destination say for each host and connection from which source that is.
func TestSourcesInViews(t *testing.T) {
	w := sourcesWorld(t)
	arriveAt(w, "a.test", 6)
	answerEach(w, ready)
	list := w.Core.Destinations(qmgr.DestinationQuery{Most: 10})
	if len(list.Destinations) != 1 || list.Matched != 1 {
		t.Fatalf("%+v", list)
	}
	one := list.Destinations[0]
	if one.Queue.Busy != 6 || one.Queue.Source != "" || !slices.Equal(one.Sources, []string{"a", "b"}) || one.Queue.Connections.Ready != 6 {
		t.Errorf("together: %+v", one)
	}
	list = w.Core.Destinations(qmgr.DestinationQuery{Most: 1, EachSource: true})
	if len(list.Destinations) != 1 || list.Matched != 2 || !list.More {
		t.Fatalf("%+v", list)
	}
	first := list.Destinations[0]
	place := first.Place()
	list = w.Core.Destinations(qmgr.DestinationQuery{Most: 1, EachSource: true, After: &place})
	second := list.Destinations[0]
	if first.Queue.Source != "a" || second.Queue.Source != "b" || first.Queue.Busy != 3 || second.Queue.Busy != 3 || list.More {
		t.Errorf("each: %+v, then %+v", first, second)
	}
	v, ok := w.Core.Destination("smtp", "a.test", 10)
	count := make(map[string]int)
	for _, h := range v.Hosts {
		count["hosts "+h.Source]++
	}
	for _, c := range v.Connections {
		count["connections "+c.Source]++
	}
	if !ok || count["hosts a"] != 4 || count["hosts b"] != 4 || count["connections a"] != 3 || count["connections b"] != 3 {
		t.Errorf("details: %v, %v", ok, count)
	}
	id := w.Connections()[0].Sends[0].Delivery.Envelope.ID
	if m := w.Core.Explain([]mail.QueueID{id}, 5)[0]; len(m.Places) != 1 || m.Places[0].Source != w.Connections()[0].Opening.Source {
		t.Errorf("a message: %+v", m.Places)
	}
}

// Outcomes are counted by destination and transport; together with the attempt that goes on, they say how fast
// a destination takes mail.
func TestOutcomesInViews(t *testing.T) {
	w := sourcesWorld(t)
	arriveAt(w, "a.test", 6)
	arriveAt(w, "b.test", 1)
	answerEach(w, ready)
	ends := 0
	for _, c := range w.Connections() {
		how := qmgrtest.Accepted
		if ends++; ends == 1 {
			how = qmgrtest.Later
		}
		w.Sent(c, how)
	}
	var sum [4]uint64
	for _, d := range w.Core.Destinations(qmgr.DestinationQuery{Most: 10}).Destinations {
		for result, n := range d.Queue.Outcomes {
			sum[result] += n
		}
	}
	v := w.Core.View(1)
	var all [4]uint64
	for _, t := range v.Transports {
		for result, n := range t.Outcomes {
			all[result] += n
		}
	}
	if want := [4]uint64{mail.Delivered: 6, mail.Deferred: 1}; sum != want || all != want || v.Counts.Outcomes != want {
		t.Errorf("destinations %v, transports %v, core %v; want %v", sum, all, v.Counts.Outcomes, want)
	}
}

// Mail that waits for one source is not ready because another, from which it may not leave, has
// room.
func TestConditionOfSourcesThatHaveMail(t *testing.T) {
	plan := warmup.Conservative()
	plan.Allowances = []int{1}
	w := sourcesWorld(t, func(cfg *qmgr.Config) {
		cfg.DefaultTransport.Window.Limit = 2
		cfg.Warmup.Sources = []warmup.Source{{Name: "b", Plan: plan}}
	})
	arriveAt(w, "a.test", 6)
	answerEach(w, ready)
	list := w.Core.Destinations(qmgr.DestinationQuery{Most: 10, EachSource: true})
	if len(list.Destinations) != 2 || list.ByCondition[qmgr.ConditionFull] != 1 || list.ByCondition[qmgr.ConditionReady] != 1 {
		t.Fatalf("each: %+v", list)
	}
	if list = w.Core.Destinations(qmgr.DestinationQuery{Most: 10}); list.ByCondition[qmgr.ConditionFull] != 1 {
		t.Errorf("together: %+v", list)
	}
}

// What a source has sent is counted by the day, and an address that cannot be used is shown
// with its reason.
func TestSourceViews(t *testing.T) {
	w := sourcesWorld(t)
	arriveAt(w, "a.test", 4)
	answerEach(w, ready)
	for _, c := range w.Connections() {
		for len(c.Sends) > 0 {
			how := qmgrtest.Accepted
			if c.Opening.Source == "b" {
				how = qmgrtest.Later
			}
			w.Sent(c, how)
		}
	}
	answerEach(w, ready)
	views := w.Core.Sources(5)
	if len(views) != 2 || views[0].Name != "a" || views[0].Hello != "a.test" || views[0].Delivered != 2 || views[0].Deferred != 0 || views[1].Delivered != 0 || views[1].Deferred != 2 {
		t.Fatalf("%+v", views)
	}
	if v := views[0]; v.Since == 0 || len(v.Sites) != 1 || v.Sites[0].Queue.Nexthop != "a.test" || v.Connections != 2 || v.Destinations != 1 ||
		len(v.Addresses) != 2 || v.Addresses[0].State != "in use" || len(v.Pools) != 1 || v.Pools[0] != (qmgr.SourcePool{Pool: "main", Weight: 1, Of: 2}) {
		t.Errorf("%+v", v)
	}
	w.Now = w.Now.Add(24 * time.Hour)
	w.Step(qmgr.Wake{})
	if v := w.Core.Sources(0)[0]; v.Delivered != 0 || v.Since%(24*60*60*1e9) != 0 {
		t.Errorf("on the next day: %+v", v)
	}
	arriveAt(w, "b.test", 4)
	lost := mail.OpenedConnection{Unbound: true, Reply: mail.Reply{Code: 451, Text: "cannot assign requested address"}}
	answerEach(w, func(o mail.Opening) mail.OpenedConnection {
		if o.Source == "a" {
			return lost
		}
		return mail.OpenedConnection{}
	})
	views = w.Core.Sources(0)
	if a := views[0].Addresses[0]; a.State != "withdrawn" || a.Why != lost.Reply || a.Since != w.Now || a.Until <= w.Now {
		t.Errorf("%+v", a)
	}
	if views[0].Addresses[1].State != "in use" || views[1].Busy != 6 { // two of the day before are tried again
		t.Errorf("%+v", views)
	}
}
