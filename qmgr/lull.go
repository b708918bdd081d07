package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A transport may have a rate delay: then it has one delivery at a time, whatever
// the destination, and waits before each. The wait begins when there is something
// to deliver and the delivery before has ended, also for the first one; what is
// delivered is chosen when it is over. So no two deliveries start closer together
// than the delay, and what came meanwhile has its chance.
//
// Where the core decides on connections there is one delivery at a time, too, and the
// wait begins when it has ended; the first goes at once. Nothing is dialed meanwhile,
// and then one connection after the other, until something has been sent: the next when
// the one before is refused, or has had no answer for dialPatience. A connection that is
// being opened is no delivery, so that a host that does not answer delays no others.
//
// Postfix holds an agent while it waits, and its lock on the transport stays for
// ever if there is nothing left to deliver then, or if the agent crashes. Here it
// does not.

// A lull is a transport's part in this.
type lull struct {
	state lullState
	timer timer // the end of the wait (lullWaiting), or of dialPatience (fresh)
	// With connections: when the next delivery may begin, and whether a connection began
	// to be opened less than dialPatience ago.
	until mail.Instant
	fresh bool
}

// dialPatience is how long the answer to a dial is waited for before another connection
// is opened. A first packet that was lost is sent again after a second.
const dialPatience = time.Second

// spaced reports whether a transport with connections has a rate delay.
func (t *transport) spaced() bool { return t.group != nil && t.cfg.TransportRateDelay > 0 }

// taken reports whether nothing may be dialed for a queue because a connection that may
// be ready in a moment is being opened, which is enough for one delivery.
func (t *transport) taken() bool { return t.spaced() && t.lull.fresh }

// sent notes that a delivery has ended, after which a transport with connections waits.
func (q *Qmgr) sent(t *transport) {
	if t.spaced() && t.Busy == 0 {
		t.lull.until = q.now.Add(t.cfg.TransportRateDelay)
		q.paceTransport(t)
	}
}

// dials notes that a connection begins to be opened.
func (q *Qmgr) dials(t *transport) {
	if t.spaced() {
		t.lull.fresh = true
		q.disarm(&t.lull.timer)
		q.arm(&t.lull.timer, q.now.Add(dialPatience))
	}
}

// dialsNext lets another connection be opened: one is ready or refused, or has had no
// answer for dialPatience.
func (q *Qmgr) dialsNext(t *transport) {
	if !t.lull.fresh {
		return
	}
	t.lull.fresh = false
	q.disarm(&t.lull.timer)
	if !t.paused {
		t.goOn()
	}
}

type lullState uint8

const (
	lullFree    lullState = iota // the next wait may begin
	lullAsked                    // the host was asked for an agent (AgentsOffered)
	lullWaiting                  // the delay goes on
	lullTaken                    // an entry is being chosen, or under way
)

// serve starts the next delivery of a transport, or the wait before it.
func (q *Qmgr) serve(t *transport) {
	l := &t.lull
	switch {
	case t.cfg.TransportRateDelay <= 0, t.group != nil:
		q.offer(t)
	case l.state == lullFree || l.state == lullAsked:
		l.state = lullWaiting
		q.arm(&l.timer, q.now.Add(t.cfg.TransportRateDelay))
	}
}

// waited starts the delivery for which a transport has waited.
func (q *Qmgr) waited(t *transport) {
	if t.group != nil {
		q.dialsNext(t)
		return
	}
	t.lull.state = lullTaken
	t.Refresh()
	if !q.halt && !q.paused.Pending() && t.Startable > 0 && !t.paused {
		q.offer(t)
	}
	q.endLull(t)
}

// endLull lets a transport's next wait begin if nothing of it is under way any
// more.
func (q *Qmgr) endLull(t *transport) {
	if t.lull.state == lullTaken && t.Busy == 0 && q.paused.Lane() != &t.Lane {
		t.lull.state = lullFree
	}
}

// stopLull ends a wait for nothing.
func (q *Qmgr) stopLull(t *transport) {
	if t.lull.state == lullWaiting || t.lull.state == lullAsked {
		q.disarm(&t.lull.timer)
		t.lull.state = lullFree
	}
}

// next is when a transport with a rate delay starts its next delivery; 0 if it
// does not wait for that.
func (l *lull) next() mail.Instant {
	if l.state != lullWaiting {
		return 0
	}
	return l.timer.at
}
