package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/timers"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A timer is the end of the time during which a queue or a transport takes no
// deliveries. Messages have no timers: deferred mail waits in the spool's index.
type timer = timers.Timer[timed]

// timed is of what a timer is.
type timed struct {
	kind      timerKind
	queue     *queue     // timerQueue, timerPace, timerSpread, timerMeasure, timerTurn
	transport *transport // the other kinds
}

// A timerKind is what comes to its end.
type timerKind uint8

const (
	timerQueue         timerKind = iota // by the window's state: Dead, the back-off; Suspended, the rest
	timerOutage                         // a transport's death
	timerPace                           // what a destination has had counts less against its limits by time
	timerTransportPace                  // what a transport has had does
	timerSpread                         // the pause between two starts to a destination
	timerDelay                          // a transport's wait before its next delivery
	timerMeasure                        // replies count no more that a rule needs several of
	timerTurn                           // a detour of a main queue has had its turn
)

// runTimers ends every rest and back-off that is over, and the connections that
// have been idle for too long or have become too old.
func (q *Qmgr) runTimers() {
	q.hangupAll(q.conns.Surplus(q.now))
	q.relieve()
	if !q.lookups.Idle() {
		q.relieveLookups()
	}
	q.tryAddresses()
	// Keys and records are large, and each Step comes here: asking first saves a twelfth of the instructions of a message.
	if q.measured.Next() <= q.now {
		q.endMeasures()
	}
	if q.suspended.Next() <= q.now {
		q.tellSuspensions(q.suspended.End(q.now)...)
	}
	// A timer that ends may start others, for later. One that started anew for now
	// would end for ever.
	most := 2*q.timers.Len() + 16
	for due := q.timers.Due(q.now); due != nil; due = q.timers.Due(q.now) {
		most--
		t := due.Of
		assert.That(most > 0, "timers of kind %d start for the instant at which they end", t.kind)
		switch t.kind {
		case timerQueue:
			q.resumeQueue(t.queue)
		case timerPace:
			q.goOn(t.queue)
		case timerTransportPace:
			q.paceTransport(t.transport)
		case timerSpread:
			q.spreadOn(t.queue)
		case timerOutage:
			q.restore(t.transport)
		case timerDelay:
			q.waited(t.transport)
		case timerMeasure:
			q.sightingsEnd(t.queue)
		case timerTurn:
			q.turnEnds(t.queue)
		}
	}
}

// resumeQueue lets a destination take deliveries again whose time is over.
func (q *Qmgr) resumeQueue(d *queue) {
	switch d.window.State() {
	case window.Dead:
		q.revive(d, CauseRevival)
	case window.Suspended:
		d.window.Resume()
		d.touchAll()
	default:
		assert.Unreachable("timer of %s:%s, which is ready", d.transport.Name, d.nexthop)
	}
	q.freeIfIdle(d)
}

// revive makes a dead destination ready again. busy deliveries among them may
// have shown that it works.
func (q *Qmgr) revive(d *queue, cause FeedbackCause) {
	q.timers.Stop(&d.timer)
	d.window.Revive(&d.limits.window, d.concurrency())
	d.reason = mail.Reply{}
	q.endRest(d)
	d.touchAll()
	q.explain(d, cause)
	q.emit(Note{Kind: NoteAlive, Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.String(), Security: d.security})
}

// restAfterDelivery suspends a destination's window until its next delivery may start,
// where a rate delay is configured, or after a call-out. A dead destination is revived
// first: it pauses instead of being dead, as in Postfix.
func (q *Qmgr) restAfterDelivery(d *queue, asked bool) {
	d = d.whole()
	delay := d.limits.rateDelay
	if asked {
		delay = min(delay, calloutSpan)
	}
	if delay <= 0 || d.window.State() == window.Suspended || d.resting(q.now) {
		return
	}
	if d.window.State() == window.Dead {
		q.revive(d, CauseRevival)
	}
	d.window.Suspend()
	d.touchAll()
	q.timers.Start(&d.timer, q.now.Add(delay))
}
