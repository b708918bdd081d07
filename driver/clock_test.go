package driver

import (
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
