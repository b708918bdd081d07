// Package spacing keeps the deliveries of a transport with a rate delay apart from each other.
//
// Such a transport has one delivery at a time, whatever the
// destination, and waits before each. The wait begins when there is something to deliver
// and the delivery before has ended, also for the first one; what is delivered is chosen
// when it is over. So no two deliveries start closer together than the delay, and what
// came meanwhile has its chance.
//
// Where the core decides on connections there is one delivery at a time, too, and the
// wait begins when it has ended; the first goes at once. Nothing is dialed meanwhile, and
// then one connection after the other, until something has been sent: the next when the
// one before is refused, or has had no answer for [Patience]. A connection that is being
// opened is no delivery, so that a host that does not answer delays no others.
//
// Postfix holds an agent while it waits, and its lock on the transport stays for ever if
// there is nothing left to deliver then, or if the agent crashes. Here it does not.
package spacing

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// Patience is the time for which the answer to a dial is waited for before another connection
// is opened. A first packet that was lost is sent again after a second.
const Patience = time.Second

// A Delay is how far a transport has come with its rate delay. The zero Delay is that of a transport without one, or of which nothing is
// under way. Its owner has the timer, which runs while Timed.
type Delay struct {
	state state
	until mail.Instant
}

// A state is how far a transport with a rate delay has come. One without stays free.
type state uint8

const (
	free    state = iota // the next wait may begin; with connections, the next dial
	asked                // the host was asked for an agent
	waiting              // the delay goes on
	taken                // an entry is being chosen, or under way
	dialing              // with connections: one began to be opened less than Patience ago
	states  = iota
)

// transitions[from][to] reports which changes there are. A dial may be followed by
// another, whose patience is counted anew, and an agent may be asked for again.
var transitions = [states][states]bool{
	free:    {asked: true, waiting: true, dialing: true},
	asked:   {asked: true, waiting: true, free: true},
	waiting: {taken: true, free: true},
	taken:   {free: true},
	dialing: {dialing: true, free: true},
}

func (d *Delay) become(s state) {
	assert.That(transitions[d.state][s], "a transport's delay in state %d cannot come to state %d", d.state, s)
	d.state = s
}

// Holds reports whether the delay keeps the next entry from being chosen.
func (d *Delay) Holds() bool { return d.state != free && d.state != dialing }

// Timed reports whether the delay waits for time to pass: the pause before a delivery, or Patience.
func (d *Delay) Timed() bool { return d.state == waiting || d.state == dialing }

// Waiting reports whether a pause before a delivery goes on.
func (d *Delay) Waiting() bool { return d.state == waiting }

// Dialing reports whether a connection that may be ready in a moment is being opened, which is enough for one delivery.
func (d *Delay) Dialing() bool { return d.state == dialing }

// None reports whether nothing waits because of the delay.
func (d *Delay) None() bool { return d.state == free || d.state == taken || d.state == dialing }

// MayAsk reports whether one more agent may be asked for, besides those that are on their way, of which there may be most.
func (d *Delay) MayAsk(pending, most int) bool {
	switch d.state {
	case free, dialing:
		return pending < most
	case asked:
		return pending == 0 // the one that was asked for does not come
	}
	return false
}

// Asked notes that the host was asked for an agent.
func (d *Delay) Asked() { d.become(asked) }

// Wait begins the pause before a delivery, and reports whether it does: not while another goes on, or a delivery.
func (d *Delay) Wait() bool {
	if d.state != free && d.state != asked {
		return false
	}
	d.become(waiting)
	return true
}

// Over notes that the pause is over: an entry is chosen.
func (d *Delay) Over() { d.become(taken) }

// Ended notes that nothing is under way any more, so that the next pause may begin.
func (d *Delay) Ended() {
	if d.state == taken {
		d.become(free)
	}
}

// Stop ends a pause for nothing, and reports whether there was one, or an agent was asked for.
func (d *Delay) Stop() bool {
	if d.state != waiting && d.state != asked {
		return false
	}
	d.become(free)
	return true
}

// Dials notes that a connection begins to be opened.
func (d *Delay) Dials() { d.become(dialing) }

// DialsNext lets another connection be opened, and reports whether one was being opened: it is ready or refused, or has had no
// answer for Patience.
func (d *Delay) DialsNext() bool {
	if d.state != dialing {
		return false
	}
	d.become(free)
	return true
}

// Sent notes that a delivery over a connection has ended, after which a transport waits until an instant.
func (d *Delay) Sent(until mail.Instant) { d.until = until }

// Until returns when the next delivery over a connection may begin.
func (d *Delay) Until() mail.Instant { return d.until }
