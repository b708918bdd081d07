package driver

import (
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// A clock gives the core a time that never goes back. It follows the wall clock
// until that is set back. If it is set back by at most catchUpMost, the clock runs
// at half speed until the wall clock has caught up; if by more, it keeps running at
// full speed, ahead of the wall clock, until a restart. So intervals stay
// meaningful.
//
// A wall clock that leaps ahead by more than leapMost is believed only after
// leapPatience. Until then the clock keeps running at its own pace: mail that is years
// old all at once would be returned after its next attempt, and a wrong clock is often
// set right soon. It belongs to one goroutine.
type clock struct {
	last     mail.Instant  // the last time returned
	lastReal time.Time     // with the monotonic reading
	wall     mail.Instant  // what the wall clock showed then
	ahead    time.Duration // how far last is ahead of it
	leapt    time.Time     // when the wall clock leapt ahead; zero if it did not, or is believed

	shortest, longest time.Duration // waits between two attempts of a message
}

// resume starts a clock that last ran at an instant, as far as that is known. If mail
// has been in the queue for longer than its lifetime since then, either the program was
// not running for that long, or the clock is wrong: it counts as a leap.
func (c *clock) resume(since mail.Instant, lifetime time.Duration) {
	real := time.Now()
	if wall := mail.Instant(real.UnixNano()); since > 0 && lifetime > leapMost && wall.Sub(since) > lifetime {
		c.last, c.lastReal, c.wall, c.leapt = since, real, wall, real
	}
}

// catchUpMost is the largest lead that is reduced by running at half speed, which
// then takes two hours.
const catchUpMost = time.Hour

// A machine that was suspended leaps, too; after leapPatience, retries of an hour ago
// are due all at once.
const (
	leapMost     = 6 * time.Hour
	leapPatience = time.Hour
)

func (c *clock) now() mail.Instant {
	real := time.Now()
	return c.at(real, mail.Instant(real.UnixNano()))
}

// at returns the core's time when the wall clock shows wall.
func (c *clock) at(real time.Time, wall mail.Instant) mail.Instant {
	passed := real.Sub(c.lastReal)
	switch behind := c.last.Sub(wall); {
	case behind <= 0:
		c.last = c.forward(real, wall)
	case behind <= catchUpMost:
		c.last = c.last.Add(passed / 2)
	default:
		c.last = c.last.Add(passed)
	}
	c.lastReal, c.wall, c.ahead = real, wall, max(c.last.Sub(wall), 0)
	return c.last
}

// forward returns the core's time when the wall clock shows a later one than it did.
func (c *clock) forward(real time.Time, wall mail.Instant) mail.Instant {
	own := c.last.Add(real.Sub(c.lastReal))
	if c.last == 0 || wall.Sub(own) <= leapMost {
		c.leapt = time.Time{}
		return wall
	}
	if c.leapt.IsZero() {
		c.leapt = real
	}
	if real.Sub(c.leapt) < leapPatience {
		return own
	}
	c.leapt = time.Time{}
	return wall
}

// date converts the arrival time in an event to the core's time. Otherwise mail that
// arrives after a clock that was a year ahead was set right would be a year old, and
// would be returned after its first attempt.
func (c *clock) date(ev qmgr.Event) qmgr.Event {
	switch e := ev.(type) {
	case qmgr.Arrived:
		e.Arrival.Envelope.Arrived = c.arrived(&e.Arrival.Envelope)
		return e
	case qmgr.Opened:
		e.Envelope.Arrived = c.arrived(&e.Envelope)
		return e
	}
	return ev
}

func (c *clock) arrived(e *mail.Envelope) mail.Instant {
	switch at := e.Arrived; {
	case at == 0:
		return 0
	case at > max(c.last, c.wall):
		return c.last.Add(-c.tried(e.Attempts)) // the clock was ahead when it arrived
	case at > c.wall:
		return at // it arrived before the clock was set back
	default:
		return at.Add(c.ahead)
	}
}

// tried returns the age of a message that was tried so often, if each wait was as long
// as the message was old.
func (c *clock) tried(attempts uint32) (age time.Duration) {
	const most = 100_000 // keeps the age in range
	left := time.Duration(min(attempts, most))
	for ; left > 0 && age < c.longest; left-- {
		age += min(max(age, c.shortest), c.longest)
	}
	return age + left*c.longest
}

// leaping reports whether the wall clock has leapt ahead and is not believed yet.
func (c *clock) leaping() bool { return !c.leapt.IsZero() }

// logLeap logs that the wall clock has leapt, or that it no longer counts as leaping.
func (d *Driver) logLeap(now mail.Instant) {
	if d.leaping {
		d.log.Warn("the clock is far ahead of the last time known; it is believed in an hour, so that mail does not expire at once", "ahead", d.clock.wall.Sub(now).Round(time.Second))
		return
	}
	d.log.Info("the clock is followed again")
}

// far is the instants from which it follows whether a wrong clock has put mail off.
type far struct {
	now     mail.Instant
	horizon mail.Instant // later than any wait can be by this configuration
	never   mail.Instant // later than any wait can be by any configuration
}

// farFrom returns those of an instant.
func (d *Driver) farFrom(now mail.Instant) far {
	horizon := now.Add(2*d.clock.longest + catchUpMost)
	return far{now: now, horizon: horizon, never: horizon.Add(d.lifetime)}
}

// retryFarDue tries all deferred mail if some of it was deferred while the clock was ahead, and could wait for
// years. The core finds such mail itself, but only when no other mail is due sooner.
func (d *Driver) retryFarDue(ctx context.Context, f far) {
	at, found, err := d.findFarDue(ctx, f)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		d.log.Warn("cannot look for mail that is due far in the future", "error", err)
	case found:
		d.log.Warn("deferred mail is due far in the future, as after a clock that was ahead; all deferred mail is tried now",
			"id", at.ID.String(), "due", time.Unix(0, int64(at.Due)).UTC())
		d.RetryAll()
	}
}

// findFarDue looks for such a message, bucket by bucket.
func (d *Driver) findFarDue(ctx context.Context, f far) (at mail.Cursor, found bool, err error) {
	buckets := []mail.Cursor{{}}
	for len(buckets) > 0 {
		for _, b := range buckets {
			if at, found, err = d.farDueIn(ctx, b.Bucket, f); found || err != nil {
				return at, found, err
			}
		}
		last := mail.Cursor{Bucket: buckets[len(buckets)-1].Bucket}
		next, err := d.ports.Spool.Fetch(ctx, mail.AreaDeferred, last, mail.Never, 0)
		if err != nil {
			return at, false, err
		}
		buckets = next.Buckets
	}
	return at, false, nil
}

const (
	// farDuePages is the number of pages of farDuePage messages in which farDueIn looks for a
	// message that a wrong clock has put off.
	farDuePages = 16
	farDuePage  = 256
)

// farDueIn looks for one in a bucket. Other mail may be due late, too: what an operator's suspension keeps, what waits until
// a day of a warm-up ends, and what was deferred before maximal_backoff_time was lowered. Where there is more of that
// than some pages, only what is due later still is found.
func (d *Driver) farDueIn(ctx context.Context, bucket mail.Bucket, f far) (at mail.Cursor, found bool, err error) {
	from := mail.Cursor{Bucket: bucket, Due: f.horizon}
	var right mail.Instant // what is due then was put off by a clock that was right
	for page := 0; ; page++ {
		if page == farDuePages {
			from = mail.Cursor{Bucket: bucket, Due: max(from.Due, f.never)}
		}
		list, err := d.ports.Spool.Fetch(ctx, mail.AreaDeferred, from, mail.Never, farDuePage)
		if err != nil {
			return at, false, err
		}
		from = list.Next
		for _, c := range list.Cursors {
			if c.Due == right { // put off together: all that waits for a day to end
				from = mail.Cursor{Bucket: bucket, Due: right + 1}
				continue
			}
			if d.putOffByWrongClock(ctx, c, f) {
				return c, true, nil
			}
			right, from = c.Due, list.Next
		}
		if !list.More || page == farDuePages {
			return at, false, nil
		}
	}
}

// putOffByWrongClock reports whether the clock was ahead when a message was deferred: its last attempt is yet to come, or no
// configuration lets it wait for so long. One that cannot be read is left to the core.
func (d *Driver) putOffByWrongClock(ctx context.Context, c mail.Cursor, f far) bool {
	switch {
	case c.Due > f.never:
		return true
	case intake.Marked(c.Due):
		return false
	}
	e, _, _, err := d.ports.Spool.Open(ctx, c.ID, 0)
	return err == nil && e.LastAttempt > f.now
}
