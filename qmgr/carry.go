package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// connFeedback reports to the window what an event of a connection means for it. The window does
// not die of failures, as it does without connections: mail is deferred when no host can be
// tried, and until one can be. Mail that would come back here fails.
//
// With the style "level" a refusal does not lower the window either: the hosts remember
// for themselves how many connections they take. That style judges by attempts, of which
// there are hundreds where each delivery is one, and a few here, some of them without effect
// wherever a server behind the address is down; and what it saves, mail that is deferred
// because of a refusal, costs nothing here.
func (q *Qmgr) connFeedback(d *queue, f conns.Feedback, a window.Attempt, why mail.Reply) {
	switch {
	case f >= conns.FeedbackAlive && d.whole().resting(q.now): // the receiver wants to be left alone
	case f >= conns.FeedbackAlive && d.dead():
		q.revive(d.whole(), CauseSuccess)
		return
	case f == conns.FeedbackPositive:
		d.window.Success(&d.limits.window, a, max(d.site.Count(), 1))
		d.touch()
		q.explain(d, CauseSuccess)
		return
	case f == conns.FeedbackNegative && d.ready() && !d.limits.window.ByLevel():
		cfg := d.limits.window
		cfg.FailedCohortLimit = 0
		d.window.Failure(&cfg, a)
		d.touch()
		q.explain(d, CauseFailure)
		return
	case f == conns.FeedbackLoop && d.main != nil: // the hosts that are better than ourselves may be those that come last
		q.rejoin(d)
	case f == conns.FeedbackLoop:
		q.putOffAll(d, TransportError, why)
	}
	d.window.Lost(a)
}

// send hands an entry that was selected to the connection that carries it.
func (q *Qmgr) send(t *transport, v *delivery) {
	e := v.entry
	d, m := queueOf(e.Destination()), messageOf(e.Message)
	c, first, last := q.conns.Assign(d.site, conns.Load{Entry: uint64(v.id), Message: m.ID,
		Cost: conns.Cost(m.env.Size, len(e.Recipients)), Callout: m.callout != nil})
	if first {
		m.held++
	}
	v.conn = c
	q.emit(Send{Conn: c.ID, Entry: v.id, Delivery: deliveryOf(t, e)})
	if last {
		q.emit(Hangup{Conn: c.ID})
	}
	d.touch()
}

// carried takes an entry off its connection.
func (q *Qmgr) carried(v *delivery, r *mail.DeliveryResult) {
	c, m, d := v.conn, messageOf(v.entry.Message), queueOf(v.entry.Destination())
	f := q.conns.Finished(c, uint64(v.id), r, q.now)
	if f.Hangup {
		q.hangup(c)
	}
	if f.Left {
		q.ease(m)
	}
	v.conn = nil
	q.connFeedback(d, f.Feedback, window.Attempt{}, mail.Reply{}) // at which concurrency has been said when it was dialed
}

// untry takes back what a connection never began.
func (q *Qmgr) untry(c *conns.Conn) {
	for len(c.Loads()) > 0 {
		id := EntryID(c.Loads()[len(c.Loads())-1].Entry) // so that the first comes to stand before the others
		v := q.end(id)
		e := v.entry
		q.unstarted(&v)
		m := messageOf(e.Message)
		if q.conns.Untried(c, uint64(id), q.now) {
			q.ease(m)
		}
		q.putBack(id, e, slices.Clone(e.Recipients))
		q.finish(e)
		q.attend(m)
	}
}

// ease notes that a message holds a connection fewer.
func (q *Qmgr) ease(m *message) {
	m.held--
	q.conns.Eased(m.ID)
}

// putBack makes recipients whose turn did not come wait again, before all that
// wait for the same destination.
func (q *Qmgr) putBack(id EntryID, e *sched.Entry, untried []mail.Recipient) {
	m, t := messageOf(e.Message), queueOf(e.Destination()).transport
	if m.order != orders.None || m.callout != nil && !m.callout.InTime() {
		m.left = true
		return
	}
	back := e.PutBack(untried)
	q.hold(m, len(untried))
	d := queueOf(e.Destination())
	if id <= q.rerouted.entry && d.hasRoute() {
		if q.routeAgain(m); !m.outdated {
			return
		}
	}
	switch { // or, until it can be routed again, as other mail
	case q.putOffSuspended(back):
	case d.dead() && d.source != nil:
		q.bindEntryAnew(back)
	case d.dead():
		q.putOff(back, TransportRetry, d.whole().reason)
	case t.dead():
		q.putOff(back, TransportRetry, t.outage.reason)
	case !q.fits(back): // a reload may have come while it was under way
		q.bindEntryAnew(back)
	}
}
