package qmgr_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// An office is a world in which mail waits for a reason.
type office struct {
	*qmgrtest.World
	t   *testing.T
	ids []mail.QueueID
}

func newOffice(t *testing.T, cfg qmgr.Config) *office {
	t.Helper()
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := &office{World: w, t: t}
	o.answer()
	return o
}

// answer answers everything but deliveries and what is of the same type as an example.
func (o *office) answer(but ...qmgr.Action) {
	for i := 0; i < len(o.Outstanding); {
		a := o.Outstanding[i]
		_, left := a.(qmgr.Deliver)
		for _, b := range but {
			left = left || fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b)
		}
		if left {
			i++
			continue
		}
		o.Answer(o.Take(i))
		i = 0
	}
}

// arrive has a message come in, a recipient for each domain, an instant later than the
// one before.
func (o *office) arrive(domains ...string) {
	var to []mail.Recipient
	for i, d := range domains {
		to = append(to, mail.Recipient{Address: mail.Address(fmt.Sprintf("u%d@%s", i, d))})
	}
	o.Now++
	o.ids = append(o.ids, o.Arrive("s@x.test", to).Envelope.ID)
}

// deliver ends the oldest delivery.
func (o *office) deliver(how qmgrtest.Ending) {
	o.t.Helper()
	i := slices.IndexFunc(o.Outstanding, func(a qmgr.Action) bool { _, is := a.(qmgr.Deliver); return is })
	if i < 0 {
		o.t.Fatal("nothing is being delivered")
	}
	o.Deliver(o.Take(i).(qmgr.Deliver), how)
	o.answer()
}

// Whatever keeps mail waiting is named, with its limit, its end where that is known, and
// the destination in the configuration that says so; a list of destinations gives the
// condition that belongs to it.
func TestWhyMailWaits(t *testing.T) {
	agents := func(tc qmgr.TransportConfig) qmgr.Config { return qmgr.Config{DefaultTransport: tc} }
	lines := func(tc qmgr.TransportConfig) qmgr.Config {
		tc.Agents = qmgr.AgentsConnections
		return qmgr.Config{DefaultTransport: tc}
	}
	table := func(cfg qmgr.Config, l shape.Limits) qmgr.Config {
		cfg.Destinations = []shape.Destination{{Name: "other", Domains: []string{"a.test"}, Limits: shape.Limits{RecipientLimit: shape.Some(7)}},
			{Name: "table", Domains: []string{".test"}, Limits: l}}
		return cfg
	}
	two := func(o *office) {
		o.arrive("a.test")
		o.arrive("a.test")
		o.answer()
	}
	dialing := func(o *office) {
		o.arrive("a.test")
		o.arrive("a.test")
		o.answer(qmgr.Dial{})
	}
	hourly := rate.Limit{N: 1, Per: time.Hour}
	const pause = 2 * time.Minute
	for name, c := range map[string]struct {
		cfg  qmgr.Config
		make func(o *office) // mail for a.test waits then
		want qmgr.WaitReason
		in   time.Duration // Until is that much later than now
	}{
		"stop": {agents(qmgr.TransportConfig{Window: window.Config{Initial: 1}}), func(o *office) {
			two(o)
			o.Step(qmgr.Halt{})
		}, qmgr.WaitReason{Kind: qmgr.WaitStop}, 0},
		"window of an agent": {agents(qmgr.TransportConfig{Window: window.Config{Initial: 1, Limit: 3}}), two,
			qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 1, Most: 3, Deliveries: true}, 0},
		"window at the limit of a table": {table(agents(qmgr.TransportConfig{}), shape.Limits{ConcurrencyLimit: shape.Some(1)}), two,
			qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 1, Most: 1, Deliveries: true, Table: "table"}, 0},
		"window below the limit of a table": {table(agents(qmgr.TransportConfig{Window: window.Config{Initial: 1}}), shape.Limits{ConcurrencyLimit: shape.Some(9)}), two,
			qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 1, Most: 9, Deliveries: true}, 0},
		"window without a limit": {table(agents(qmgr.TransportConfig{Window: window.Config{Initial: 1, Limit: -1}}), shape.Limits{RateDelay: shape.Some(time.Duration(0))}), two,
			qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 1, Deliveries: true}, 0},
		"process limit of agents": {agents(qmgr.TransportConfig{ProcessLimit: 1}), two,
			qmgr.WaitReason{Kind: qmgr.WaitProcessLimit, Limit: 1, Deliveries: true}, 0},
		"turn": {agents(qmgr.TransportConfig{Agents: qmgr.AgentsOffered, ProcessLimit: 1}), two, qmgr.WaitReason{Kind: qmgr.WaitTurn}, 0},
		"pause of agents": {agents(qmgr.TransportConfig{RateDelay: pause}), func(o *office) {
			two(o)
			o.deliver(qmgrtest.Accepted)
		}, qmgr.WaitReason{Kind: qmgr.WaitDestinationDelay, Pause: pause}, pause},
		"pause by a table": {table(agents(qmgr.TransportConfig{}), shape.Limits{RateDelay: shape.Some(pause)}), func(o *office) {
			two(o)
			o.deliver(qmgrtest.Accepted)
		}, qmgr.WaitReason{Kind: qmgr.WaitDestinationDelay, Pause: pause, Table: "table"}, pause},
		"pause of a transport, not begun": {agents(qmgr.TransportConfig{TransportRateDelay: pause}), two,
			qmgr.WaitReason{Kind: qmgr.WaitTransportDelay, Pause: pause}, pause},
		"host lookup": {lines(qmgr.TransportConfig{}), func(o *office) {
			o.arrive("a.test")
			o.answer(qmgr.Resolve{})
		}, qmgr.WaitReason{Kind: qmgr.WaitHostLookup}, 0},
		"being connected": {lines(qmgr.TransportConfig{}), func(o *office) {
			o.arrive("a.test")
			o.answer(qmgr.Dial{})
		}, qmgr.WaitReason{Kind: qmgr.WaitConnecting}, 0},
		"slow start": {lines(qmgr.TransportConfig{Connections: conns.GroupConfig{Initial: 1}}), dialing, qmgr.WaitReason{Kind: qmgr.WaitSlowStart, Limit: 1}, 0},
		"pause between deliveries over connections, one of which is under way": {lines(qmgr.TransportConfig{RateDelay: pause}), two,
			qmgr.WaitReason{Kind: qmgr.WaitDestinationDelay, Pause: pause}, 0},
		"pause of a transport with connections, a delivery under way": {lines(qmgr.TransportConfig{TransportRateDelay: pause}), two,
			qmgr.WaitReason{Kind: qmgr.WaitTransportDelay, Pause: pause}, 0},
		"starts that are spread": {lines(qmgr.TransportConfig{Window: window.Config{Initial: 2, Limit: 2}}), func(o *office) {
			o.Flow = func() mail.Flow { return mail.Flow{Flow: "f"} }
			for range 5 {
				o.arrive("a.test")
			}
			o.answer()
			o.Now = o.Now.Add(40 * time.Millisecond)
			for _, c := range o.Connections() {
				o.Sent(c, qmgrtest.Accepted)
			}
			o.answer()
		}, qmgr.WaitReason{Kind: qmgr.WaitSpread}, 10 * time.Millisecond},
		"rate of connections by a table": {table(lines(qmgr.TransportConfig{}), shape.Limits{ConnectionRate: shape.Some(limits(t, hourly))}), dialing,
			qmgr.WaitReason{Kind: qmgr.WaitConnectionRate, Rate: hourly, Table: "table"}, time.Hour},
	} {
		o := newOffice(t, c.cfg)
		c.make(o)
		got := o.Core.Explain(o.ids, 5)
		var place *qmgr.PlaceView
		for i := range got {
			for j := range got[i].Places {
				if p := &got[i].Places[j]; p.Waiting > 0 {
					place = p
				} else if p.WaitReason != (qmgr.WaitReason{}) {
					t.Errorf("%s: nothing waits, and the reason is %+v", name, p.WaitReason)
				}
			}
		}
		if place == nil {
			t.Errorf("%s: nothing waits: %+v", name, got)
			continue
		}
		reason := place.WaitReason
		if until := reason.Until; c.in == 0 && until != 0 || c.in > 0 && (until <= o.Now || until > o.Now.Add(c.in+c.in/8)) {
			t.Errorf("%s: it is over in %v, want %v", name, until.Sub(o.Now), c.in)
		}
		reason.Until = 0
		if reason != c.want {
			t.Errorf("%s: %+v, want %+v", name, reason, c.want)
		}
		list := o.Core.Destinations(qmgr.DestinationQuery{Most: 5})
		if want := reason.Kind.Condition(); len(list.Destinations) != 1 || list.Destinations[0].Condition != want || list.ByCondition[want] != 1 || list.Destinations[0].Queue.WaitReason.Kind != c.want.Kind {
			t.Errorf("%s: the list is %+v, want a destination that is %v", name, list, want)
		}
	}
	for i, k := range qmgr.WaitKinds() {
		if int(k) != i || k.String() == "" {
			t.Errorf("reason %d is %v", i, k)
		}
	}
	for i, c := range qmgr.Conditions() {
		if int(c) != i || c.String() == "" {
			t.Errorf("condition %d is %v", i, c)
		}
	}
	if len(qmgr.WaitKinds()) < 20 || len(qmgr.Conditions()) != 7 {
		t.Errorf("%d reasons and %d conditions", len(qmgr.WaitKinds()), len(qmgr.Conditions()))
	}
}

// The view of a message in core shows where its recipients are: which are under way, which wait, first,
// and of which it is not known yet where they go.
func TestWhereAMessageIs(t *testing.T) {
	o := newOffice(t, qmgr.Config{DefaultTransport: qmgr.TransportConfig{Window: window.Config{Initial: 1}}})
	o.Lookups["slow.test"] = mail.Route{Transport: "smtp", Nexthop: "slow.test"}
	o.arrive("b.test")
	o.arrive("a.test", "a.test", "b.test", "b.test", "c.test", "slow.test")
	explain := func(most int) qmgr.MessageView { return o.Core.Explain(o.ids, most)[1] }
	if v := explain(9); !v.Held || v.Routing != 6 || v.Busy != 0 || len(v.Places) != 0 || v.More != 0 || v.Unread {
		t.Errorf("before its routes are known: %+v", v)
	}
	o.answer(qmgr.Lookup{})
	v := explain(9)
	if v.Routing != 1 || v.Busy != 2 || len(v.Places) != 3 || v.More != 0 {
		t.Fatalf("%+v", v)
	}
	for i, want := range []qmgr.PlaceView{{Transport: "smtp", Nexthop: "b.test", Waiting: 2}, {Transport: "smtp", Nexthop: "a.test", Busy: 1}, {Transport: "smtp", Nexthop: "c.test", Busy: 1}} {
		got := v.Places[i]
		if want.Waiting > 0 {
			want.WaitReason.Kind = qmgr.WaitWindow
		}
		if got.WaitReason.Kind != want.WaitReason.Kind || got.Transport != want.Transport || got.Nexthop != want.Nexthop || got.Waiting != want.Waiting || got.Busy != want.Busy {
			t.Errorf("place %d is %+v, want %+v", i, got, want)
		}
	}
	for most, more := range []int{3, 2, 1, 0} {
		if v := explain(most); len(v.Places) != most || v.More != more {
			t.Errorf("of at most %d places there are %d and %d more", most, len(v.Places), v.More)
		}
	}
	list := o.Core.Destinations(qmgr.DestinationQuery{Most: 5})
	if d := list.Destinations[0]; d.Queue.Nexthop != "b.test" || d.Messages != 1 || d.Recipients != 2 || d.Oldest != o.Messages[o.ids[1]].Envelope.Arrived {
		t.Errorf("the first destination is %+v", d)
	}
	o.arrive("b.test")
	o.answer(qmgr.Lookup{})
	list = o.Core.Destinations(qmgr.DestinationQuery{Most: 5})
	if d := list.Destinations[0]; d.Messages != 2 || d.Recipients != 3 || d.Queue.Todo != 2 || d.Oldest != o.Messages[o.ids[1]].Envelope.Arrived {
		t.Errorf("with one message more the first destination is %+v", d)
	}
	if q, ok := o.Core.Peek("smtp", "b.test", "", ""); !ok || q.Todo != 2 || q.Busy != 1 || q.Nexthop != "b.test" {
		t.Errorf("%+v %v", q, ok)
	}
	for _, of := range [][2]string{{"smtp", "nowhere.test"}, {"none", "b.test"}} {
		if q, ok := o.Core.Peek(of[0], of[1], "", ""); ok {
			t.Errorf("%v is %+v", of, q)
		}
	}
	if view := o.Core.View(5).Lookups; view.Busy != 1 || view.Waiting != 0 {
		t.Errorf("%+v", view)
	}
}

// Each recipient of a message is where it is, not where others of its message are: looked up,
// under way, waiting, or tried already while others still are in core.
func TestWhereARecipientIs(t *testing.T) {
	o := newOffice(t, qmgr.Config{DefaultTransport: qmgr.TransportConfig{Window: window.Config{Initial: 1}}})
	o.Lookups["slow.test"] = mail.Route{Transport: "smtp", Nexthop: "slow.test"}
	o.arrive("b.test")
	o.arrive("a.test", "b.test", "slow.test", "c.test")
	where := func(index uint32) string {
		v := o.Core.ExplainRecipient(o.ids[1], index)
		text := fmt.Sprintf("held %v routing %v unread %v %v", v.Held, v.Routing, v.Unread, v.Outcome.Result)
		if p := v.Place; p != nil {
			text += fmt.Sprintf(" %s:%s %d waiting %d busy %v", p.Transport, p.Nexthop, p.Waiting, p.Busy, p.WaitReason.Kind)
		}
		return text
	}
	check := func(index uint32, want string) {
		t.Helper()
		if got := where(index); got != want {
			t.Errorf("recipient %d: %s, want %s", index, got, want)
		}
	}
	for i := range uint32(4) {
		check(i, "held true routing true unread false pending")
	}
	o.answer(qmgr.Lookup{})
	check(0, "held true routing false unread false pending smtp:a.test 0 waiting 1 busy none")
	check(1, "held true routing false unread false pending smtp:b.test 1 waiting 0 busy window")
	check(2, "held true routing true unread false pending")
	check(3, "held true routing false unread false pending smtp:c.test 0 waiting 1 busy none")
	check(9, "held true routing false unread false pending")
	if v := o.Core.ExplainRecipient(1, 0); v.Held {
		t.Errorf("of a message that is not there: %+v", v)
	}
	o.deliver(qmgrtest.Accepted) // b.test of the first message
	o.deliver(qmgrtest.Later)    // a.test
	check(0, "held true routing false unread false deferred")
	check(2, "held true routing false unread false pending smtp:slow.test 0 waiting 1 busy none")
}

// A list of destinations begins with those for which most waits, and goes on where the page
// before ended; it picks by name, condition and domain.
func TestListOfDestinations(t *testing.T) {
	t.Parallel()
	o := newOffice(t, qmgr.Config{DefaultTransport: qmgr.TransportConfig{Window: window.Config{Initial: 1}},
		Transports: map[string]qmgr.TransportConfig{"lines": {Agents: qmgr.AgentsConnections}}})
	const all = 24
	var want []string
	for i := range all {
		name := fmt.Sprintf("%02d.test", i)
		want = append(want, name)
		for range (all-i)/2 + 1 {
			o.arrive(name)
		}
	}
	for _, domain := range []string{"one.test", "two.test"} {
		o.Routes[domain] = mail.Route{Transport: "lines", Nexthop: domain, Site: "site"}
		o.arrive(domain)
	}
	o.answer(qmgr.Resolve{})
	mx := func(q qmgr.DestinationQuery) qmgr.DestinationQuery {
		q.Match = func(transport, _ string) bool { return transport == "smtp" }
		return q
	}
	for _, most := range []int{1, 3, 7, all - 1, all, all + 1} {
		var got []string
		var after *qmgr.DestinationPlace
		for {
			list := o.Core.Destinations(mx(qmgr.DestinationQuery{Most: most, After: after}))
			if list.Matched != all || len(list.Destinations) > most {
				t.Fatalf("pages of %d: %d matched, %d on a page", most, list.Matched, len(list.Destinations))
			}
			for _, d := range list.Destinations {
				got = append(got, d.Queue.Nexthop)
				at := d.Place()
				after = &at
			}
			if more := len(got) < all; list.More != more {
				t.Fatalf("pages of %d: after %d of %d there are more: %v", most, len(got), all, list.More)
			} else if !more {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", most, got, want)
		}
	}
	if list := o.Core.Destinations(mx(qmgr.DestinationQuery{})); list.Matched != all || len(list.Destinations) != 0 || !list.More {
		t.Errorf("a page of none: %+v", list)
	}
	for _, in := range []qmgr.Condition{qmgr.ConditionFull, qmgr.ConditionReady, qmgr.ConditionDead} {
		list := o.Core.Destinations(mx(qmgr.DestinationQuery{Most: 2 * all, In: []qmgr.Condition{in}}))
		if len(list.Destinations) != list.ByCondition[in] || list.Matched != all {
			t.Errorf("%v: %d destinations, %d are counted", in, len(list.Destinations), list.ByCondition[in])
		}
	}
	for domain, n := range map[string]int{"one.test": 1, "two.test": 1, "three.test": 0, "": 1} {
		list := o.Core.Destinations(qmgr.DestinationQuery{Most: 5, Domain: domain, Match: func(transport, _ string) bool { return transport == "lines" }})
		if len(list.Destinations) != n || list.Matched != n {
			t.Errorf("with mail for %q there are %d destinations, want %d", domain, len(list.Destinations), n)
		}
	}
	var names []string
	for _, tr := range o.Core.View(100).Transports {
		names = append(names, tr.Name)
		for i, q := range tr.Queues {
			if i > 0 && q.Nexthop <= tr.Queues[i-1].Nexthop {
				t.Errorf("%s: %s stands behind %s", tr.Name, q.Nexthop, tr.Queues[i-1].Nexthop)
			}
		}
	}
	if !slices.IsSorted(names) || len(names) < 2 {
		t.Errorf("the transports are %v", names)
	}
	for _, tr := range o.Core.View(0).Transports {
		if len(tr.Queues) > 0 {
			t.Errorf("%s has %d destinations in a view without any", tr.Name, len(tr.Queues))
		}
	}
}
