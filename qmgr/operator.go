package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// orderAll carries out an operator's order for messages wherever they are.
func (q *Qmgr) orderAll(ids []mail.QueueID, o orders.Order, reason string) {
	for _, id := range ids {
		q.orderOne(id, o, reason)
	}
}

func (q *Qmgr) orderOne(id mail.QueueID, o orders.Order, reason string) {
	m := q.messages[id]
	switch {
	case m == nil:
		q.orderResting(id, o, reason)
	case m.callout != nil:
		if o == orders.Hold || o == orders.Drop {
			q.giveUp(m)
		}
	case m.stage == stageClosing:
		// It leaves with what was decided; then the order finds it at rest.
		m.again.Add(o, reason)
	case m.order == orders.Corrupt && o != orders.Drop:
		// Recipients that could not be read are not known to be left: only the
		// corrupt area keeps them.
		m.again.Add(o, reason)
	case o == orders.Hold || o == orders.Drop:
		m.order, m.reason, m.again = o, reason, orders.Wish{}
		q.withdraw(m)
		q.attend(m)
	case o == orders.Release && (m.stage == stageOpening || m.place.Area == mail.AreaHold):
		// It is, or may be, held: it is opened for its report, or because of a retry.
		m.again.Add(o, reason)
	case m.order == orders.Hold:
		m.again.Add(o, reason) // it is on its way to the hold area
	case o == orders.Retry && (m.forReport() || m.chosen != nil && m.stage == stageRunning):
		m.again.Add(o, reason)
	case o == orders.Retry:
		if m.stage == stageOpening && m.from != intake.FromDebt {
			q.room.Leaves(m.from)
			m.from = intake.FromRetry
			q.room.Comes(m.from)
			m.asked = q.now
			m.reset, m.chosen = q.conns.ResetRetries(), nil
		}
		q.reviveFor(m)
	}
}

// fulfillAll carries out what was wished for messages that are at rest now.
func (q *Qmgr) fulfillAll() {
	for q.orders.Wishes() > 0 {
		id, w := q.orders.Next()
		q.fulfill(id, w)
	}
}

// fulfill carries out what was wished for a message that is at rest now.
func (q *Qmgr) fulfill(id mail.QueueID, w orders.Wish) {
	q.settleOne(id, w.Settling)
	if w.Order != orders.None {
		q.orderOne(id, w.Order, w.Reason)
	}
	switch {
	case w.Retry:
		q.orderOne(id, orders.Retry, "")
	case len(w.Chosen) > 0:
		q.retrySome(id, w.Chosen)
	}
	if w.Report {
		q.debts.Owe(id)
	}
}

// orderResting carries out an order for a message that is not in core.
func (q *Qmgr) orderResting(id mail.QueueID, o orders.Order, reason string) {
	q.admission.Name(id)
	if q.orders.Then(id, func(w *orders.Wish) { w.Add(o, reason) }) {
		return
	}
	if o == orders.Retry {
		q.admission.Retry(id, q.now)
		return
	}
	q.orders.Begin(id, orders.Wish{})
	if o == orders.Drop {
		q.emit(Note{Kind: NoteDropped, ID: id, Text: reason})
	}
	q.emit(Change{orders.Change(id, o, reason, q.now)})
}

// moved takes the answer to the change of a resting message.
func (q *Qmgr) moved(c mail.Changed) {
	switch q.orders.Moved(c.ID, c.Place) {
	case orders.EndUnknown:
		q.duplicate(c.ID, "changed")
		return
	case orders.EndRemoved:
		q.emit(Note{Kind: NoteExpired, ID: c.ID, Text: lapsed})
	case orders.EndReleased:
		q.emit(Note{Kind: NoteReleased, ID: c.ID})
	}
	if c.Place.Area != mail.AreaNone {
		q.admission.Appeared(c.ID, c.Place)
	}
}

// withdraw takes back everything of a message that has not been started. Its
// recipients stay as they are in the spool.
func (q *Qmgr) withdraw(m *message) {
	m.left = m.left || m.More || len(m.unrouted) > 0
	q.withdrawLookups(m)
	for e := range m.Waiting() {
		m.left = true
		q.finish(e)
	}
	m.RetireIdle()
}

// retryTriedSince forgets all dead transports and destinations, and starts a scan of
// everything that is deferred and was tried last at an instant or later. A scan that is
// under way begins again. An instant other than 0 is not given then, since that scan
// might want more.
func (q *Qmgr) retryTriedSince(since mail.Instant) {
	reset := q.conns.ResetRetries()
	for t := range q.ring.All() {
		q.restore(t)
		for _, d := range sortedQueues(t) {
			if d.window.State() == window.Dead && (since == 0 || !d.resting(q.now)) { // our own network's return ends no rest
				d.reset = reset
				q.revive(d, CauseRevival)
				q.freeIfIdle(d)
			}
		}
	}
	assert.That(since == 0 || !q.admission.UnderWay(ScanFlush), "a scan for what was tried since %v takes the place of another", since)
	if since == 0 {
		q.endRests()
	}
	q.admission.FlushAll(intake.Flush{Asked: q.now, Since: since, Reset: reset})
}

// reviveFor forgets that transports and destinations of a message are dead.
func (q *Qmgr) reviveFor(m *message) {
	reset := q.conns.ResetRetries()
	for l := range m.Lanes() {
		q.restore(transportOf(l))
	}
	for p := range m.Peers() {
		if d := queueOf(p.Destination); d.window.State() == window.Dead {
			d.reset = reset
			q.revive(d, CauseRevival)
		}
	}
}
