package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/spacing"
)

// Package spacing knows how far a transport has come with its rate delay. What is left to the queue manager is the timer, and what happens
// when it ends.

// A transportDelay is a transport's part in this. Invariant: the timer runs while the delay is Timed.
type transportDelay struct {
	spacing.Delay
	timer timer
}

// spaced reports whether a transport with connections has a rate delay.
func (t *transport) spaced() bool { return t.group != nil && t.cfg.TransportRateDelay > 0 }

// taken reports whether nothing may be dialed for a queue because a connection that may
// be ready in a moment is being opened, which is enough for one delivery.
func (t *transport) taken() bool { return t.spaced() && t.delay.Dialing() }

// sent notes that a delivery has ended, after which a transport with connections waits.
func (q *Qmgr) sent(t *transport) {
	if t.spaced() && t.Busy == 0 {
		t.delay.Sent(q.now.Add(t.cfg.TransportRateDelay))
		q.paceTransport(t)
	}
}

// dials notes that a connection begins to be opened.
func (q *Qmgr) dials(t *transport) {
	if t.spaced() {
		t.delay.Dials()
		q.timers.Set(&t.delay.timer, q.now.Add(spacing.Patience))
	}
}

// dialsNext lets another connection be opened: one is ready or refused, or has had no
// answer for spacing.Patience.
func (q *Qmgr) dialsNext(t *transport) {
	if !t.delay.DialsNext() {
		return
	}
	q.timers.Stop(&t.delay.timer)
	if !t.paused {
		t.goOn()
	}
}

// serve starts the next delivery of a transport, or the wait before it.
func (q *Qmgr) serve(t *transport) {
	switch l := &t.delay; {
	case t.cfg.TransportRateDelay <= 0, t.group != nil:
		q.offer(t)
	case l.Wait():
		q.timers.Start(&l.timer, q.now.Add(t.cfg.TransportRateDelay))
	}
}

// waited starts the delivery for which a transport has waited.
func (q *Qmgr) waited(t *transport) {
	if t.group != nil {
		q.dialsNext(t)
		return
	}
	t.delay.Over()
	q.runDeadlines(true)
	q.stale.Refresh()
	if !q.halt && !q.paused.Pending() && t.Startable > 0 && !t.paused {
		q.offer(t)
	}
	q.endDelay(t)
}

// endDelay lets a transport's next wait begin if nothing of it is under way any more.
func (q *Qmgr) endDelay(t *transport) {
	if t.Busy == 0 && (!q.paused.Pending() || transportOf(q.paused.Lane()) != t) {
		t.delay.Ended()
	}
}

// stopDelay ends a wait for nothing.
func (q *Qmgr) stopDelay(t *transport) {
	if t.delay.Stop() {
		q.timers.Stop(&t.delay.timer)
	}
}

// next is when a transport with a rate delay starts its next delivery; 0 if it does not
// wait for that.
func (l *transportDelay) next() mail.Instant {
	if !l.Waiting() {
		return 0
	}
	return l.timer.At()
}
