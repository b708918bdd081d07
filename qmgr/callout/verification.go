package callout

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// A VerificationID names one question whether mail can be sent, from Verify to
// Verified. The host chooses it.
type VerificationID uint64

// A Verification is one question, which waits for a lookup (Question) and then, if the
// receiver is asked, for a call-out. The caller of Open sets the exported fields except
// Question.
type Verification struct {
	intake.Question
	ID        VerificationID
	Client    netip.Addr   // whose network it counts for; the zero Addr if unknown
	Recipient mail.Address // whom the receiver is asked about; "" if it is not asked
	// Answered means that an answer has been given, out of what was known; the question
	// is asked again because that is old.
	Answered  bool
	since     mail.Instant // when it was opened
	callout   *Callout     // nil until its lookup has ended, or was not needed
	inOpen    ilist.Link[Verification]
	inCallout ilist.Link[Verification] // on callout.askers
}

// Of returns the verification that a question of a Desk is part of.
func Of(q *intake.Question) *Verification { return q.Owner.(*Verification) }

// openMost bounds the questions that wait. More cannot be open sessions of the server as
// it is configured by default, each of which asks one at a time.
const openMost = 10_000

// Open takes a question, until Close; nil if too many wait.
func (d *Desk) Open(v Verification, now mail.Instant) *Verification {
	if d.open.Len() >= openMost {
		return nil
	}
	v.since = now
	opened := &v
	opened.Owner = opened
	d.open.PushBack(&opened.inOpen, opened)
	return opened
}

// Close ends a question that has its answer. It must wait for no lookup any more; its
// call-out is forgotten if that has not begun and no other client waits for it.
func (d *Desk) Close(v *Verification) {
	assert.That(v.Lookup() == nil, "verification %d is closed and waits for a lookup", v.ID)
	d.open.Remove(&v.inOpen)
	if o := v.callout; o != nil {
		o.askers.Remove(&v.inCallout)
		d.uncall(o)
	}
}

// Oldest returns the open question that has waited for longest; nil if there is none.
func (d *Desk) Oldest() *Verification { return d.open.Front() }

// Len returns how many questions are open.
func (d *Desk) Len() int { return d.open.Len() }

// Idle reports whether there is neither a question nor a call-out.
func (d *Desk) Idle() bool { return d.open.Empty() && len(d.known) == 0 }

// Deadline returns when the Oldest question has waited for Config.Deadline; Never if none
// is open.
func (d *Desk) Deadline() mail.Instant {
	if v := d.open.Front(); v != nil {
		return v.since.Add(d.cfg.Deadline)
	}
	return mail.Never
}

// Unanswered returns the reply to a question whose Deadline has come.
func (v *Verification) Unanswered() mail.Reply {
	l := v.Lookup()
	if l == nil {
		return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 1, Detail: 1}, Text: "address verification in progress"}
	}
	return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 3},
		Text: "DNS lookup of " + l.Nexthop + " failed: no answer in time"}
}

// ReplyBusy is for questions that cannot be taken.
var ReplyBusy = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "recipients cannot be verified now"}
