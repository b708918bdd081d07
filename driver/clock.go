package driver

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A clock gives the core a time that never goes back. It follows the wall clock
// until that is set back. If it is set back by at most catchUpMost, the clock runs
// at half speed until the wall clock has caught up; if by more, it keeps running at
// full speed, ahead of the wall clock, until a restart. So intervals stay
// meaningful. It belongs to one goroutine.
type clock struct {
	last     mail.Instant  // the last time returned
	lastReal time.Time     // with the monotonic reading
	wall     mail.Instant  // what the wall clock showed then
	ahead    time.Duration // how far last is ahead of it
}

// catchUpMost is the largest lead that is reduced by running at half speed, which
// then takes two hours.
const catchUpMost = time.Hour

func (c *clock) now() mail.Instant {
	real := time.Now()
	return c.at(real, mail.Instant(real.UnixNano()))
}

// at returns the core's time when the wall clock shows wall.
func (c *clock) at(real time.Time, wall mail.Instant) mail.Instant {
	passed := real.Sub(c.lastReal)
	switch behind := c.last.Sub(wall); {
	case behind <= 0:
		c.last = wall
	case behind <= catchUpMost:
		c.last = c.last.Add(passed / 2)
	default:
		c.last = c.last.Add(passed)
	}
	c.lastReal, c.wall, c.ahead = real, wall, max(c.last.Sub(wall), 0)
	return c.last
}

// date converts the arrival time in an event to the core's time. Otherwise mail that
// arrives after a clock that was a year ahead was set right would be a year old, and
// would be returned after its first attempt.
func (c *clock) date(ev qmgr.Event) qmgr.Event {
	if c.ahead == 0 {
		return ev
	}
	switch e := ev.(type) {
	case qmgr.Arrived:
		e.Arrival.Envelope.Arrived = c.arrived(e.Arrival.Envelope.Arrived)
		return e
	case qmgr.Opened:
		e.Envelope.Arrived = c.arrived(e.Envelope.Arrived)
		return e
	}
	return ev
}

func (c *clock) arrived(at mail.Instant) mail.Instant {
	if at == 0 || at > c.wall {
		return at // in the future: it arrived before the clock was set back
	}
	return at.Add(c.ahead)
}
