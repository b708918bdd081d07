package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// A call is a connection that is being made to a receiver: the client's side of
// handshake and greeting. Its event is the end of what it waits for.
type call struct {
	event
	stage  stage
	caller caller
	host   *receiver
	client *Client
	source string        // our address; "" where none is chosen
	rtt    time.Duration // round trip of this connection

	repeated  int          // packets of the handshake
	deadline  mail.Instant // of the stage
	fault     Fault
	faulty    bool       // this connection will fail, as fault says
	result    mail.Reply // stageFailing: what the client will have heard
	inWaiting ilist.Link[call]
}

// A caller has a connection made.
type caller interface {
	// established means that the receiver counts the connection and has greeted.
	established(w *world)
	// refused means that there is no connection, with the reason.
	refused(w *world, why mail.Reply)
}

// A stage is what a call waits for.
type stage uint8

const (
	stageConnecting  stage = iota // an answer to the handshake, which is repeated until the deadline
	stageForgotten                // the greeting; but the server does not know of the connection
	stageWaiting                  // the greeting; the connection is in the server's queue
	stageHandshaking              // the handshake, which will succeed
	stageFailing                  // to hear of a failure
)

// roundTrips is what a connection costs before its first transaction: the TCP
// handshake, the greeting, and EHLO.
const roundTrips = 3

func (c *call) wait(w *world, s stage, until mail.Instant) {
	c.stage = s
	w.at(&c.event, c, until)
}

// happen goes on when what the call waited for is over.
func (c *call) happen(w *world) {
	switch c.stage {
	case stageConnecting, stageForgotten:
		c.repeat(w)
	case stageWaiting: // too long
		c.host.waiting.Remove(&c.inWaiting)
		c.abandon(w, replySilent)
	case stageHandshaking:
		c.greeted(w)
	case stageFailing:
		c.abandon(w, c.result)
	}
}

// dial begins to make the connection.
func (c *call) dial(w *world) {
	r := c.host
	w.connected(r, +1)
	c.stage, c.repeated, c.rtt = stageConnecting, 0, 0
	if !r.now.RTT.IsZero() {
		c.rtt = r.now.RTT.draw(&r.rng)
	}
	c.fault, c.faulty = r.fault(w, c.source)
	if c.faulty && c.fault != FaultDrop {
		c.fail(w)
		return
	}
	if r.now.Processes > 0 {
		c.deadline = w.now.Add(c.client.ConnectTimeout)
		c.shake(w)
		return
	}
	c.handshake(w)
}

// handshake is one that the server answers.
func (c *call) handshake(w *world) {
	b := &c.host.now
	if b.Connect.IsZero() && c.rtt == 0 {
		c.greeted(w)
		return
	}
	c.wait(w, stageHandshaking, w.now.Add(b.Connect.draw(&c.host.rng)+roundTrips*c.rtt))
}

// fail is what a faulty connection comes to.
func (c *call) fail(w *world) {
	connect := c.host.now.Connect.draw(&c.host.rng)
	switch c.fault {
	case FaultRefuse:
		c.failAfter(w, w.now.Add(connect+c.rtt), replyRefused)
	case FaultTimeout:
		c.failAfter(w, w.now.Add(c.client.ConnectTimeout), replyTimeout)
	case FaultSilent:
		c.failAfter(w, w.now.Add(connect+c.rtt+c.client.GreetingTimeout), replySilent)
	case FaultClose:
		c.failAfter(w, w.now.Add(connect+2*c.rtt), replyLost)
	default:
		c.failAfter(w, w.now.Add(connect+2*c.rtt), replyBusy)
	}
}

func (c *call) failAfter(w *world, when mail.Instant, why mail.Reply) {
	c.result = why
	c.wait(w, stageFailing, when)
}

// abandon ends a connection that the receiver never counted.
func (c *call) abandon(w *world, why mail.Reply) {
	w.connected(c.host, -1)
	c.caller.refused(w, why)
}

// shake is one packet of a handshake with a server whose kernel may have no
// room. A connection that finds a process, or room, is established.
func (c *call) shake(w *world) {
	r := c.host
	switch {
	case r.hasProcess():
		r.serving++
		c.handshake(w)
	case r.hasRoom():
		if c.stage != stageForgotten { // where the client's clock runs already
			c.deadline = w.now.Add(c.client.GreetingTimeout)
		}
		r.waiting.PushBack(&c.inWaiting, c)
		c.wait(w, stageWaiting, c.deadline)
	case r.now.Overflow == OverflowRefuse:
		c.failAfter(w, w.now, replyRefused)
	case r.now.Overflow == OverflowDropSYN:
		c.waitToRepeat(w, stageConnecting)
	default:
		if c.stage != stageForgotten {
			c.deadline = w.now.Add(c.client.GreetingTimeout)
		}
		c.waitToRepeat(w, stageForgotten)
	}
}

// waitToRepeat waits for the next packet of the handshake, or for the client to
// give up.
func (c *call) waitToRepeat(w *world, s stage) {
	until := c.deadline
	if wait, more := c.host.now.retransmit(c.repeated); more {
		until = min(until, w.now.Add(wait))
	}
	c.wait(w, s, until)
}

// repeat repeats a packet of the handshake, unless it is too late.
func (c *call) repeat(w *world) {
	if w.now < c.deadline {
		c.repeated++
		c.shake(w)
		return
	}
	why := replyTimeout
	if c.stage == stageForgotten {
		why = replySilent
	}
	c.abandon(w, why)
}

// greeted goes on when the server says something: it may be that it has enough
// of us.
func (c *call) greeted(w *world) {
	r := c.host
	if limit := r.now.ConnectionLimit; limit > 0 && r.open >= limit {
		w.connected(r, -1)
		if r.now.Processes > 0 {
			r.release(w)
		}
		c.caller.refused(w, replyBusy)
		return
	}
	r.open++
	c.caller.established(w)
}
