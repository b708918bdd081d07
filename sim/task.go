package sim

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A task is what the core has asked to have delivered, by a Deliver or a Send,
// until it is answered.
type task struct {
	entry      qmgr.EntryID
	message    *message // nil: the spool has lost it
	recipients []mail.Recipient
	to         *destination
	session    *session // that carries it; nil: an agent does
	begun      mail.Instant
}

// source is the address of ours that it leaves from; "" where none is chosen.
func (e *task) source() string {
	if e.session == nil {
		return ""
	}
	return e.session.opening.Source
}

// poisonous reports whether receivers break off whenever they have had the message.
func (m *message) poisonous() bool { return m != nil && m.source.cfg.Poison }

// begun counts a task that begins.
func (w *world) begun(e *task) {
	w.underway++
	e.begun = w.now
	for _, c := range w.watch.starts {
		c.started(w, e)
	}
	w.measure.started(w, e)
	w.measure.carrying(w, e, +1)
	if m := e.message; m != nil {
		m.busy++
		m.sent = true
		for i := range e.recipients {
			m.states[e.recipients[i].Index] |= stateBusy
		}
	}
}

// ended counts one that ends, with the outcomes of its recipients: none if it was
// never begun. The core does not know yet.
func (w *world) ended(e *task, outcomes []mail.Outcome) {
	w.underway--
	for _, c := range w.watch.finishes {
		c.finished(w, e, outcomes)
	}
	w.measure.carrying(w, e, -1)
	if m := e.message; m != nil {
		for i := range e.recipients {
			m.states[e.recipients[i].Index] &^= stateBusy
		}
	}
	w.settle(e.message, outcomes)
	e.to.lastDone = w.now
}

// judge fills w.outcomes with what the receiver says of each recipient.
func (w *world) judge(e *task, r *receiver) {
	m := e.message
	if m != nil && m.firstTry == 0 {
		m.firstTry = w.now
	}
	w.outcomes = w.outcomes[:0]
	tolerated := e.session == nil || r.tolerates(e.session.opening.Source, w.now)
	for i := range e.recipients {
		o := mail.Outcome{Index: e.recipients[i].Index, Result: mail.Deferred, At: w.now}
		switch {
		case !tolerated:
			o.Reply = replyUnknownSource
			o.Reply.By = r.name
		case m != nil:
			o.Result, o.Reply = r.verdict(w, m)
			o.Reply.By = r.name
		}
		w.outcomes = append(w.outcomes, o)
	}
}

// same fills w.outcomes with one outcome for all recipients.
func (w *world) same(e *task, o mail.Outcome) {
	w.outcomes = w.outcomes[:0]
	for i := range e.recipients {
		o.Index, o.At = e.recipients[i].Index, w.now
		w.outcomes = append(w.outcomes, o)
	}
}

// verdict is what a receiver says of one recipient.
func (r *receiver) verdict(w *world, m *message) (mail.Result, mail.Reply) {
	b, rng := &r.now, &r.rng
	switch {
	case b.Greylist > 0 && w.now.Sub(m.firstTry) < b.Greylist:
		return mail.Deferred, replyGreylisted
	case percent(rng, b.SoftPercent):
		return mail.Deferred, replySoft
	case percent(rng, b.HardPercent):
		return mail.Failed, replyHard
	}
	return mail.Delivered, replyAccepted
}

// The replies that the model knows.
var (
	replyAccepted   = mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "ok"}
	replyGreylisted = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2}, Text: "greylisted, try again later"}
	// replyUnknownSource is for a source that sends more than the receiver tolerates.
	replyUnknownSource = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 7, Detail: 28}, Text: "unusual rate of mail from your address"}
	replySoft          = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2, Detail: 1}, Text: "mailbox temporarily unavailable"}
	replyHard          = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "no such user"}
	replyNoDNS         = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 3}, Text: "name server failure"}
	replyRefused       = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection refused"}
	replyTimeout       = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection timed out"}
	replySilent        = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "timed out while waiting for the greeting"}
	replyBusy          = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7}, Text: "too many connections"}
	replyNoAgent       = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: "mail transport unavailable"}
	replyLost          = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "lost connection"}
	replyNoReply       = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "timed out while waiting for a reply"}
	replyEnough        = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7}, Text: "enough messages on this connection"}
	replyIdle          = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "idle for too long"}
	replyUnknown       = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "message sent, but it is not known whether it was taken"}
)
