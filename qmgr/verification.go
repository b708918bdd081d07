package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/callout"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// VerificationID names one question of a client whether mail can be sent, from Verify to
// Verified (package callout). The host chooses it.
type VerificationID = callout.VerificationID

// CalloutsView is the questions to receivers about recipients.
type CalloutsView = callout.View

// verify takes a question.
func (q *Qmgr) verify(ev Verify) {
	answered := false
	if ev.Recipient != "" {
		reply, known, again := q.desk.Find(ev.Recipient, q.now)
		if answered = known; known {
			q.emit(Verified{Verification: ev.Verification, Reply: reply})
		}
		if !again {
			return
		}
	}
	var v *callout.Verification
	if !q.halt {
		v = q.desk.Open(callout.Verification{ID: ev.Verification, Client: ev.Client, Recipient: ev.Recipient, Answered: answered}, q.now)
	}
	switch {
	case v == nil && !answered:
		q.emit(Verified{Verification: ev.Verification, Reply: callout.ReplyBusy})
	case v == nil:
	case ev.Routed:
		q.routeKnown(v, mail.Route{Transport: ev.Transport, Nexthop: ev.Nexthop, Site: ev.Site, Security: ev.Security})
	default:
		q.lookups.Ask(&v.Question, ev.Client, intake.Key{Transport: ev.Transport, Nexthop: ev.Nexthop, Credential: ev.Credential}, q.now)
	}
}

// routeKnown goes on with a question when it is known where the recipient goes.
func (q *Qmgr) routeKnown(v *callout.Verification, to mail.Route) {
	switch {
	case v.Recipient == "", !to.Reply.IsZero():
		q.verified(v, to.Reply)
	case q.transport(to.Transport).group == nil: // there is no receiver to ask
		q.verified(v, mail.Reply{})
	default:
		q.desk.CallOut(v, to)
	}
}

// verified answers a question.
func (q *Qmgr) verified(v *callout.Verification, r mail.Reply) {
	q.lookups.WithdrawQuestion(&v.Question)
	q.desk.Close(v)
	if !v.Answered {
		q.emit(Verified{Verification: v.ID, Reply: r})
	}
}

// endVerifications answers the questions that have waited long enough.
func (q *Qmgr) endVerifications() {
	for q.desk.Deadline() <= q.now {
		v := q.desk.Oldest()
		q.verified(v, v.Unanswered())
	}
}

// abandonVerifications answers all questions: no client waits for a core that halts.
func (q *Qmgr) abandonVerifications() {
	for v := q.desk.Oldest(); v != nil; v = q.desk.Oldest() {
		q.verified(v, callout.ReplyBusy)
	}
}

// startCallouts brings call-outs into core as long as there are slots.
func (q *Qmgr) startCallouts() {
	for !q.halt {
		o := q.desk.Next()
		if o == nil || !q.mayStart() {
			return
		}
		q.desk.Begin(o, q.now)
		q.beginCallout(o)
		q.advanceAll() // where its destination has no use for it, its slot is free again
	}
}

// beginCallout brings a call-out into core: as a message with one recipient, which is in
// no spool.
func (q *Qmgr) beginCallout(o *callout.Callout) {
	m := q.newMessage(o.ID, intake.FromCallout)
	m.callout = o
	m.become(stageRunning)
	m.env = mail.Envelope{ID: m.ID, Sender: q.cfg.VerifySender, Recipients: 1, Arrived: q.now}
	q.hold(m, 1)
	b := bound{recipient: mail.Recipient{Address: o.Recipient}, route: o.To}
	q.assign(m, q.bindEach(m, []bound{b}))
	m.AllRead()
	q.attend(m)
}

// concluded ends a call-out when none of it is in a queue, or under way, any more.
func (q *Qmgr) concluded(m *message) {
	if m.Entries > 0 {
		return
	}
	var outcome *mail.Outcome
	if len(m.outcomes) > 0 {
		o := m.outcomes[0]
		outcome = &o
	}
	o := m.callout
	q.forget(m)
	status, reply := q.desk.End(o, outcome, q.now)
	q.counts.Callouts[status]++
	for v := o.NextAsker(); v != nil; v = o.NextAsker() {
		q.verified(v, reply)
	}
}

// answerCallout notes the outcome of a call-out whose destination has no use for it:
// what would become of mail there.
func (q *Qmgr) answerCallout(m *message, transport string, why mail.Reply) {
	o := mail.Outcome{Result: mail.Deferred, Reply: why, At: q.now}
	if transport == TransportError {
		o.Result = mail.Failed
	}
	q.noted(m, &o)
}

// endCallouts takes the slots of call-outs that have kept them long enough, and gives up
// what nothing carries. One that is under way ends by itself, and is not made again.
func (q *Qmgr) endCallouts() {
	for o := q.desk.Late(q.now); o != nil; o = q.desk.Late(q.now) {
		q.giveUp(q.messages[o.ID])
	}
}

// giveUp takes back a call-out that waits.
func (q *Qmgr) giveUp(m *message) {
	q.withdraw(m)
	q.attend(m)
}

// desk returns how clients' questions are answered.
func (c *Config) desk() callout.Config {
	return callout.Config{Limit: c.VerifyLimit, NetworkLimit: c.VerifyNetworkLimit, Deadline: c.VerifyDeadline,
		RejectReason: c.VerifyRejectReason, DeferReason: c.VerifyDeferReason, Addresses: c.Addresses}
}
