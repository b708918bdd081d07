package driver

import (
	"context"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// The clock is far ahead and is then set right: the time of the core goes on at full
// speed, and every message keeps its age.
//
// Seen failing: at half speed for two years, and with new mail that was a year old.
func TestClockSetBack(t *testing.T) {
	const year = 365 * 24 * time.Hour
	const right = mail.Instant(1_800_000_000_000_000_000)
	real := time.Now()
	for _, test := range []struct {
		back   time.Duration
		passes time.Duration // of the core's time in a minute
	}{{0, time.Minute}, {time.Second, 59 * time.Second}, {30 * time.Minute, 30 * time.Second}, {24 * time.Hour, time.Minute}, {year, time.Minute}} {
		var c clock
		wrong := right.Add(test.back)
		before := c.at(real, wrong)
		c.at(real, right)
		now := c.at(real.Add(time.Minute), right.Add(time.Minute))
		if passed := now.Sub(before); passed != test.passes {
			t.Errorf("set back by %v: in a minute %v pass", test.back, passed)
		}
		for _, m := range []struct {
			arrived mail.Instant
			age     time.Duration
		}{
			{right, time.Minute},
			{right.Add(-time.Hour), time.Hour + time.Minute},
			{wrong.Add(time.Minute + 1), 0},
		} {
			arrived := c.date(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{Arrived: m.arrived}}}).(qmgr.Arrived).Arrival.Envelope.Arrived
			opened := c.date(qmgr.Opened{Envelope: mail.Envelope{Arrived: m.arrived}}).(qmgr.Opened).Envelope.Arrived
			if age := max(now.Sub(arrived), 0); age != m.age || opened != arrived {
				t.Errorf("set back by %v: a message is %v old, want %v; when opened %v", test.back, age, m.age, now.Sub(opened))
			}
		}
		if none := c.date(qmgr.Opened{}).(qmgr.Opened).Envelope.Arrived; none != 0 {
			t.Errorf("set back by %v: a message without an arrival has arrived at %v", test.back, none)
		}
	}
}

// The clock leaps ahead: the time of the core keeps its pace for an hour, and follows
// only then. A clock that is set right within the hour has had no effect.
//
// Seen failing: without forward, all mail was a year old after a second.
func TestClockLeaps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	const right = mail.Instant(1_800_000_000_000_000_000)
	real := time.Now()
	for _, back := range []time.Duration{time.Second, 59 * time.Minute} {
		var c clock
		c.at(real, right)
		for _, passed := range []time.Duration{time.Second, back / 2, back} {
			if got := c.at(real.Add(passed), right.Add(passed+year)); got != right.Add(passed) {
				t.Errorf("%v after a leap: %v have passed", passed, got.Sub(right))
			}
		}
		if got := c.at(real.Add(2*back), right.Add(2*back)); got != right.Add(2*back) || c.ahead != 0 {
			t.Errorf("set right after %v: %v have passed in %v", back, got.Sub(right), 2*back)
		}
	}
	var c clock
	c.at(real, right)
	for _, passed := range []time.Duration{time.Minute, 30 * time.Minute, time.Minute + leapPatience - 1} {
		if got := c.at(real.Add(passed), right.Add(passed+year)); got != right.Add(passed) {
			t.Errorf("%v after a leap: %v have passed", passed, got.Sub(right))
		}
	}
	if got := c.at(real.Add(time.Minute+leapPatience), right.Add(year)); got != right.Add(year) {
		t.Errorf("a leap that lasts: %v have passed", got.Sub(right))
	}
	if got := c.at(real.Add(2*time.Minute+leapPatience), right.Add(year+leapMost)); got != right.Add(year+leapMost) {
		t.Errorf("a small leap: %v have passed", got.Sub(right))
	}
}

// heldAt is a spool that has one held message, which is due at an instant.
type heldAt struct {
	Spool
	due mail.Instant
}

func (s heldAt) Fetch(_ context.Context, _ mail.Area, from mail.Cursor, now mail.Instant, _ int) (mail.Found, error) {
	f := mail.Found{Next: from, NextDue: mail.Never}
	switch {
	case s.due < from.Due:
	case s.due > now:
		f.NextDue = s.due
	default:
		f.Cursors = []mail.Cursor{{Due: s.due, ID: 1}}
	}
	return f, nil
}

// The clock was a day ahead when the program started, and was set right: mail whose sender names a date from now on is
// not found before the wall clock shows that date, and is then.
//
// Seen failing: it was found, and sent, the moment it arrived.
func TestDateOfSendersAfterTheClockWasSetBack(t *testing.T) {
	const right = mail.Instant(1_800_000_000_000_000_000)
	const day, hour = 24 * time.Hour, time.Hour
	real := time.Now()
	var c clock
	c.at(real, right.Add(day))
	c.at(real, right)
	d := Driver{ports: Ports{Spool: heldAt{due: right.Add(hour)}}}
	look := func(scan qmgr.Scan, passed time.Duration) mail.Found {
		now := c.at(real.Add(passed), right.Add(passed))
		return d.fetch(context.Background(), qmgr.Fetch{Scan: scan, Max: 1}, readTask{now: now, ahead: c.ahead}).(qmgr.Found).Found
	}
	early := look(qmgr.ScanHeld, 0)
	if len(early.Cursors) > 0 || early.NextDue != c.last.Add(hour) {
		t.Errorf("an hour before its date the scan finds %+v, want to look again at %v", early, c.last.Add(hour))
	}
	if deferred := look(qmgr.ScanDeferred, 0); len(deferred.Cursors) != 1 {
		t.Errorf("deferred mail is due by the core's clock, and the scan finds %+v", deferred)
	}
	if due := look(qmgr.ScanHeld, hour); len(due.Cursors) != 1 || c.last < early.NextDue {
		t.Errorf("at its date, and at %v, the scan finds %+v", c.last, due)
	}
}
