package qmgr

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/texts"
)

// A transport whose agents cannot be had is dead: whatever waits for it is put
// off to TransportRetry, and so are recipients that are routed to it meanwhile.
// It is tried again after Config.TransportRetryTime, as soon as a delivery that
// it still has under way ends well or badly, or when an operator wants it.

// An outage is a transport's part in this.
type outage struct {
	state  TransportState
	reason mail.Reply // TransportDead: why
	timer  timer      // TransportDead: when it is tried again
}

func (t *transport) dead() bool { return t.outage.state == TransportDead }

// agentUnavailable takes a transport out of service. One that the core does not
// know has no mail.
func (q *Qmgr) agentUnavailable(ev AgentUnavailable) {
	t := q.transports[ev.Transport]
	if t == nil || t.dead() {
		return
	}
	why := ev.Reply
	if why.IsZero() {
		why = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: "mail transport unavailable"}
	}
	t.outage.state, t.outage.reason = TransportDead, why
	q.stopDelay(t)
	q.timers.Start(&t.outage.timer, q.now.Add(q.cfg.TransportRetryTime))
	q.emit(Note{Kind: NoteDead, Transport: t.Name, Text: why.String()})
	for d := range t.destinations() {
		q.putOffAll(d, TransportRetry, why)
	}
}

// restore puts a transport back into service.
func (q *Qmgr) restore(t *transport) {
	if !t.dead() {
		return
	}
	q.timers.Stop(&t.outage.timer)
	t.outage.state, t.outage.reason = TransportAlive, mail.Reply{}
	q.emit(Note{Kind: NoteAlive, Transport: t.Name})
}

// putOffAll hands whatever waits for a destination to TransportRetry or
// TransportError.
func (q *Qmgr) putOffAll(d *queue, transport string, why mail.Reply) {
	end := d.Oldest
	if d.transport.cfg.Scheduler == sched.RoundRobin {
		end = d.Last // for no reason, but so it is in Postfix
	}
	// What is put off does not come back here (queueInstead), or this would not end.
	most := d.Waiting
	for e := end(); e != nil; e = end() {
		assert.That(most > 0, "mail that %s puts off to %s comes back", d.transport.Name, transport)
		most--
		q.putOff(e, transport, why)
	}
}

// putOff takes a waiting entry from its destination, which cannot be served: its
// recipients will be deferred, or fail, without an attempt. That is the
// business of TransportRetry and TransportError, so that even the end of a large
// backlog is scheduled. Only if the transport is dead itself they are deferred on
// the spot.
func (q *Qmgr) putOff(e *sched.Entry, transport string, why mail.Reply) {
	m := messageOf(e.Message)
	if m.callout != nil {
		q.answerCallout(m, transport, why)
		q.finish(e)
		q.attend(m)
		return
	}
	if instead := q.queueInstead(transport, why, queueOf(e.Destination()).origin()); instead != nil {
		q.moveTo(e, instead)
		return
	}
	q.deferNow(m, e.Recipients, why)
	q.finish(e)
	q.attend(m)
}

// queueInstead returns the queue of TransportRetry or TransportError for mail that
// cannot go to its own destination; nil if that transport is dead, or that queue: what
// is put off because retry cannot be reached, for the reason for which it came there,
// would come back for ever. Each destination has its own there, so that it is known where the mail was to go; in
// Postfix all that have the same reason share one.
func (q *Qmgr) queueInstead(transport string, why mail.Reply, of mail.Origin) *queue {
	t := q.transport(transport)
	if t.dead() {
		return nil
	}
	text := replyText(why)
	if q.cfg.AsPostfix {
		return alive(q.queue(t, text, text, nil, ""))
	}
	if q.queues > reasonsWhole {
		why.Text = mail.CutText(why.Text, texts.Short)
		text = replyText(why)
	}
	name := text
	if of != (mail.Origin{}) {
		name = of.Transport + ":" + of.Nexthop + " " + text
	}
	if of.Security != "" {
		name += " " + of.Security
	}
	name += " " + strconv.Itoa(int(why.Code))
	if why.By != "" {
		name += " " + why.By
	}
	d := q.queue(t, name, text, nil, "")
	d.instead, d.said = of, why
	return alive(d)
}

// alive returns a queue that is not dead, else nil.
func alive(d *queue) *queue {
	if d.dead() {
		return nil
	}
	return d
}

// origin is where the mail of a queue is to go, or was to go before it was put
// off.
func (d *queue) origin() mail.Origin {
	if d.instead != (mail.Origin{}) {
		return d.instead
	}
	return mail.Origin{Transport: d.transport.Name, Nexthop: d.nexthop, Security: d.security}
}

// moveTo replaces a waiting entry by one for another queue, with the same
// recipients.
func (q *Qmgr) moveTo(e *sched.Entry, d *queue) {
	e.MoveTo(&d.Claim(messageOf(e.Message).flow).Destination)
	q.finish(e)
}

// deferNow notes that recipients are deferred without an attempt.
func (q *Qmgr) deferNow(m *message, recipients []mail.Recipient, why mail.Reply) {
	if m.callout != nil {
		q.answerCallout(m, TransportRetry, why)
		return
	}
	m.deferring(why.Text)
	for i := range recipients {
		q.counts.Outcomes[mail.Deferred]++
		q.noted(m, &mail.Outcome{Index: recipients[i].Index, Result: mail.Deferred, Reply: why, At: q.now})
	}
}
