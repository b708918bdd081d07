package qmgr

import "github.com/posthaste-mta/posthaste/mail"

// A transport may have a rate delay: then it has one delivery at a time, whatever
// the destination, and waits before each. The wait begins when there is something
// to deliver and the delivery before has ended, also for the first one; what is
// delivered is chosen when it is over. So no two deliveries start closer together
// than the delay, and what came meanwhile has its chance.
//
// Where the core decides on connections there is one delivery at a time, too, and the
// wait begins when it has ended; the first goes at once. Nothing is dialled meanwhile,
// and then one connection after the other, until something has been sent.
//
// Postfix holds an agent while it waits, and its lock on the transport stays for
// ever if there is nothing left to deliver then, or if the agent crashes. Here it
// does not.

// A lull is a transport's part in this.
type lull struct {
	state lullState
	timer timer // lullWaiting: the end of the wait
	// With connections: when the next delivery may begin, and how many connections are
	// being opened.
	until   mail.Instant
	dialing int
}

// spaced reports whether a transport with connections has a rate delay.
func (t *transport) spaced() bool { return t.group != nil && t.cfg.TransportRateDelay > 0 }

// taken reports whether nothing may be dialed for a queue because one connection is
// being opened, which is enough for one delivery.
func (t *transport) taken() bool { return t.spaced() && t.lull.dialing > 0 }

// sent notes that a delivery has ended, after which a transport with connections waits.
func (q *Qmgr) sent(t *transport) {
	if t.spaced() && t.busy == 0 {
		t.lull.until = q.now.Add(t.cfg.TransportRateDelay)
		q.paceTransport(t)
	}
}

// dials notes that one connection more, or fewer, is being opened.
func (q *Qmgr) dials(t *transport, more int) {
	t.lull.dialing += more
	if t.spaced() && !t.paused && t.lull.dialing == 0 {
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
	t.lull.state = lullTaken
	if !q.halt && q.paused.job == nil && t.startable > 0 && !t.paused {
		q.offer(t)
	}
	q.endLull(t)
}

// endLull lets a transport's next wait begin if nothing of it is under way any
// more.
func (q *Qmgr) endLull(t *transport) {
	if t.lull.state == lullTaken && t.busy == 0 && (q.paused.job == nil || q.paused.job.transport != t) {
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
