package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
)

// Package debts decides when the reports are made that senders are owed. What is left to the queue manager is which
// messages owe one, and how their rounds end.

// parkedPause is for how long messages are deferred that are not in line because it is too long.
const parkedPause = time.Minute

// reportLimit is the number of messages that may be in core on account of reports.
func (q *Qmgr) reportLimit() int { return max(q.cfg.ActiveLimit/20, 10) }

// mayReport reports whether one more report may be made now.
func (q *Qmgr) mayReport() bool {
	return q.debts.May(q.reportLimit(), q.now)
}

// reportNow reports whether the report on a message whose round ends is made now.
// Postfix always makes it, and so does an order that ends the message's stay.
func (q *Qmgr) reportNow(m *message) bool {
	return q.cfg.AsPostfix || m.from == intake.FromDebt || q.mayReport() || !m.retry && !q.parkable(m)
}

// parkable reports whether nothing is left to do for a message but to report.
func (q *Qmgr) parkable(m *message) bool {
	return !m.retry && !m.left && !m.More && !m.doubt && (m.order == orders.None || m.order == orders.Return)
}

// askReport asks for the report on a message.
func (q *Qmgr) askReport(m *message) {
	m.await(awaitsReport)
	q.debts.Ask(q.now)
	q.emit(Report{ID: m.ID})
}

// park takes a message out of core until it is its turn to be reported on.
func (q *Qmgr) park(m *message) {
	assert.That(len(m.outcomes) == 0, "message %v is parked with %d outcomes that are not durable", m.ID, len(m.outcomes))
	if !q.debts.MayPark() {
		q.deferUntil(m, q.now.Add(parkedPause))
		return
	}
	id := m.ID
	q.forget(m)
	q.debts.Park(id)
}

// settleDebts opens parked messages whose turn has come.
func (q *Qmgr) settleDebts() {
	d := q.debts
	q.reportRunning()
	for d.HasOrdered() && !q.halt && q.room.Any() && q.mayReport() && q.mayStart() {
		id := d.NextOrdered()
		if q.orders.Then(id, func(w *orders.Wish) { w.Report = true }) {
			continue
		}
		if q.rests(id) { // else the round that is under way ends with the report
			q.openOwing(id).order = orders.Settle
		}
	}
	for d.HasParked() && !q.halt && q.room.Any() && q.mayReport() && q.mayStart() {
		id := d.NextParked()
		if !q.rests(id) {
			continue // it is in core or being changed, and still owes the report
		}
		q.openOwing(id)
	}
}

// openOwing opens a message to have it reported on.
func (q *Qmgr) openOwing(id mail.QueueID) *message {
	q.debts.Collect(q.now)
	return q.open(id, intake.FromDebt)
}

// reportOn has a message at rest reported on, if it owes that: what is in core is reported
// on when its round ends.
func (q *Qmgr) reportOn(id mail.QueueID) {
	q.admission.Name(id)
	if q.messages[id] == nil {
		q.debts.Owe(id)
	}
}

// forReport reports whether a message is in core for its report alone.
func (m *message) forReport() bool { return m.from == intake.FromDebt && m.order == orders.Settle }

// debtsWake is when a message is reported on although many reports wait.
func (q *Qmgr) debtsWake() mail.Instant {
	if q.halt {
		return mail.Never
	}
	return q.debts.Wake(q.room.Any())
}

// checkDebts panics if debts are counted wrongly.
func (q *Qmgr) checkDebts() {
	making, letters, collecting := 0, 0, 0
	for _, m := range q.messages { //archtest:anyorder sums
		if m.awaits&awaitsReport != 0 {
			making++
		}
		if m.letter {
			letters++
		}
		if m.from == intake.FromDebt {
			collecting++
		}
	}
	q.debts.Check(making, letters, collecting)
}
