package sim

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// An attempt is a Deliver that is being answered: what an agent does. It has a
// connection made, or takes an idle one, and carries one transaction.
type attempt struct {
	call
	task
	doing doing
	plan  []*receiver // the hosts, in the order in which they are tried
	next  int         // of the plan
	conn  *connection
}

// doing is what an attempt does when its call is not under way.
type doing uint8

const (
	doingLookUp  doing = iota // waits for the name server's answer
	doingSend                 // waits for the end of the transaction
	doingAndLose              // waits for the loss of the connection, in the transaction
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
	a.wait(w, doingLookUp, w.now.Add(dns.Delay.draw(a.to.rng())))
}

func (a *attempt) wait(w *world, d doing, until mail.Instant) {
	a.doing = d
	w.at(&a.event, a, until)
}

// happen goes on when what the attempt waited for is over.
func (a *attempt) happen(w *world) {
	switch a.doing {
	case doingLookUp:
		a.lookedUp(w)
	case doingSend:
		a.sent(w)
	case doingAndLose:
		a.host.close(w, a.conn)
		w.finish(a, replyLost)
	}
}

func (a *attempt) lookedUp(w *world) {
	dns := &w.scenario.DNS
	if percent(a.to.rng(), dns.FailurePercent) {
		w.finish(a, replyNoDNS)
		return
	}
	a.to.known = w.now.Add(dns.TTL)
	a.connect(w)
}

// connect takes an idle connection, or has one made to the first host of the
// plan.
func (a *attempt) connect(w *world) {
	a.plan, a.next = a.to.inOrder(a.plan[:0]), 0
	if a.client.CacheTime > 0 {
		for _, r := range a.plan {
			if a.conn = r.reuse(w); a.conn != nil {
				a.host, a.faulty, a.rtt = r, false, a.conn.rtt
				a.send(w)
				return
			}
		}
	}
	a.dialNext(w)
}

func (a *attempt) dialNext(w *world) {
	a.host = a.plan[a.next]
	a.next++
	a.caller = a
	a.dial(w)
}

// refused tries the next host, if there is one.
func (a *attempt) refused(w *world, why mail.Reply) {
	w.measure.refused++
	if a.next < len(a.plan) {
		a.dialNext(w)
		return
	}
	w.finish(a, why)
}

func (a *attempt) established(w *world) {
	a.conn = a.host.connect(w, a.client)
	a.conn.rtt = a.rtt
	a.send(w)
}

// send begins the transaction: as Postfix does it, with MAIL, RCPTs and DATA in a
// group where the server takes that, and RSET before all but the first.
func (a *attempt) send(w *world) {
	b, rng := &a.host.now, &a.host.rng
	d := b.Transaction.draw(rng) + b.Recipient.drawSum(rng, len(a.recipients))
	switch {
	case a.rtt == 0:
	case b.Pipelining == mail.LevelLockStep:
		d += roundTripsInLockStep(len(a.recipients)) * a.rtt
	case a.conn.carried > 0:
		d += 3 * a.rtt
	default:
		d += 2 * a.rtt
	}
	switch {
	case a.message.poisonous():
		a.wait(w, doingAndLose, w.now.Add(d))
		return
	case a.faulty || percent(rng, b.DropPercent):
		a.wait(w, doingAndLose, w.now.Add(rng.Between(0, d)))
		return
	}
	a.wait(w, doingSend, w.now.Add(d))
}

// sent ends the transaction. The connection is kept or closed first: the core
// may want it for what it starts next.
func (a *attempt) sent(w *world) {
	a.host.keep(w, a.conn)
	w.finish(a, mail.Reply{})
}

// deliver takes a delivery. Those of the core's own transports have no other
// end than the text that they go to.
func (w *world) deliver(action qmgr.Action, d *qmgr.Deliver) {
	if d.Delivery.Transport == qmgr.TransportRetry || d.Delivery.Transport == qmgr.TransportError || w.agentOut(d.Delivery.Transport) {
		w.putOff = d.Delivery
		for _, c := range w.watch.putOffs {
			c.putOff(w, &w.putOff)
		}
		w.soon(action)
		return
	}
	a := w.spareAttempts.Take()
	*a = attempt{plan: a.plan[:0], call: call{client: w.client(d.Delivery.Transport)}, task: task{entry: d.Entry,
		message: w.spool.message(d.Delivery.Envelope.ID), recipients: d.Delivery.Recipients, to: w.nexthops[d.Delivery.Nexthop]}}
	w.begun(&a.task)
	if !w.sabotage.hang() {
		w.answers = append(w.answers, todo{begin: a})
	}
}

// finish ends an attempt: a site failure for the reason given, or, without one,
// with the receiver's verdict on each recipient.
func (w *world) finish(a *attempt, why mail.Reply) {
	if m := a.message; m != nil && m.firstTry == 0 {
		m.firstTry = w.now
	}
	if why.IsZero() {
		w.judge(&a.task, a.host)
	} else {
		w.same(&a.task, mail.Outcome{Result: mail.Deferred, Reply: why})
	}
	w.measure.finished(w, a.to, a.host, !why.IsZero())
	w.ended(&a.task, w.outcomes)
	entry := a.entry
	a.task, a.conn = task{}, nil
	w.spareAttempts.Give(a)
	step(w, qmgr.Delivered{Entry: entry, Result: mail.DeliveryResult{Outcomes: w.outcomes, Site: why}})
}

// agentOut reports whether no agent of a transport can be started now.
func (w *world) agentOut(transport string) bool {
	at := w.now.Sub(w.start)
	for i := range w.scenario.Agents {
		if o := &w.scenario.Agents[i]; o.Transport == transport && at >= o.From && at < o.Until {
			return true
		}
	}
	return false
}

// relay ends a delivery of one of the core's own transports, or of one whose
// agent could not be started.
func (w *world) relay(a *qmgr.Deliver) {
	result, reply, crashed := mail.Deferred, replySoft, false
	switch a.Delivery.Transport {
	case qmgr.TransportRetry:
	case qmgr.TransportError:
		result, reply = mail.Failed, replyHard
	default:
		reply, crashed = replyNoAgent, true
		step(w, qmgr.AgentUnavailable{Transport: a.Delivery.Transport, Reply: reply})
	}
	e := task{recipients: a.Delivery.Recipients}
	w.same(&e, mail.Outcome{Result: result, Reply: reply})
	m := w.spool.message(a.Delivery.Envelope.ID)
	if m != nil {
		m.busy++
	}
	w.settle(m, w.outcomes)
	step(w, qmgr.Delivered{Entry: a.Entry, Result: mail.DeliveryResult{Outcomes: w.outcomes, Crashed: crashed}})
}

// settle notes how a task ended for the recipients of a message.
func (w *world) settle(m *message, outcomes []mail.Outcome) {
	if m == nil {
		return
	}
	m.busy--
	for i := range outcomes {
		o := &outcomes[i]
		if o.Result == mail.Untried {
			continue
		}
		st := &m.states[o.Index]
		first := *st&stateTried == 0
		if first {
			w.spool.untried--
		}
		*st |= stateTried
		switch o.Result {
		case mail.Delivered:
			if *st&stateTaken != 0 {
				w.measure.duplicates++
			}
			*st |= stateDelivered
		case mail.Failed:
			*st |= stateFailed
		}
		w.measure.outcome(w, m, o.Result, first)
	}
}
