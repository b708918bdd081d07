package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// There is a limit of suspensions. One more is refused, but one that is in force can be changed, and when one has
// been resumed there is room for another.
func TestSuspensionLimit(t *testing.T) {
	m := newMeasured(t)
	m.checks = 1000
	order := func(i int, f time.Duration) qmgr.Note {
		m.step(qmgr.Suspend{Scope: measure.Domain, Value: fmt.Sprintf("d%d.test", i), For: f, By: "jo"})
		return m.notes[len(m.notes)-1]
	}
	for i := range measure.OrderLimit {
		order(i, 0)
	}
	if n := order(measure.OrderLimit, 0); n.Text != "domain d1000.test by jo: refused, because 1000 suspensions are in force, which is the limit" || len(m.q.Suspensions()) != measure.OrderLimit {
		t.Errorf("one too many: %+v; %d are in force", n, len(m.q.Suspensions()))
	}
	if order(7, time.Hour); m.q.Suspension(measure.Domain, "d7.test").Until < m.now.Add(time.Hour) || m.q.Suspension(measure.Domain, "d7.test").Until == mail.Never {
		t.Error("one that is in force cannot be changed")
	}
	m.step(qmgr.Resume{Scope: measure.Domain, Value: "D3.test"})
	if order(measure.OrderLimit, 0); m.q.Suspension(measure.Domain, "d1000.test").Until != mail.Never || m.q.Suspension(measure.Domain, "d3.test").Until != 0 {
		t.Error("there is no room after one has been resumed")
	}
	m.q.Check()
	// A time beyond what an instant can say is no end at all.
	if order(8, 1<<63-1); m.q.Suspension(measure.Domain, "d8.test").Until != mail.Never {
		t.Errorf("suspended for ever until %v", m.q.Suspension(measure.Domain, "d8.test").Until)
	}
}

// What is known of a value, for a warning about one that is mistyped: transports of the configuration, and
// destinations and flows with mail in core, whether they are suspended already or not.
func TestKnown(t *testing.T) {
	m := newMeasuredWith(t, qmgr.Config{Transports: map[string]qmgr.TransportConfig{"relay": {}}})
	known := func(s measure.Scope, value string, want bool) {
		t.Helper()
		if got := m.q.Known(s, value); got != want {
			t.Errorf("%v %s is known: %t", s, value, got)
		}
	}
	known(measure.Domain, "a.test", false)
	known(measure.Site, "a.test", false)
	known(measure.Destination, "smtp:a.test", false)
	m.arriveFor("a.test")
	known(measure.Domain, "A.test", true)
	known(measure.Destination, "smtp:A.test", true)
	known(measure.Destination, "smtp:a.tset", false)
	known(measure.Destination, "relay:a.test", false)
	known(measure.Destination, "nowhere:a.test", false)
	known(measure.Destination, "smtp:a.test from mta7", false)
	known(measure.Site, "a.test", true)
	known(measure.Site, "b.test", false)
	known(measure.Transport, "smtp", true)
	known(measure.Transport, "relay", true)
	known(measure.Transport, "Relay", false)
	known(measure.Source, "mta7", false)
	known(measure.Tenant, "t", false)
	known(measure.Class, "normal", false)
}

// The clock was ahead when an operator suspended a domain for an hour, and is right after the restart: it is
// suspended for an hour from then, and not for days. What was deferred until the old end is found.
func TestSuspendedByAClockAhead(t *testing.T) {
	ahead := newMeasured(t)
	ahead.now = ahead.now.Add(100 * time.Hour)
	feed := ahead.q.NewHostFeed()
	ahead.step(qmgr.Suspend{Scope: measure.Domain, Value: "a.test", For: time.Hour})
	m := newMeasured(t)
	m.step(qmgr.Learned{Hosts: feed.Orders(nil)})
	s := m.q.Suspension(measure.Domain, "a.test")
	if left := s.Until.Sub(m.now); left > time.Hour+time.Second || left < time.Hour-time.Second {
		t.Errorf("it is suspended for %v", left)
	}
	m.arrive()
	if len(m.deliver) > 0 && m.deliver[0].Delivery.Transport == "smtp" {
		t.Error("mail goes where it is suspended")
	}
}

// ruledOut has as many destinations suspended by a rule as there may be.
func (m *measured) ruledOut() {
	var orders []mail.HostRecord
	for i := range measure.OrderLimit {
		value := fmt.Sprintf("smtp:d%d.test", i)
		key, ok := measure.AppendKey(nil, measure.OrderKey(measure.Destination, value))
		record, is := measure.AppendRecord(nil, measure.Record{Order: measure.Order{Rule: "blocked", Reason: "550 no", Since: m.now, Until: mail.Never}})
		if !ok || !is {
			m.t.Fatalf("%s cannot be recorded", value)
		}
		orders = append(orders, mail.HostRecord{Key: key, Value: record})
	}
	m.step(qmgr.Learned{Hosts: orders})
	if n := len(m.q.Suspensions()); n != measure.OrderLimit {
		m.t.Fatalf("%d destinations are suspended", n)
	}
}

// Rules have suspended as many destinations as they may. One more rests instead, for the time of the suspension or for a day,
// and says the same; its mail is put off. What an operator suspends is not counted with them. When one of the rules' is resumed,
// there is room for another.
func TestRestBeyondTheLimitOfRules(t *testing.T) {
	const day = 24 * time.Hour
	for suspend, rest := range map[time.Duration]time.Duration{4 * time.Hour: 4 * time.Hour, day: day, 3 * day: day, mail.Indefinitely: day} {
		m := newMeasured(t)
		m.checks = 1000
		m.ruledOut()
		before := m.q.View(0).Counts.RuleSuspensions
		blocks := &mail.Measure{Rule: "blocked", Reply: saidBlocked, Suspend: suspend}
		d := m.arrive()
		m.answer(d, blocks)
		v := m.view()
		if left := v.Until.Sub(m.now); m.suspended() || v.Rule != "blocked" || left != rest || !m.noted(qmgr.NoteRule) || m.noted(qmgr.NoteSuspended) || m.q.View(0).Counts.RuleSuspensions != before {
			t.Errorf("suspended for %v: it rests for %v by rule %q; suspended: %t; %+v", suspend, left, v.Rule, m.suspended(), m.notes)
		}
		if d := m.arrive(); d == nil || d.Delivery.Transport != qmgr.TransportRetry || d.Delivery.Said.Said() != saidBlocked {
			t.Errorf("suspended for %v: its mail is %+v", suspend, d)
		}
		if m.step(qmgr.Suspend{Scope: measure.Domain, Value: "op.test", By: "jo"}); m.q.Suspension(measure.Domain, "op.test").Until != mail.Never {
			t.Error("an operator cannot suspend any more")
		}
		m.step(qmgr.Resume{Scope: measure.Destination, Value: "smtp:d7.test"})
		d = m.arriveFor("b.test")
		m.answer(d, blocks)
		if m.q.Suspension(measure.Destination, "smtp:b.test").Rule != "blocked" || !m.noted(qmgr.NoteSuspended) || m.q.View(0).Counts.RuleSuspensions != before+1 {
			t.Errorf("there is no room after one has been resumed: %+v", m.notes)
		}
		m.q.Check()
	}
}

// Mail for one nexthop has two demands on connections, and so two queues. A refusal in one of them suspends the
// destination: what waits in the other is put off as well, and what comes for either. Other destinations are not concerned, nor is the
// same nexthop by another transport. One order ends it for both.
func TestSuspendedWhateverIsDemanded(t *testing.T) {
	for _, refused := range []string{"", "verify"} {
		m := newMeasuredWith(t, qmgr.Config{Transports: map[string]qmgr.TransportConfig{"other": {Window: window.Config{Initial: 5, Limit: 20}}}})
		routed := func(transport, nexthop, security string) (all []qmgr.Deliver) {
			m.n++
			id := mail.NewQueueID(m.now, m.n)
			m.step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Recipients: 1, Arrived: m.now},
				Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: "a@a.test"}}, Next: 1}}})
			m.step(qmgr.Routed{ID: id, Routes: []mail.Route{{Transport: transport, Nexthop: nexthop, Security: security}}})
			return m.deliver
		}
		var first *qmgr.Deliver
		for range 7 { // the window is five
			for _, security := range []string{"", "verify"} {
				if all := routed("smtp", "a.test", security); first == nil && security == refused {
					first = &all[0]
				}
			}
		}
		if first.Delivery.Security != refused {
			t.Fatalf("the delivery demands %q", first.Delivery.Security)
		}
		m.answer(first, &mail.Measure{Rule: "blocked", Reply: saidBlocked, Suspend: 4 * time.Hour})
		if !m.suspended() || len(m.q.Suspensions()) != 1 {
			t.Fatalf("suspended is %+v", m.q.Suspensions())
		}
		// Two waited for each queue.
		if n := m.putOff(); n != 4 {
			t.Errorf("refused with %q: %d that waited are put off", refused, n)
		}
		for _, security := range []string{"", "verify", "dane"} {
			if routed("smtp", "a.test", security); m.putOff() != 1 {
				t.Errorf("refused with %q: mail that demands %q is not put off", refused, security)
			}
		}
		for _, other := range [][2]string{{"smtp", "b.test"}, {"other", "a.test"}} {
			if all := routed(other[0], other[1], refused); len(all) != 1 || all[0].Delivery.Transport != other[0] {
				t.Errorf("mail for %s:%s does not go: %+v", other[0], other[1], all)
			}
		}
		m.step(qmgr.Resume{Scope: measure.Destination, Value: "smtp:a.test"})
		if routed("smtp", "b.test", ""); m.suspended() || m.putOff() != 0 {
			t.Error("it is not resumed")
		}
		for _, security := range []string{"", "verify"} { // one place is free in one window; a new queue takes others
			if routed("smtp", "a.test", security); m.putOff() != 0 {
				t.Errorf("refused with %q: mail that demands %q is put off when it has been resumed", refused, security)
			}
		}
	}
}

// putOff ends what the last step puts off because of a suspension, and what follows that, and returns how many deliveries it was.
func (m *measured) putOff() (n int) {
	offered := m.deliver
	for ; len(offered) > 0; offered = offered[1:] {
		d := offered[0]
		if d.Delivery.Transport != qmgr.TransportRetry {
			continue
		}
		n++
		m.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: d.Delivery.Said}}}})
		offered = append(offered, m.deliver...)
	}
	return n
}
