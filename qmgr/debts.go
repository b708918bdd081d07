package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// debts paces the reports that senders are owed. Each report is a message of its
// own, so a flood of failures becomes a flood of mail, nearly always to a few
// hosts: those of the senders. Without a limit such a flood fills the core twice,
// with messages that wait for their report to be made, and with reports that wait
// for a slow host; all other mail would then wait for room.
//
// So reports are asked for only while few messages are in core on their account.
// A message whose turn does not come leaves the core: its outcomes are durable,
// and what it owes is part of them. If nothing else is left to do for it, its ID is
// kept in a line (parked), and it is opened again when its turn comes. If some
// recipient will be tried again, the report is made at the next attempt. A core
// that is started anew finds all of them in the spool.
//
// A slow host must not keep the reports for all other senders waiting, either, so some
// reports are made however many wait for delivery (reportEvery).
type debts struct {
	making     int            // messages whose Report is outstanding
	letters    int            // reports in core: our own, not those that are relayed for others
	collecting int            // messages in core because their turn has come
	last       mail.Instant   // when a report was asked for, or its message opened
	line       []mail.QueueID // parked, oldest first, from head on
	head       int
	parked     map[mail.QueueID]struct{}
	// ordered are messages at rest of which an order has given up some recipients while
	// others wait. They are opened to report, and stay where they are: the others are not
	// to be tried for it, and a held message would have its sender wait for a release.
	ordered []mail.QueueID
	// running are messages in core that go on, and wait for a report because of their deadlines.
	running []stayOf
}

const (
	// parkedMost bounds the line: 100,000 IDs are some 5 MB. Messages that are
	// not in it are deferred for parkedPause.
	parkedMost  = 100_000
	parkedPause = time.Minute
	// reportEvery is the interval at which reports are made although many wait.
	reportEvery = 20 * time.Millisecond
)

// reportLimit is the number of messages that may be in core on account of reports.
func (q *Qmgr) reportLimit() int { return max(q.cfg.ActiveLimit/20, 10) }

// mayReport reports whether one more report may be made now.
func (q *Qmgr) mayReport() bool {
	d := &q.debts
	return d.making+d.collecting+d.letters < q.reportLimit() || q.now >= d.last.Add(reportEvery)
}

// reportNow reports whether the report on a message whose round ends is made now.
// Postfix always makes it, and so does an order that ends the message's stay.
func (q *Qmgr) reportNow(m *message) bool {
	return q.cfg.AsPostfix || m.from == intake.FromDebt || q.mayReport() || !m.retry && !q.parkable(m)
}

// parkable reports whether nothing is left to do for a message but to report.
func (q *Qmgr) parkable(m *message) bool {
	return !m.retry && !m.left && !m.More && !m.doubt && (m.order == orderNone || m.order == orderReturn)
}

// askReport asks for the report on a message.
func (q *Qmgr) askReport(m *message) {
	m.await(awaitsReport)
	q.debts.making++
	q.debts.last = q.now
	q.emit(Report{ID: m.ID})
}

// park takes a message out of core until it is its turn to be reported on.
func (q *Qmgr) park(m *message) {
	assert.That(len(m.outcomes) == 0, "message %v is parked with %d outcomes that are not durable", m.ID, len(m.outcomes))
	d := &q.debts
	if len(d.parked) >= parkedMost {
		q.deferUntil(m, q.now.Add(parkedPause))
		return
	}
	id := m.ID
	q.forget(m)
	d.parked[id] = struct{}{}
	d.line = append(d.line, id)
}

// settleDebts opens parked messages whose turn has come.
func (q *Qmgr) settleDebts() {
	d := &q.debts
	q.reportRunning()
	for len(d.ordered) > 0 && !q.halt && q.hasRoom() && q.mayReport() && q.mayStart() {
		id := d.ordered[0]
		d.ordered = d.ordered[1:]
		if w, moving := q.moving[id]; moving {
			w.report = true
			q.moving[id] = w
		} else if q.rests(id) { // else the round that is under way ends with the report
			q.openOwing(id).order = orderSettle
		}
	}
	for d.head < len(d.line) && !q.halt && q.hasRoom() && q.mayReport() && q.mayStart() {
		id := d.line[d.head]
		d.head++
		delete(d.parked, id)
		if d.head == len(d.line) {
			d.line, d.head = d.line[:0], 0
		}
		if !q.rests(id) {
			continue // it is in core or being changed, and still owes the report
		}
		q.openOwing(id)
	}
	if d.head > len(d.line)/2 {
		d.line, d.head = append(d.line[:0], d.line[d.head:]...), 0
	}
}

// openOwing opens a message to have it reported on.
func (q *Qmgr) openOwing(id mail.QueueID) *message {
	q.debts.collecting++
	q.debts.last = q.now
	return q.open(id, intake.FromDebt)
}

// owe has a message at rest opened for its report alone.
func (q *Qmgr) owe(id mail.QueueID) { q.debts.ordered = append(q.debts.ordered, id) }

// reportOn has a message at rest reported on, if it owes that: what is in core is reported
// on when its round ends.
func (q *Qmgr) reportOn(id mail.QueueID) {
	q.admission.Name(id)
	if q.messages[id] == nil {
		q.owe(id)
	}
}

// forReport reports whether a message is in core for its report alone.
func (m *message) forReport() bool { return m.from == intake.FromDebt && m.order == orderSettle }

// idle reports whether no message waits for its turn to be reported on.
func (d *debts) idle() bool { return d.head == len(d.line) && len(d.ordered) == 0 }

// debtsWake is when a message is reported on although many reports wait.
func (q *Qmgr) debtsWake() mail.Instant {
	if q.halt || len(q.debts.running) == 0 && (q.debts.idle() || !q.hasRoom()) {
		return mail.Never
	}
	return q.debts.last.Add(reportEvery)
}

// check panics where an invariant does not hold.
func (d *debts) check(messages map[mail.QueueID]*message) {
	making, letters, collecting := 0, 0, 0
	for _, m := range messages { //archtest:anyorder sums
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
	assert.That(making == d.making, "%d reports are being made, counted %d", making, d.making)
	assert.That(letters == d.letters, "%d reports are in core, counted %d", letters, d.letters)
	assert.That(collecting == d.collecting, "%d messages are in core for their report, counted %d", collecting, d.collecting)
	assert.That(len(d.line)-d.head == len(d.parked), "%d messages are in line for their report, %d are parked", len(d.line)-d.head, len(d.parked))
}
