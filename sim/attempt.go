package sim

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// An attempt is a Deliver that is being answered: the client's side of the
// model. Its event is the end of what it is doing.
type attempt struct {
	event
	stage      stage
	entry      qmgr.EntryID
	message    *message
	recipients []mail.Recipient
	to         *receiver
	client     *Client
	conn       *connection

	repeated  int          // packets of the handshake
	deadline  mail.Instant // of the stage
	fault     Fault
	faulty    bool       // this connection will fail, as fault says
	result    mail.Reply // stageFailing: what the client will have heard
	inWaiting ilist.Link[attempt]
}

// A stage is what an attempt waits for.
type stage uint8

const (
	stageLookingUp   stage = iota // the name server's answer
	stageConnecting               // an answer to the handshake, which is repeated until the deadline
	stageForgotten                // the greeting; but the server does not know of the connection
	stageWaiting                  // the greeting; the connection is in the server's queue
	stageHandshaking              // the handshake, which will succeed
	stageFailing                  // to hear of a failure
	stageSending                  // the end of the transaction
	stageLosing                   // the loss of the connection, in the transaction
)

// The replies that the model knows.
var (
	replyAccepted   = mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "ok"}
	replyGreylisted = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2}, Text: "greylisted, try again later"}
	replySoft       = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2, Detail: 1}, Text: "mailbox temporarily unavailable"}
	replyHard       = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "no such user"}
	replyNoDNS      = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 3}, Text: "name server failure"}
	replyRefused    = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection refused"}
	replyTimeout    = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection timed out"}
	replySilent     = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "timed out while waiting for the greeting"}
	replyBusy       = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7}, Text: "too many connections"}
	replyNoAgent    = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: "mail transport unavailable"}
	replyLost       = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "lost connection"}
)

// begin starts the attempt.
func (a *attempt) begin(w *world) {
	if a.to.known > w.now {
		a.connect(w)
		return
	}
	dns := &w.scenario.DNS
	if !dns.ByDelivery || !dns.asks() {
		a.connect(w)
		return
	}
	a.wait(w, stageLookingUp, w.now.Add(dns.Delay.draw(&a.to.rng)))
}

func (a *attempt) wait(w *world, s stage, until mail.Instant) {
	a.stage = s
	w.at(&a.event, a, until)
}

// happen goes on when what the attempt waited for is over.
func (a *attempt) happen(w *world) {
	switch a.stage {
	case stageLookingUp:
		a.lookedUp(w)
	case stageConnecting, stageForgotten:
		a.repeat(w)
	case stageWaiting: // too long
		a.to.waiting.Remove(&a.inWaiting)
		a.abandon(w, replySilent)
	case stageHandshaking:
		a.greeted(w)
	case stageFailing:
		a.abandon(w, a.result)
	case stageSending:
		a.sent(w)
	case stageLosing:
		a.to.close(w, a.conn)
		w.finish(a, replyLost)
	}
}

func (a *attempt) lookedUp(w *world) {
	dns := &w.scenario.DNS
	if percent(&a.to.rng, dns.FailurePercent) {
		w.finish(a, replyNoDNS)
		return
	}
	a.to.known = w.now.Add(dns.TTL)
	a.connect(w)
}

// connect takes an idle connection, or makes one.
func (a *attempt) connect(w *world) {
	if a.client.CacheTime > 0 {
		if a.conn = a.to.reuse(w); a.conn != nil {
			a.faulty = false
			a.send(w)
			return
		}
	}
	w.connected(+1)
	a.fault, a.faulty = a.to.fault(w)
	if a.faulty && a.fault != FaultDrop {
		a.fail(w)
		return
	}
	if a.to.now.Processes > 0 {
		a.deadline = w.now.Add(a.client.ConnectTimeout)
		a.shake(w)
		return
	}
	a.handshake(w)
}

// handshake is one that the server answers.
func (a *attempt) handshake(w *world) {
	if a.to.now.Connect.IsZero() {
		a.greeted(w)
		return
	}
	a.wait(w, stageHandshaking, w.now.Add(a.to.now.Connect.draw(&a.to.rng)))
}

// fail is what a faulty connection comes to.
func (a *attempt) fail(w *world) {
	connect := a.to.now.Connect.draw(&a.to.rng)
	switch a.fault {
	case FaultRefuse:
		a.failAfter(w, w.now.Add(connect), replyRefused)
	case FaultTimeout:
		a.failAfter(w, w.now.Add(a.client.ConnectTimeout), replyTimeout)
	case FaultSilent:
		a.failAfter(w, w.now.Add(connect+a.client.GreetingTimeout), replySilent)
	default:
		a.failAfter(w, w.now.Add(connect), replyBusy)
	}
}

func (a *attempt) failAfter(w *world, when mail.Instant, why mail.Reply) {
	a.result = why
	a.wait(w, stageFailing, when)
}

// abandon ends an attempt whose connection the receiver never counted.
func (a *attempt) abandon(w *world, why mail.Reply) {
	w.connected(-1)
	w.finish(a, why)
}

// shake is one packet of a handshake with a server whose kernel may have no
// room. A connection that finds a process, or room, is established.
func (a *attempt) shake(w *world) {
	r := a.to
	switch {
	case r.hasProcess():
		r.serving++
		a.handshake(w)
	case r.hasRoom():
		if a.stage != stageForgotten { // where the client's clock runs already
			a.deadline = w.now.Add(a.client.GreetingTimeout)
		}
		r.waiting.PushBack(&a.inWaiting, a)
		a.wait(w, stageWaiting, a.deadline)
	case r.now.Overflow == OverflowRefuse:
		a.failAfter(w, w.now, replyRefused)
	case r.now.Overflow == OverflowDropSYN:
		a.waitToRepeat(w, stageConnecting)
	default:
		if a.stage != stageForgotten {
			a.deadline = w.now.Add(a.client.GreetingTimeout)
		}
		a.waitToRepeat(w, stageForgotten)
	}
}

// waitToRepeat waits for the next packet of the handshake, or for the client to
// give up.
func (a *attempt) waitToRepeat(w *world, s stage) {
	until := a.deadline
	if wait, more := a.to.now.retransmit(a.repeated); more {
		until = min(until, w.now.Add(wait))
	}
	a.wait(w, s, until)
}

// repeat repeats a packet of the handshake, unless it is too late.
func (a *attempt) repeat(w *world) {
	if w.now < a.deadline {
		a.repeated++
		a.shake(w)
		return
	}
	why := replyTimeout
	if a.stage == stageForgotten {
		why = replySilent
	}
	a.abandon(w, why)
}

// greeted goes on when the server says something: it may be that it has enough
// of us.
func (a *attempt) greeted(w *world) {
	r := a.to
	if limit := r.now.ConnectionLimit; limit > 0 && r.open >= limit {
		w.connected(-1)
		if r.now.Processes > 0 {
			r.release(w)
		}
		w.finish(a, replyBusy)
		return
	}
	a.conn = r.connect(w, a.client)
	a.send(w)
}

// send begins the transaction.
func (a *attempt) send(w *world) {
	b, rng := &a.to.now, &a.to.rng
	d := b.Transaction.draw(rng) + b.Recipient.drawSum(rng, len(a.recipients))
	if a.faulty || percent(rng, b.DropPercent) {
		a.wait(w, stageLosing, w.now.Add(rng.Between(0, d)))
		return
	}
	a.wait(w, stageSending, w.now.Add(d))
}

// sent ends the transaction. The connection is kept or closed first: the core
// may want it for what it starts next.
func (a *attempt) sent(w *world) {
	a.to.keep(w, a.conn)
	w.finish(a, mail.Reply{})
}

// verdict is what the receiver says of one recipient.
func (a *attempt) verdict(w *world) (mail.Result, mail.Reply) {
	b, rng := &a.to.now, &a.to.rng
	switch {
	case b.Greylist > 0 && w.now.Sub(a.message.firstTry) < b.Greylist:
		return mail.Deferred, replyGreylisted
	case percent(rng, b.SoftPercent):
		return mail.Deferred, replySoft
	case percent(rng, b.HardPercent):
		return mail.Failed, replyHard
	}
	return mail.Delivered, replyAccepted
}
