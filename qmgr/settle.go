package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
)

// An operator's order can be for some recipients of a message. They are given up by a
// change as any other outcome is recorded, so that the spool keeps what it knows
// already: a recipient who has been served stays so.
//
// A message at rest is changed where it lies. One that is in core first ends its round
// as for a hold: what has not been started is taken back, what is under way ends, the
// change is the round's last one, and the message comes back with the recipients that
// are left: at once, unless one of them was deferred in this round. Then it waits for its
// next attempt, as hosts are not to be asked again for an order about others.
//
// Taking recipients out of entries, routing and lookups
// instead would save the others that detour, at the price of a second way out for
// each of them.

// Recipients that an order holds without the others go the same way: the change splits
// them off. A mark "held" for each recipient was considered instead. Everything that
// asks whether a message has recipients left would have to ask a second question, in core
// and spool, and a message would rest in two areas at once; a message of their own can be
// listed, released and dropped like any other.

// A requeue goes the same way. Its new message takes the place of the one that it was made of: it is
// not held, and the core gets to know of it by the answer to the change (mail.Changed.Requeued), like of any other message at
// rest that is due. The original leaves with that change if nothing of it is left.

// splitOne has some recipients of a message held or requeued, wherever it is.
func (q *Qmgr) splitOne(ev Split) {
	if len(ev.Split.Recipients) == 0 {
		return
	}
	assert.That(ev.Split.Into != 0, "recipients of %v are split off into no message", ev.ID)
	ev.Split.Recipients = slices.Clone(ev.Split.Recipients)
	if ev.Split.Requeue != nil {
		r := *ev.Split.Requeue
		r.To = slices.Clone(r.To)
		ev.Split.Requeue = &r
	}
	q.settleOne(ev.ID, orders.Settling{Splits: []mail.Split{ev.Split}, Last: ev.Last && ev.Split.Requeue != nil})
}

// settleOne carries out an order for some recipients of a message, wherever it is.
func (q *Qmgr) settleOne(id mail.QueueID, s orders.Settling) {
	if s.Empty() {
		return
	}
	for i := range s.Outcomes {
		o := s.Outcomes[i]
		assert.That(o.Result == mail.Failed, "recipient %d of %v would be given up as %v", o.Index, id, o.Result)
	}
	m := q.messages[id]
	switch {
	case m == nil:
		q.settleResting(id, s)
	case m.callout != nil || m.order == orders.Drop:
	case m.stage == stageClosing, m.order == orders.Corrupt:
		m.again.Settling.Add(s)
	default:
		m.settling.Add(s)
		if m.order == orders.None {
			m.order = orders.Settle
			q.withdraw(m)
		}
		q.attend(m)
	}
}

// settleResting does so for a message that is not in core. If none of its recipients
// waits after that, it is opened: it may owe a report, and has to go. If others wait, it
// is opened for the report alone.
func (q *Qmgr) settleResting(id mail.QueueID, s orders.Settling) {
	q.admission.Name(id)
	if q.orders.Then(id, func(w *orders.Wish) { w.Settling.Add(s) }) {
		return
	}
	w := orders.Wish{Report: s.Owes(), Chosen: s.Rerouted()}
	if s.Last {
		w = orders.Wish{Order: orders.Release, Retry: true}
	}
	q.orders.Begin(id, w)
	q.emit(Change{mail.Change{Op: mail.ChangeRecord, ID: id, At: q.now, Outcomes: s.Dated(q.now), Reroutes: s.Reroutes, Splits: s.Splits}})
}

// noteSettled adds what operators have decided to the outcomes of the round, behind
// those of deliveries, which stand. It is not a failure of the message: one from the
// null sender is not held because of it.
func (q *Qmgr) noteSettled(m *message) {
	if m.settling.Empty() && !m.settling.Last {
		return // as nearly always
	}
	if m.settling.Last && m.order != orders.Hold && m.again.Order == orders.None {
		m.again.Order, m.again.Retry = orders.Release, true // as in settleResting
	}
	for _, o := range m.settling.Dated(q.now) {
		m.outcomes = append(m.outcomes, o)
		m.owed = m.owed || o.Report != mail.ReportNone
	}
	m.splits = append(m.splits, m.settling.Splits...)
	m.reroutes = append(m.reroutes, m.settling.Reroutes...)
	if m.again.Order == orders.None {
		m.again.Choose(m.settling.Rerouted())
	}
	m.settling = orders.Settling{}
}

// requeued takes the messages that a change has put in the place of another one.
func (q *Qmgr) requeued(c mail.Changed) {
	for i := range c.Requeued {
		q.admission.Appeared(c.Requeued[i].ID, c.Requeued[i].Place)
	}
}

// requeues reports whether a change puts other messages in the place of one.
func requeues(c *mail.Change) bool {
	return slices.ContainsFunc(c.Splits, func(s mail.Split) bool { return s.Requeue != nil })
}
