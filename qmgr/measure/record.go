package measure

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Scope is the kind of what a measure is for.
type Scope uint8

const (
	// Destination: one queue, which is what one transport has for one nexthop from one source
	// with one demand of security.
	Destination Scope = iota + 1
	scopes
)

// A Key identifies the mail to which a measure applies.
type Key struct {
	Scope Scope
	// Of a Destination: its transport, its name among the queues of that and its nexthop, which
	// differ where each recipient has a queue, its source and its demand of security. The
	// last two may be empty.
	Transport, Name, Nexthop, Source, Security string
}

// A Record holds the measures of one key, as a value that can be compared and saved. The zero Record
// demands nothing, and is not kept.
type Record struct {
	Rest  Rest
	Lower Lowering
}

// A Rest means that no mail goes to the destination. The zero Rest is none.
type Rest struct {
	Rule         string // that demands it
	Since, Until mail.Instant
	Reason       mail.Reply // what the receiver said
}

// A Lowering means that limits apply besides the destination's own. The zero Lowering is none.
type Lowering struct {
	Rule         string // that demands it
	Since, Until mail.Instant
	Concurrency  int           // connections, or deliveries by an agent; 0: no limit
	Count        int           // messages in each Per; 0: no limit
	Per          time.Duration // 0 if Count is
}

// reasonMax and byMax are the maximum lengths in bytes of what is kept of a reply: its text and the host's
// name. A mailbox list of a receiver may be 4 KB long, and there may be many records.
const (
	reasonMax = 500
	byMax     = 300
)

// cut returns the record that is kept for r.
func (r Record) cut() Record {
	r.Rest.Reason.Text = mail.CutText(r.Rest.Reason.Text, reasonMax)
	r.Rest.Reason.By = mail.CutText(r.Rest.Reason.By, byMax)
	return r
}

// end is when something of the record ends first; 0 if it demands nothing.
func (r *Record) end() mail.Instant {
	switch {
	case r.Rest.Until == 0:
		return r.Lower.Until
	case r.Lower.Until == 0:
		return r.Rest.Until
	}
	return min(r.Rest.Until, r.Lower.Until)
}

// over returns what remains of the record at an instant.
func (r Record) over(now mail.Instant) Record {
	if r.Rest.Until <= now {
		r.Rest = Rest{}
	}
	if r.Lower.Until <= now {
		r.Lower = Lowering{}
	}
	return r
}

// clamped returns the record with ends that are no farther away than they were at the
// beginning: the clock may have been ahead then.
func (r Record) clamped(now mail.Instant) Record {
	clamp(&r.Rest.Since, &r.Rest.Until, now)
	clamp(&r.Lower.Since, &r.Lower.Until, now)
	return r
}

func clamp(since, until *mail.Instant, now mail.Instant) {
	if *until == mail.Never {
		*since = min(*since, now)
		return
	}
	if *since > now {
		*since, *until = now, now.Add(until.Sub(*since))
	}
}
