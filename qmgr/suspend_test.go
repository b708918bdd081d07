package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
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
	m.arriveFor("a.test")
	known(measure.Domain, "A.test", true)
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
