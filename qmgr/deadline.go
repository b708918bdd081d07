package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/debts"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
)

// A sender may set a deadline for a message (mail.DeliverBy, RFC 2852). From that instant on no delivery of a
// message with ByReturn starts: the recipients that are not settled are given up, with a report. A message with
// ByNotify goes on as before, and its sender receives one report that it is late.
//
// That happens at the deadline, wherever the message is. Those in core are in a heap. One that is
// put off is due at its deadline at the latest, and the scan of deferred mail finds it then; it is not parked for
// lookups, where no timer would find it. New mail for which the core has no room waits for room first, as it
// does without a deadline; what is late by then is not tried.
//
// Deliveries that are under way are not interrupted, and their results stand. So the change that gives up the others
// names the recipients that it leaves alone, and the report on the others does not wait for these deliveries.
//
// Held mail does not end: while an operator has put a message aside, it is not returned, and its sender receives
// no report. Once it is released, its deadline counts as if it had just passed. Mail that its sender has kept
// (RFC 4865) comes back before its deadline, or it would not have been accepted.

// An overdue is how far the core has come with the deadline of a message.
type overdue uint8

const (
	overdueNot  overdue = iota // it has not passed, or there is none
	overdueDue                 // it has passed, and a change will say so
	overdueDone                // that change was made, or nothing was left to say
	overdues    = iota
)

// overdueTransitions[from][to] reports which changes there are.
var overdueTransitions = [overdues][overdues]bool{
	overdueNot: {overdueDue: true},
	overdueDue: {overdueDone: true},
}

// passes takes a message's deadline to its next state.
func (m *message) passes(to overdue) {
	assert.That(overdueTransitions[m.overdue][to], "the deadline of message %v in state %d cannot come to state %d", m.ID, m.overdue, to)
	m.overdue = to
}

type byDeadline struct{}

func (byDeadline) Before(a, b *message) bool {
	return a.env.By.At < b.env.By.At || a.env.By.At == b.env.By.At && a.serial < b.serial
}

func (byDeadline) Slot(m *message) *minheap.Slot { return &m.deadline }

// hasDeadline reports whether something happens to a message when its deadline passes.
func (m *message) hasDeadline() bool { return m.env.By.Mode == mail.ByReturn || m.env.BecomesLate() }

// awaitDeadline is for a message that comes into core. One that is there for its report alone may be held.
func (q *Qmgr) awaitDeadline(m *message) {
	switch {
	case !m.hasDeadline() || m.forReport():
	case m.env.By.At > q.now:
		q.deadlines.Push(m)
	default:
		m.becomeOverdue() // nothing of it is in a queue yet
	}
}

// runDeadlines deals with the messages in core whose deadlines have passed: with as many as a Step may, or with all
// of them, before something that starts a delivery whatever the Step has done.
func (q *Qmgr) runDeadlines(all bool) {
	for m := q.deadlines.Min(); m != nil && m.env.By.At <= q.now && !q.halt && (all || q.mayStart()); m = q.deadlines.Min() {
		q.deadlines.PopMin()
		q.deadlinePassed(m)
	}
	if all {
		q.stale.Refresh()
	}
}

// deadlineWake is when the next deadline passes.
func (q *Qmgr) deadlineWake() mail.Instant {
	if m := q.deadlines.Min(); m != nil {
		return m.env.By.At
	}
	return mail.Never
}

// deadlinePassed deals with one message. One that leaves with its last change, or by an operator's order, is dealt with when
// it comes back, if it does.
func (q *Qmgr) deadlinePassed(m *message) {
	if !m.becomeOverdue() {
		return
	}
	if m.order == orders.Return {
		q.withdraw(m)
	}
	q.attend(m)
}

// becomeOverdue notes that the deadline of a message has passed, and reports whether anything follows from it.
func (m *message) becomeOverdue() bool {
	if m.stage != stageRunning || m.order != orders.None && m.order != orders.Settle {
		return false
	}
	m.passes(overdueDue)
	if m.env.By.Mode == mail.ByReturn {
		m.order = orders.Return
	}
	return true
}

// sayOverdue makes the change that the passing of a deadline demands, and reports whether it did. The change with
// which recipients are given up waits for what is still being read or routed.
func (q *Qmgr) sayOverdue(m *message) bool {
	if m.env.By.Mode == mail.ByReturn {
		if m.awaits != 0 {
			return false
		}
		m.passes(overdueDone)
		if m.order != orders.Return {
			return false // an operator's order came meanwhile
		}
		q.noteSettled(m)
		if !m.anyLeft() || m.doubt {
			return false
		}
		q.returnRest(m)
		return true
	}
	m.passes(overdueDone)
	if !m.anyLeft() && m.Entries == 0 && m.Unbound == 0 && m.awaits == 0 {
		return false
	}
	m.env.Late = true
	q.emit(Note{Kind: NoteLate, ID: m.ID, Sender: m.env.Sender, Flow: m.env.Flow})
	q.change(m, mail.Change{Op: mail.ChangeLate})
	return true
}

// anyLeft reports whether recipients are left of whom nothing is in core, or who will be tried again.
func (m *message) anyLeft() bool { return m.left || m.retry || m.More }

// returnRest gives up all recipients that are not settled and to whom no delivery is under way.
func (q *Qmgr) returnRest(m *message) {
	m.left, m.retry, m.failed = false, false, true
	m.EndRead()
	if !m.gaveUp { // else some were under way then
		m.gaveUp = true
		q.counts.Expired++
		q.emit(Note{Kind: NoteOverdue, ID: m.ID, Sender: m.env.Sender, Flow: m.env.Flow})
	}
	q.change(m, mail.Change{Op: mail.ChangeExpire, Except: q.underWay(m)})
}

// underWay returns the recipients of a message to whom deliveries are under way.
func (q *Qmgr) underWay(m *message) (list []uint32) {
	if m.Entries == 0 {
		return nil
	}
	for _, v := range q.busy { //archtest:anyorder it is sorted below
		if v.entry.Message == &m.Message {
			for i := range v.entry.Recipients {
				list = append(list, v.entry.Recipients[i].Index)
			}
		}
	}
	slices.Sort(list)
	return list
}

// reportOverdue asks for the report on a message whose deadline has passed, while deliveries of it are under way or
// wait: the round may take long.
func (q *Qmgr) reportOverdue(m *message) {
	switch {
	case q.mayReport():
		q.askReport(m)
	case !m.inLine:
		m.inLine = true
		q.debts.Wait(debts.Stay{ID: m.ID, Serial: m.serial})
	}
}

// reportRunning has those messages advance again that could not be reported on when their deadlines had passed.
func (q *Qmgr) reportRunning() {
	for len(q.debts.Waiting()) > 0 && !q.halt && q.mayReport() && q.mayStart() {
		of := q.debts.NextWaiting()
		if m := q.messages[of.ID]; m != nil && m.serial == of.Serial {
			m.inLine = false
			q.attend(m)
			q.advanceAll()
		}
	}
}

// checkDeadlines panics where an invariant does not hold.
func (q *Qmgr) checkDeadlines() {
	q.deadlines.Check()
	for m := range q.deadlines.All() {
		assert.That(q.messages[m.ID] == m && m.hasDeadline() && m.overdue == overdueNot, "message %v, which waits for its deadline, has state %d", m.ID, m.overdue)
	}
	for _, m := range q.messages { //archtest:anyorder assertions
		if m.stage == stageRunning && m.order == orders.None && m.from != intake.FromDebt && m.hasDeadline() && m.overdue == overdueNot {
			assert.That(m.deadline.Heaped(), "message %v does not wait for its deadline", m.ID)
		}
		assert.That(m.overdue == overdueNot || m.env.By.At <= q.now, "the deadline of message %v has passed at %v, before %v", m.ID, q.now, m.env.By.At)
	}
	inLine := 0
	for _, of := range q.debts.Waiting() {
		if m := q.messages[of.ID]; m != nil && m.serial == of.Serial {
			assert.That(m.inLine, "message %v is in line for a report, and does not know", of.ID)
			inLine++
		}
	}
	for _, m := range q.messages { //archtest:anyorder a sum
		if m.inLine {
			inLine--
		}
	}
	assert.That(inLine == 0, "%d messages too many are in line for a report", inLine)
	for _, v := range q.busy { //archtest:anyorder assertions
		m := messageOf(v.entry.Message)
		assert.That(!m.env.By.Returns(v.started), "a delivery of message %v began at %v, after its deadline of %v", m.ID, v.started, m.env.By.At)
	}
}
