package driver

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A clock gives the core a time that never goes back. It is the wall clock,
// except after that was set back: then it runs at half speed until the wall
// clock has caught up, so that intervals stay sensible meanwhile. It belongs
// to one goroutine.
type clock struct {
	last     mail.Instant // what was given out last
	lastReal time.Time    // with the monotonic reading
}

func (c *clock) now() mail.Instant {
	real := time.Now()
	wall := mail.Instant(real.UnixNano())
	if wall >= c.last {
		c.last = wall
	} else {
		c.last = c.last.Add(real.Sub(c.lastReal) / 2)
	}
	c.lastReal = real
	return c.last
}
