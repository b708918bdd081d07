package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
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

// A settling is recipients to be given up, to be put into a message of their own, or to go elsewhere (setroute.go).
type settling struct {
	outcomes []mail.Outcome
	splits   []mail.Split
	reroutes []mail.Reroute
	last     bool // no other recipient waits
}

func (s *settling) add(more settling) {
	s.outcomes = append(s.outcomes, more.outcomes...) // its own: no other message has these
	s.splits = append(s.splits, more.splits...)
	s.reroutes = append(s.reroutes, more.reroutes...)
	s.last = s.last || more.last
}

func (s *settling) empty() bool { return len(s.outcomes)+len(s.splits)+len(s.reroutes) == 0 }

// owes reports whether the sender will get a report of any of them.
func (s *settling) owes() bool {
	return slices.ContainsFunc(s.outcomes, func(o mail.Outcome) bool { return o.Report != mail.ReportNone })
}

// splitOne has some recipients of a message held, wherever it is.
func (q *Qmgr) splitOne(ev Split) {
	if len(ev.Split.Recipients) == 0 {
		return
	}
	assert.That(ev.Split.Into != 0, "recipients of %v are split off into no message", ev.ID)
	ev.Split.Recipients = append([]uint32(nil), ev.Split.Recipients...)
	q.settleOne(ev.ID, settling{splits: []mail.Split{ev.Split}})
}

// settleOne carries out an order for some recipients of a message, wherever it is.
func (q *Qmgr) settleOne(id mail.QueueID, s settling) {
	if s.empty() {
		return
	}
	for i := range s.outcomes {
		o := s.outcomes[i]
		assert.That(o.Result == mail.Failed, "recipient %d of %v would be given up as %v", o.Index, id, o.Result)
	}
	m := q.messages[id]
	switch {
	case m == nil:
		q.settleResting(id, s)
	case m.callout != nil || m.order == orderDrop:
	case m.stage == stageClosing, m.order == orderCorrupt:
		m.again.settling.add(s)
	default:
		m.settling.add(s)
		if m.order == orderNone {
			m.order = orderSettle
			q.withdraw(m)
		}
		q.attend(m)
	}
}

// settleResting does so for a message that is not in core. If none of its recipients
// waits after that, it is opened: it may owe a report, and has to go. If others wait, it
// is opened for the report alone.
func (q *Qmgr) settleResting(id mail.QueueID, s settling) {
	q.admission.Name(id)
	if w, busy := q.moving[id]; busy {
		w.settling.add(s)
		q.moving[id] = w
		return
	}
	w := wish{report: s.owes(), chosen: s.rerouted()}
	if s.last {
		w = wish{order: orderRelease, retry: true}
	}
	q.moving[id] = w
	q.emit(Change{mail.Change{Op: mail.ChangeRecord, ID: id, At: q.now, Outcomes: q.dated(s.outcomes), Reroutes: s.reroutes, Splits: s.splits}})
}

// dated returns outcomes with the present where they have no time.
func (q *Qmgr) dated(outcomes []mail.Outcome) []mail.Outcome {
	list := append([]mail.Outcome(nil), outcomes...)
	for i := range list {
		if list[i].At == 0 {
			list[i].At = q.now
		}
	}
	return list
}

// noteSettled adds what operators have decided to the outcomes of the round, behind
// those of deliveries, which stand. It is not a failure of the message: one from the
// null sender is not held because of it.
func (q *Qmgr) noteSettled(m *message) {
	if m.settling.last && m.order != orderHold && m.again.order == orderNone {
		m.again.order, m.again.retry = orderRelease, true // as in settleResting
	}
	for _, o := range q.dated(m.settling.outcomes) {
		m.outcomes = append(m.outcomes, o)
		m.owed = m.owed || o.Report != mail.ReportNone
	}
	m.splits = append(m.splits, m.settling.splits...)
	m.reroutes = append(m.reroutes, m.settling.reroutes...)
	if m.again.order == orderNone {
		m.again.choose(m.settling.rerouted())
	}
	m.settling = settling{}
}
