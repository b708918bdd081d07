package callout

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// A VerificationID names one question whether mail can be sent, from Verify to
// Verified. The host chooses it.
type VerificationID uint64

// A Verification is one question, which waits for a lookup (Question) and then, if the
// receiver is to be asked, for a call-out.
type Verification struct {
	intake.Question
	ID        VerificationID
	Client    netip.Addr
	Recipient mail.Address // whom the receiver is asked about; "" if nobody asks it
	// Answered means that an answer has been given, out of what was known; the question
	// is asked again because that is old.
	Answered  bool
	since     mail.Instant
	callout   *Callout // nil until its lookup has ended, or was not needed
	inOpen    ilist.Link[Verification]
	inCallout ilist.Link[Verification] // on callout.askers
}

// verificationsMax bounds the questions that wait. More cannot be open sessions of the
// server as it is configured by default, each of which asks one at a time.
const verificationsMax = 10_000

// Open takes a question; nil if too many wait.
func (d *Desk) Open(v Verification, now mail.Instant) *Verification {
	if d.open.Len() >= verificationsMax {
		return nil
	}
	v.since = now
	opened := &v
	opened.Owner = opened
	d.open.PushBack(&opened.inOpen, opened)
	return opened
}

// Close ends a question that has its answer. It waits for no lookup any more.
func (d *Desk) Close(v *Verification) {
	d.open.Remove(&v.inOpen)
	if o := v.callout; o != nil {
		o.askers.Remove(&v.inCallout)
		d.uncall(o)
	}
}

// Oldest returns the question that has waited for longest; nil if none waits.
func (d *Desk) Oldest() *Verification { return d.open.Front() }

// Len returns how many questions wait.
func (d *Desk) Len() int { return d.open.Len() }

// Deadline returns when the next question has waited long enough.
func (d *Desk) Deadline() mail.Instant {
	if v := d.open.Front(); v != nil {
		return v.since.Add(d.cfg.Deadline)
	}
	return mail.Never
}

// Unanswered returns the reply to a question that has waited long enough.
func (v *Verification) Unanswered() mail.Reply {
	l := v.Lookup()
	if l == nil {
		return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 1, Detail: 1}, Text: "address verification in progress"}
	}
	return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 3},
		Text: "the look-up of " + l.Nexthop + " did not end in time"}
}

// ReplyBusy is for questions that cannot be taken.
var ReplyBusy = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "recipients cannot be verified now"}
