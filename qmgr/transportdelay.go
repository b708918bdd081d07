package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A transport may have a rate delay: then it has one delivery at a time, whatever the
// destination, and waits before each. The wait begins when there is something to deliver
// and the delivery before has ended, also for the first one; what is delivered is chosen
// when it is over. So no two deliveries start closer together than the delay, and what
// came meanwhile has its chance.
//
// Where the core decides on connections there is one delivery at a time, too, and the
// wait begins when it has ended; the first goes at once. Nothing is dialed meanwhile, and
// then one connection after the other, until something has been sent: the next when the
// one before is refused, or has had no answer for dialPatience. A connection that is being
// opened is no delivery, so that a host that does not answer delays no others.
//
// Postfix holds an agent while it waits, and its lock on the transport stays for ever if
// there is nothing left to deliver then, or if the agent crashes. Here it does not.

// A transportDelay is a transport's part in this.
type transportDelay struct {
	state delayState
	timer timer        // runs in delayWaiting, for the delay, and in delayDialing, for dialPatience
	until mail.Instant // with connections: when the next delivery may begin
}

// A delayState is how far a transport with a rate delay has come. One without stays
// delayFree.
type delayState uint8

const (
	delayFree    delayState = iota // the next wait may begin; with connections, the next dial
	delayAsked                     // the host was asked for an agent (AgentsOffered)
	delayWaiting                   // the delay goes on
	delayTaken                     // an entry is being chosen, or under way
	delayDialing                   // with connections: one began to be opened less than dialPatience ago
	delayStates  = iota
)

// delayTransitions[from][to] reports which changes there are. A dial may be followed by
// another, whose patience is counted anew, and an agent may be asked for again.
var delayTransitions = [delayStates][delayStates]bool{
	delayFree:    {delayAsked: true, delayWaiting: true, delayDialing: true},
	delayAsked:   {delayAsked: true, delayWaiting: true, delayFree: true},
	delayWaiting: {delayTaken: true, delayFree: true},
	delayTaken:   {delayFree: true},
	delayDialing: {delayDialing: true, delayFree: true},
}

func (l *transportDelay) become(s delayState) {
	assert.That(delayTransitions[l.state][s], "a transport's delay in state %d cannot come to state %d", l.state, s)
	l.state = s
}

// dialPatience is the time for which the answer to a dial is waited for before another connection
// is opened. A first packet that was lost is sent again after a second.
const dialPatience = time.Second

// holds reports whether the delay keeps the next entry from being chosen.
func (l *transportDelay) holds() bool { return l.state != delayFree && l.state != delayDialing }

// spaced reports whether a transport with connections has a rate delay.
func (t *transport) spaced() bool { return t.group != nil && t.cfg.TransportRateDelay > 0 }

// taken reports whether nothing may be dialed for a queue because a connection that may
// be ready in a moment is being opened, which is enough for one delivery.
func (t *transport) taken() bool { return t.spaced() && t.delay.state == delayDialing }

// sent notes that a delivery has ended, after which a transport with connections waits.
func (q *Qmgr) sent(t *transport) {
	if t.spaced() && t.Busy == 0 {
		t.delay.until = q.now.Add(t.cfg.TransportRateDelay)
		q.paceTransport(t)
	}
}

// dials notes that a connection begins to be opened.
func (q *Qmgr) dials(t *transport) {
	if t.spaced() {
		t.delay.become(delayDialing)
		q.timers.Set(&t.delay.timer, q.now.Add(dialPatience))
	}
}

// dialsNext lets another connection be opened: one is ready or refused, or has had no
// answer for dialPatience.
func (q *Qmgr) dialsNext(t *transport) {
	if t.delay.state != delayDialing {
		return
	}
	t.delay.become(delayFree)
	q.timers.Stop(&t.delay.timer)
	if !t.paused {
		t.goOn()
	}
}

// askedForAgent notes that the host was asked for an agent.
func (t *transport) askedForAgent() {
	if t.cfg.TransportRateDelay > 0 {
		t.delay.become(delayAsked)
	}
}

// serve starts the next delivery of a transport, or the wait before it.
func (q *Qmgr) serve(t *transport) {
	switch l := &t.delay; {
	case t.cfg.TransportRateDelay <= 0, t.group != nil:
		q.offer(t)
	case l.state == delayFree || l.state == delayAsked:
		l.become(delayWaiting)
		q.timers.Start(&l.timer, q.now.Add(t.cfg.TransportRateDelay))
	}
}

// waited starts the delivery for which a transport has waited.
func (q *Qmgr) waited(t *transport) {
	if t.group != nil {
		q.dialsNext(t)
		return
	}
	t.delay.become(delayTaken)
	q.runDeadlines(true)
	q.stale.Refresh()
	if !q.halt && !q.paused.Pending() && t.Startable > 0 && !t.paused {
		q.offer(t)
	}
	q.endDelay(t)
}

// endDelay lets a transport's next wait begin if nothing of it is under way any more.
func (q *Qmgr) endDelay(t *transport) {
	if t.delay.state == delayTaken && t.Busy == 0 && (!q.paused.Pending() || transportOf(q.paused.Lane()) != t) {
		t.delay.become(delayFree)
	}
}

// stopDelay ends a wait for nothing.
func (q *Qmgr) stopDelay(t *transport) {
	if t.delay.state == delayWaiting || t.delay.state == delayAsked {
		q.timers.Stop(&t.delay.timer)
		t.delay.become(delayFree)
	}
}

// next is when a transport with a rate delay starts its next delivery; 0 if it does not
// wait for that.
func (l *transportDelay) next() mail.Instant {
	if l.state != delayWaiting {
		return 0
	}
	return l.timer.At()
}
