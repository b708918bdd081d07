package driver

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/histogram"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/replies"
)

// Counters are facts about a Driver since its start, for metrics. Call-outs count nowhere, and what is put off without an
// attempt (qmgr.TransportRetry) is neither an attempt nor a refusal: it waits for a destination that is dead, or that an operator
// has suspended.
type Counters struct {
	// Outcomes are recipients by the result of an attempt and by the class of its reply. Refusals
	// by the configuration (qmgr.TransportError) are among them.
	Outcomes [mail.Moved + 1][replies.Classes]uint64
	// Notes are the core's notes by kind.
	Notes [qmgr.NoteKinds]uint64
	// First are the times from the arrival of messages to the start of their first attempts,
	// without the time for which the sender had them kept, in seconds, by class of mail. What was put off
	// before it was ever tried is not among them.
	First []ClassTimes
	// Before, Connect and Send are the delays of the log, in seconds: one of each for each
	// attempt, and of Connect for each that did not find a connection.
	Before, Connect, Send histogram.Values
	// Delivery is the whole delay of deliveries, in seconds, one for each transaction that has delivered to a
	// recipient.
	Delivery histogram.Values
	// Batch are the numbers of changes that were made durable together, and Commit the times
	// that this has taken, in seconds.
	Batch, Commit histogram.Values
}

// ClassTimes are times of messages of one class.
type ClassTimes struct {
	Class string // "" is mail that was not classified, and OtherClasses further classes
	Times histogram.Values
}

// OtherClasses is the name under which classes count after the first classesMost.
const OtherClasses = "other"

// classesMost bounds the classes that are counted separately. Their number is that of the configuration, but
// mail that waits may have names of earlier ones.
const classesMost = 32

// counters are Counters while they are counted: a few atomic additions for each attempt.
type counters struct {
	outcomes                        [mail.Moved + 1][replies.Classes]atomic.Uint64
	notes                           [qmgr.NoteKinds]atomic.Uint64
	first                           atomic.Pointer[[]*classTimes] // replaced when there is one more
	before, connect, send, delivery histogram.Histogram
	batch, commit                   histogram.Histogram
}

type classTimes struct {
	class string
	times histogram.Histogram
}

// Snapshot returns the present values. It may be called at any time. Each value is exact, but
// they are not of one moment.
func (d *Driver) Snapshot() Counters {
	c := &d.counters
	s := Counters{Before: c.before.Snapshot(), Connect: c.connect.Snapshot(), Send: c.send.Snapshot(), Delivery: c.delivery.Snapshot(),
		Batch: c.batch.Snapshot(), Commit: c.commit.Snapshot()}
	for result := range c.outcomes {
		for class := range c.outcomes[result] {
			s.Outcomes[result][class] = c.outcomes[result][class].Load()
		}
	}
	for kind := range c.notes {
		s.Notes[kind] = c.notes[kind].Load()
	}
	if list := c.first.Load(); list != nil {
		for _, one := range *list {
			s.First = append(s.First, ClassTimes{one.class, one.times.Snapshot()})
		}
	}
	return s
}

// attempt counts an attempt, except for the replies of its outcomes.
func (c *counters) attempt(a *mail.Delivery, r *mail.DeliveryResult, delays *[3]time.Duration) {
	tried, delivered := false, false
	for i := range r.Outcomes {
		tried = tried || r.Outcomes[i].Result != mail.Untried
		delivered = delivered || r.Outcomes[i].Result == mail.Delivered
	}
	if !tried {
		return // it goes on elsewhere
	}
	c.before.Duration(delays[0])
	if delays[1] > 0 {
		c.connect.Duration(delays[1])
	}
	c.send.Duration(delays[2])
	if a.Envelope.Attempts == 0 {
		c.of(a.Envelope.Flow.Class).Duration(delays[0])
	}
	if delivered {
		c.delivery.Duration(delays[0] + delays[1] + delays[2])
	}
}

// of returns the times of a class. There are so few of them that comparing their names costs less
// than a map would.
func (c *counters) of(class string) *histogram.Histogram {
	for {
		list := c.first.Load()
		var known []*classTimes
		if list != nil {
			known = *list
		}
		for _, one := range known {
			if one.class == class {
				return &one.times
			}
		}
		if len(known) >= classesMost && class != OtherClasses {
			class = OtherClasses
			continue
		}
		more := append(slices.Clone(known), &classTimes{class: class})
		c.first.CompareAndSwap(list, &more)
	}
}
