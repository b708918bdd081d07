package qmgr_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A measured is a core with one destination, to which an agent delivers.
type measured struct {
	t      *testing.T
	q      *qmgr.Qmgr
	now    mail.Instant
	n      uint16
	checks int
	// of the last step
	deliver []qmgr.Deliver
	notes   []qmgr.Note
	route   *qmgr.Route
}

func newMeasured(t *testing.T) *measured {
	return newMeasuredWith(t, qmgr.Config{})
}

func newMeasuredWith(t *testing.T, cfg qmgr.Config) *measured {
	cfg.DefaultTransport = qmgr.TransportConfig{Window: window.Config{Initial: 5, Limit: 20}}
	q, err := qmgr.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &measured{t: t, q: q, now: 1e18}
	m.step(qmgr.Wake{})
	for _, s := range []qmgr.Scan{qmgr.ScanIncoming, qmgr.ScanDeferred} {
		m.step(qmgr.Found{Scan: s, Found: mail.Found{NextDue: mail.Never}})
	}
	return m
}

func (m *measured) step(ev qmgr.Event) {
	m.now++
	m.deliver, m.notes, m.route = nil, nil, nil
	for _, a := range m.q.Step(m.now, ev) {
		switch a := a.(type) {
		case qmgr.Route:
			m.route = &a
		case qmgr.Deliver:
			m.deliver = append(m.deliver, a)
		case qmgr.Note:
			m.notes = append(m.notes, a)
		}
	}
	if m.checks++; m.checks < 1000 || m.checks%1000 == 0 {
		m.q.Check()
	}
}

// arrive has a message for a.test arrive, and returns its delivery, nil if it waits.
func (m *measured) arrive() *qmgr.Deliver { return m.arriveFor("a.test") }

func (m *measured) arriveFor(nexthop string) *qmgr.Deliver {
	m.n++
	id := mail.NewQueueID(m.now, m.n)
	m.step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Recipients: 1, Arrived: m.now},
		Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: "a@a.test"}}, Next: 1}}})
	m.step(qmgr.Routed{ID: id, Routes: []mail.Route{{Transport: "smtp", Nexthop: nexthop}}})
	if len(m.deliver) == 0 {
		return nil
	}
	return &m.deliver[0]
}

var saidSlow = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7, Detail: 28}, Text: "too fast", By: "mx.a.test[192.0.2.1]"}

// answer answers a delivery with a refusal, and what a rule makes of it.
func (m *measured) answer(d *qmgr.Deliver, measure *mail.Measure) {
	m.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Measure: measure, Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: saidSlow}}}})
}

// ok answers it with success.
func (m *measured) ok(d *qmgr.Deliver) {
	m.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Delivered, Reply: mail.Reply{Code: 250, By: "mx"}}}}})
}

func (m *measured) view() qmgr.QueueView {
	v, ok := m.q.Destination("smtp", "a.test", 1)
	if !ok {
		m.t.Fatal("the destination is not known")
	}
	return v.Queue
}

// settle answers all deliveries with success until there are none.
func (m *measured) settle() {
	for len(m.deliver) > 0 {
		for _, d := range slices.Clone(m.deliver) {
			m.ok(&d)
		}
	}
}

// later lets time pass, and wakes the core whenever it wants to be.
func (m *measured) later(d time.Duration) {
	end := m.now.Add(d)
	for at, ok := m.q.NextWake(); ok && at <= end; at, ok = m.q.NextWake() {
		m.now = max(m.now, at)
		m.step(qmgr.Wake{})
		m.settle()
	}
	m.now = end
	m.step(qmgr.Wake{})
}

func (m *measured) noted(kind qmgr.NoteKind) bool {
	return slices.ContainsFunc(m.notes, func(n qmgr.Note) bool { return n.Kind == kind })
}

func rest() *mail.Measure {
	return &mail.Measure{Rule: "slow", Reply: saidSlow, Rest: 30 * time.Minute}
}

// A receiver says that we send too fast, and a rule says what to do: half an hour no mail
// goes there. What was under way and succeeds ends the rest no earlier, and the mail that
// comes meanwhile is deferred with the receiver's words.
//
// Seen failing: without the case of resting in feedback: the success revived it.
func TestRest(t *testing.T) {
	m := newMeasured(t)
	one, two := m.arrive(), m.arrive()
	m.answer(one, rest())
	if !m.noted(qmgr.NoteRule) || !m.noted(qmgr.NoteDead) {
		t.Errorf("notes are %v", m.notes)
	}
	if v := m.view(); v.State != window.Dead || v.Rule != "slow" || v.Reason.Said() != saidSlow || v.Until < m.now.Add(29*time.Minute) {
		t.Errorf("the destination is %+v", v)
	}
	m.ok(two)
	if v := m.view(); v.State != window.Dead || v.Rule != "slow" {
		t.Errorf("a success has ended the rest: %+v", v)
	}
	if d := m.arrive(); d == nil || d.Delivery.Transport != qmgr.TransportRetry || d.Delivery.Said.Said() != saidSlow {
		t.Errorf("mail that comes meanwhile is delivered: %+v", d)
	} else {
		m.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: d.Delivery.Said}}}})
	}
	m.later(29 * time.Minute)
	if v := m.view(); v.State != window.Dead {
		t.Errorf("it has woken up early: %+v", v)
	}
	m.later(2 * time.Minute)
	if d := m.arrive(); d == nil || d.Delivery.Transport != "smtp" {
		t.Errorf("after the rest: %+v", d)
	}
}

// An operator who wants everything tried ends the rest.
func TestRestEndsByOrder(t *testing.T) {
	m := newMeasured(t)
	m.answer(m.arrive(), rest())
	m.step(qmgr.RetryAll{})
	if d := m.arrive(); d == nil || d.Delivery.Transport != "smtp" {
		t.Errorf("after the order: %+v", d)
	}
	if v := m.view(); v.Rule != "" || v.State != window.Ready {
		t.Errorf("after the order: %+v", v)
	}
}

// A longer rest extends a shorter one, and a shorter one ends nothing.
func TestRestsOverlap(t *testing.T) {
	m := newMeasured(t)
	one, two, three := m.arrive(), m.arrive(), m.arrive()
	m.answer(one, rest())
	until := m.view().Until
	short := rest()
	short.Rest = time.Minute
	m.answer(two, short)
	if v := m.view(); v.Until != until {
		t.Errorf("a shorter rest: until %v, want %v", v.Until, until)
	}
	long := rest()
	long.Rule, long.Rest = "long", time.Hour
	m.answer(three, long)
	if v := m.view(); v.Until < until.Add(29*time.Minute) || v.Rule != "long" {
		t.Errorf("a longer rest: %+v", v)
	}
}

// With times = 3 one reply does nothing, nor do three in more than the time.
func TestTimes(t *testing.T) {
	m := newMeasured(t)
	three := rest()
	three.Times, three.Within = 3, 10*time.Minute
	for range 2 {
		m.answer(m.arrive(), three)
	}
	if v := m.view(); v.State != window.Ready {
		t.Fatalf("after two: %+v", v)
	}
	m.later(11 * time.Minute)
	for range 2 {
		m.answer(m.arrive(), three)
	}
	if v := m.view(); v.State != window.Ready {
		t.Fatalf("after two, and two later: %+v", v)
	}
	m.answer(m.arrive(), three)
	if v := m.view(); v.State != window.Dead || v.Rule != "slow" {
		t.Fatalf("after three: %+v", v)
	}
}

// Limits are lowered for an hour and then as they were; the destination is remembered
// meanwhile although nothing waits for it.
func TestLowered(t *testing.T) {
	m := newMeasured(t)
	m.answer(m.arrive(), &mail.Measure{Rule: "low", Reply: saidSlow, Concurrency: 2, RateCount: 3, RatePer: time.Minute, For: time.Hour})
	if v := m.view(); v.Lowered != "low" || v.Window > 2 || v.State != window.Ready {
		t.Errorf("lowered: %+v", v)
	}
	m.later(time.Minute)
	var sent []*qmgr.Deliver
	for range 4 {
		if d := m.arrive(); d != nil {
			sent = append(sent, d)
		}
	}
	if len(sent) != 2 {
		t.Errorf("%d deliveries at once, want 2", len(sent))
	}
	m.ok(sent[0])
	m.settle()
	m.ok(sent[1])
	m.settle()
	if v, _ := m.q.Destination("smtp", "a.test", 1); len(v.Rate) != 1 || v.Rate[0].Limit != (rate.Limit{N: 3, Per: time.Minute}) || v.Rate[0].Used != 3 || v.Ceiling != 2 {
		t.Errorf("the limits are %+v of %d", v.Rate, v.Ceiling)
	}
	m.later(time.Hour)
	d := m.arrive()
	if v, _ := m.q.Destination("smtp", "a.test", 1); v.Ceiling != 20 || len(v.Rate) != 0 || v.Queue.Lowered != "" {
		t.Errorf("afterwards the limits are %+v of %d", v.Rate, v.Ceiling)
	}
	if d == nil {
		t.Error("mail waits afterwards")
	}
}

// A receiver whose replies match many rules cannot make the core count without end.
func TestSightingsAreBounded(t *testing.T) {
	m := newMeasured(t)
	for i := range 100 {
		r := rest()
		r.Rule, r.Times, r.Within = strings.Repeat("r", i+1), 2, time.Hour
		m.answer(m.arrive(), r)
	}
	if v := m.view(); v.State != window.Ready {
		t.Errorf("%+v", v)
	}
}

// More destinations rest than may be in core: the queues of the oldest are freed, and their mail is deferred
// nevertheless until the rest ends.
func TestRestOutlivesItsQueue(t *testing.T) {
	m := newMeasuredWith(t, qmgr.Config{RecipientLimit: 20, RecipientMinimum: 1, ActiveLimit: 1000})
	const many = 60
	name := func(i int) string { return fmt.Sprintf("d%d.test", i) }
	for i := range many {
		d := m.arriveFor(name(i))
		if d == nil {
			t.Fatalf("mail for %s waits", name(i))
		}
		m.answer(d, rest())
	}
	freed := 0
	for i := range many {
		if _, known := m.q.Destination("smtp", name(i), 1); !known {
			freed++
		}
		d := m.arriveFor(name(i))
		if d == nil || d.Delivery.Transport != qmgr.TransportRetry || d.Delivery.Said.Said() != saidSlow {
			t.Fatalf("mail for %s is delivered: %+v", name(i), d)
		}
		m.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: d.Delivery.Said}}}})
	}
	if freed == 0 {
		t.Error("all queues are in core")
	}
	m.later(31 * time.Minute)
	for i := range many {
		if d := m.arriveFor(name(i)); d == nil || d.Delivery.Transport != "smtp" {
			t.Fatalf("after the rest, of %s: %+v", name(i), d)
		} else {
			m.ok(d)
		}
	}
}

// Receivers may cause more measures than are kept. Then the one with the least left ends, with its effect,
// and no other.
func TestTooManyMeasures(t *testing.T) {
	if golden.Runs(0) == 0 {
		t.Skip("fills the table, which takes most of a second: set POSTHASTE_RUNS")
	}
	m := newMeasured(t)
	short := rest()
	short.Rest = 10 * time.Minute
	m.answer(m.arriveFor("first.test"), short)
	m.answer(m.arriveFor("second.test"), rest())
	for i := range measure.Limit - 1 {
		m.answer(m.arriveFor(fmt.Sprintf("d%d.test", i)), rest())
	}
	m.q.Check()
	if d := m.arriveFor("first.test"); d == nil || d.Delivery.Transport != "smtp" {
		t.Errorf("mail for the first: %+v", d)
	}
	if d := m.arriveFor("second.test"); d == nil || d.Delivery.Transport != qmgr.TransportRetry {
		t.Errorf("mail for the second: %+v", d)
	}
}

// What was saved is whatever it is. It does not end the program, and what can be used is used.
func TestDamagedMeasures(t *testing.T) {
	for _, k := range []measure.Key{
		{Scope: measure.Queue, Transport: "smtp", Name: "jo@a.test", Nexthop: "a.test"}, // of a program once
		{Scope: measure.Queue, Transport: "smtp", Name: "a.test", Nexthop: "a.test", Source: "gone"},
		{Scope: measure.Queue, Transport: "retry", Name: "a.test", Nexthop: "a.test"},
		{Scope: measure.Queue, Transport: "agents", Name: "a.test", Nexthop: "a.test", Source: "s1"},
		{Scope: measure.Queue, Transport: "agents", Name: "a.test", Nexthop: "a.test", Security: "verify"},
		{Scope: measure.Queue},
	} {
		cfg := qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {Agents: qmgr.AgentsConnections}, "agents": {}, "retry": {}}}
		cfg.Sources.Sources = []source.Source{{Name: "s1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
		q, err := qmgr.New(cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		key, ok := measure.AppendKey(nil, k)
		value, _ := measure.AppendRecord(nil, measure.Record{Rest: measure.Rest{Rule: "r", Since: 1, Until: 1e18}, Lower: measure.Lowering{Rule: "r", Since: 1, Until: 1e18, Concurrency: 1}})
		if !ok {
			t.Fatal(k)
		}
		q.Step(10, qmgr.Learned{Hosts: []mail.HostRecord{{Key: key, Value: value}, {Key: key[:len(key)-1], Value: value}, {Key: key, Value: value[:5]}}})
		q.Check()
		q.Step(11, qmgr.Configure{Config: cfg})
		q.Step(12, qmgr.RetryAll{})
		q.Check()
	}
}
