package driver

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A clock gives the core a time that never goes back. It is the wall clock,
// except after that was set back: by up to catchUpMost, it then runs at half
// speed until the wall clock has caught up; by more, it goes on as if nothing had
// been, until a restart. So intervals stay sensible meanwhile. It belongs to one
// goroutine.
type clock struct {
	last     mail.Instant  // what was given out last
	lastReal time.Time     // with the monotonic reading
	wall     mail.Instant  // what the wall clock showed then
	ahead    time.Duration // how far last is ahead of it
}

// catchUpMost is for how far the clock lets the wall clock catch up: two hours at
// half speed.
const catchUpMost = time.Hour

func (c *clock) now() mail.Instant {
	real := time.Now()
	return c.at(real, mail.Instant(real.UnixNano()))
}

// at is now, when the wall clock shows wall.
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

// date puts the arrival of a message, of which an event tells, on the time of the core.
// Else mail taken in after a clock that was a year ahead was set right would be a year
// old, and would be returned after its first attempt.
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
		return at // of the future: it arrived before the clock was set back
	}
	return at.Add(c.ahead)
}
