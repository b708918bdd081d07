package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// recordAt is the number of outcomes that may wait in core although none of them is
// settled. Settled ones are recorded at once.
const recordAt = 256

// attend has advance look at a message to which something has happened, before the Step
// goes on to something else.
func (q *Qmgr) attend(m *message) {
	if m.attended == 0 {
		q.attended = append(q.attended, m)
		m.attended = len(q.attended)
	}
}

// unattend is for a message that leaves the core: nothing is next for it any more.
func (q *Qmgr) unattend(m *message) {
	if m.attended > 0 {
		q.attended[m.attended-1] = nil
	}
}

// advanceAll does what is next for all messages to which something has happened, and
// carries out what was wished for those that have come to rest.
func (q *Qmgr) advanceAll() {
	if len(q.attended)+q.orders.Wishes() > 0 {
		q.advanceEach()
	}
}

func (q *Qmgr) advanceEach() {
	q.fulfillAll()
	for i := 0; i < len(q.attended); i++ {
		if m := q.attended[i]; m != nil {
			m.attended, q.attended[i] = 0, nil
			q.advance(m)
			q.fulfillAll()
		}
	}
	q.attended = q.attended[:0]
}

// advance does what is next for a message, and nothing while an answer is outstanding
// after which it will be called again.
//
// While recipients are in core, their outcomes are recorded: at most one change
// is under way for a message, and what comes meanwhile goes with the next one.
// When the last recipient is done and nothing is left in the spool, the round
// ends. What a deadline demands does not wait for that.
func (q *Qmgr) advance(m *message) {
	if m.callout != nil {
		q.concluded(m)
		return
	}
	if m.stage != stageRunning {
		return
	}
	q.refill(m)
	if m.awaits&(awaitsChange|awaitsReport) != 0 {
		return
	}
	running := m.Entries > 0 || m.awaits != 0 || m.routing.Len() > 0 || m.More && m.order == orders.None
	switch {
	case m.overdue == overdueDue && q.sayOverdue(m):
	case !running:
		q.endRound(m)
	case m.settled || len(m.outcomes) >= recordAt:
		q.change(m, mail.Change{Op: mail.ChangeRecord})
	case m.overdue == overdueDone && m.debts && q.reportable(m) && !m.unreported:
		q.reportOverdue(m)
	}
}

// endRound closes a message's round, one durable step at a time: first the
// reports that are owed, then giving up what is too old or telling of the
// delay, and at last the message leaves the core.
//
// The last step carries the outcomes that are not recorded yet, so that a
// message with one recipient costs one change. To be parked is no change: what
// is parked has been recorded before.
//
// A report that could not be made stays owed in the spool, and the message is
// deferred as if it had a recipient left: the next round asks for it again.
func (q *Qmgr) endRound(m *message) {
	q.noteSettled(m)
	switch {
	case len(m.splits)+len(m.reroutes) > 0: // before an order for all of it, which was not for these
		q.change(m, mail.Change{Op: mail.ChangeRecord})
	case m.order == orders.Drop:
		q.close(m, mail.Change{Op: mail.ChangeRemove}, NoteDropped, m.reason)
	case m.order == orders.Corrupt:
		q.close(m, mail.Change{Op: mail.ChangeCorrupt, Reason: m.reason}, NoteCorrupt, m.reason)
	case m.order == orders.Return && m.anyLeft() && !m.doubt:
		q.returnRest(m)
	case m.owed && q.reportable(m): // before the report is made, so that it is in it
		q.change(m, mail.Change{Op: mail.ChangeRecord})
	case m.debts && q.reportable(m) && !m.unreported && q.reportNow(m):
		q.askReport(m)
	case m.debts && q.reportable(m) && !m.unreported && q.parkable(m) && len(m.outcomes) > 0:
		q.change(m, mail.Change{Op: mail.ChangeRecord})
	case m.debts && q.reportable(m) && !m.unreported && q.parkable(m):
		q.park(m)
	case (m.order == orders.Settle || m.triedSome() && !q.untouched(m)) && (m.left || m.More || m.forReport() && m.retry):
		// It stays where it is, and the scans find it there if it is its time. Retry means
		// that it could not be opened.
		m.again.Report = m.debts && q.reportable(m) && !m.unreported
		if m.triedSome() && !m.changed && !m.retry && len(m.outcomes) == 0 {
			q.rest(m) // they got the mail, or were given up, before their turn
			return
		}
		if m.retry && !m.forReport() {
			q.deferUntil(m, q.othersDue(m, q.nextAttempt(m))) // or each order would have tried again who was just put off
			return
		}
		if m.chosen == nil {
			m.again.Retry = m.again.Retry || m.from == intake.FromRetry || m.from == intake.FromFlush
		} else if m.order == orders.Settle {
			m.again.Choose(m.chosen)
		}
		m.become(stageClosing)
		q.change(m, mail.Change{Op: mail.ChangeRecord})
	case m.order == orders.Hold && (m.left || m.retry || m.More):
		q.close(m, mail.Change{Op: mail.ChangeHold, Reason: m.reason}, NoteHeld, m.reason)
	case m.doubt:
		q.close(m, mail.Change{Op: mail.ChangeHold, Reason: UnknownReason}, NoteHeld, UnknownReason)
	case q.untouched(m):
		q.rest(m)
	case m.retry && q.isExpired(m):
		q.expire(m)
	case m.retry && q.warnDue(m):
		m.env.Warned = true
		q.change(m, mail.Change{Op: mail.ChangeWarn})
	case m.retry, m.debts && q.reportable(m):
		q.deferUntil(m, q.nextAttempt(m))
	case m.failed && m.env.Sender == "" && q.cfg.DoubleBounce == DoubleBounceHold:
		const why = "double bounce: a report could not be delivered"
		q.close(m, mail.Change{Op: mail.ChangeHold, Reason: why, Due: q.heldUntil()}, NoteHeld, why)
	default:
		q.close(m, mail.Change{Op: mail.ChangeRemove}, NoteRemoved, "")
	}
}

// reportable reports whether there is anybody to report to.
func (q *Qmgr) reportable(m *message) bool {
	return m.env.Sender != "" || q.cfg.DoubleBounce == DoubleBounceReport
}

func (q *Qmgr) isExpired(m *message) bool {
	return backoff.Expired(&q.cfg.Backoff, m.env.Since(), q.now, m.env.Sender == "")
}

func (q *Qmgr) warnDue(m *message) bool {
	return m.env.Sender != "" && backoff.WarnDue(&q.cfg.Backoff, m.env.Since(), q.now, m.env.Warned)
}

func (q *Qmgr) nextAttempt(m *message) mail.Instant {
	if m.warming && !m.unreported {
		return warmup.DayOf(q.now).End()
	}
	if m.suspended && !m.unreported {
		return q.suspendedDue(m)
	}
	cfg := &q.cfg.Backoff
	if m.stuck && !m.unreported {
		sooner := *cfg
		sooner.MinimalBackoffTime = min(sooner.MinimalBackoffTime, stuckPause)
		cfg = &sooner
	}
	next := backoff.Next(cfg, m.env.Since(), q.now, &q.rng)
	if m.suspension.Kept() && !m.unreported {
		next = q.suspended.Due(&m.suspension, next, q.now)
	}
	return next
}

// unsurePause is the shortest time after which a message is sent again of which it is unknown whether a host has it,
// however short minimal_backoff_time is: the host may be about to accept it.
const unsurePause = time.Minute

// unsureUntil is when that time is over, with a mark if the message should have one.
func (q *Qmgr) unsureUntil(m *message) mail.Instant {
	until := q.now.Add(unsurePause)
	if m.suspension.Kept() {
		until = intake.MarkFrom(until)
	}
	return until
}

// expire gives up all recipients that are not settled.
func (q *Qmgr) expire(m *message) {
	m.retry, m.failed = false, true
	q.counts.Expired++
	q.emit(Note{Kind: NoteExpired, ID: m.ID, Sender: m.env.Sender, Flow: m.env.Flow})
	q.change(m, mail.Change{Op: mail.ChangeExpire})
}

// deferUntil puts a message off, but not beyond its deadline.
func (q *Qmgr) deferUntil(m *message, due mail.Instant) {
	if m.unsure { // whatever else it waits for
		due = max(due, q.unsureUntil(m))
	}
	due = q.beforeDeadline(m, due)
	m.become(stageClosing)
	m.put = q.now
	q.emit(Note{Kind: NoteDeferred, ID: m.ID, At: due, Sender: m.env.Sender, Flow: m.env.Flow})
	q.change(m, mail.Change{Op: mail.ChangeDefer, Due: due})
}

// close takes the last step of a round.
func (q *Qmgr) close(m *message, c mail.Change, note NoteKind, text string) {
	m.become(stageClosing)
	q.emit(Note{Kind: note, ID: m.ID, Text: text, Sender: m.env.Sender, Flow: m.env.Flow})
	q.change(m, c)
}

// change makes a step durable, together with all outcomes that are known.
func (q *Qmgr) change(m *message, c mail.Change) {
	c.ID, c.Place, c.At = m.ID, m.place, q.now
	c.Outcomes = m.takeOutcomes()
	q.texts.Release(c.Outcomes)
	c.Reroutes, m.reroutes = m.reroutes, nil
	c.Splits, m.splits = m.splits, nil
	m.changed, m.requeued = true, requeues(&c)
	m.await(awaitsChange)
	q.emit(Change{c})
}

// changed goes on when a step has become durable.
func (q *Qmgr) changed(c mail.Changed) {
	q.requeued(c)
	m := q.messages[c.ID]
	if m == nil {
		q.moved(c)
		return
	}
	if !m.answered(awaitsChange) {
		q.duplicate(c.ID, "changed")
		return
	}
	m.place = c.Place
	m.debts = m.debts || c.Reports
	if c.Place.Area == mail.AreaNone && m.stage == stageRunning {
		if m.requeued {
			q.replaced(m)
		} else {
			q.vanished(m)
		}
		return
	}
	if m.stage == stageClosing {
		q.leave(m)
		return
	}
	q.attend(m)
}

// leave takes a message out of core whose last step is durable.
//
// The scan for a RetryAll that was ordered while the message was being put off may have
// ended by now, without having come upon it in the deferred area.
func (q *Qmgr) leave(m *message) {
	q.admission.Appeared(m.ID, m.place)
	f := q.admission.Flush()
	if m.place.Area == mail.AreaDeferred && m.put > 0 && m.put < f.Asked && m.put >= f.Since && !(m.unsure && f.Since > 0) {
		m.again.Add(orders.Retry, "")
	}
	q.forget(m)
}

// replaced ends a message whose place another one has taken. What operators have ordered for it since then was for that
// one, which has another ID: it is void, as for a message that was delivered meanwhile.
func (q *Qmgr) replaced(m *message) {
	m.again = orders.Wish{}
	q.emit(Note{Kind: NoteRemoved, ID: m.ID, Sender: m.env.Sender, Flow: m.env.Flow})
	q.forget(m)
}

// vanished deals with a message that was taken out of the spool while
// it was in core: nothing more is started for it.
func (q *Qmgr) vanished(m *message) {
	m.order, m.reason = orders.Drop, "it is not in the spool any more"
	m.EndRead()
	q.withdraw(m)
	q.attend(m)
}

func (q *Qmgr) reported(ev Reported) {
	m := q.messages[ev.ID]
	if m == nil || !m.answered(awaitsReport) {
		q.duplicate(ev.ID, "reported")
		return
	}
	m.debts = false
	q.debts.Answered()
	q.counts.Reports++
	q.attend(m)
}

// broken deals with a message that cannot be read.
func (q *Qmgr) broken(ev Broken) {
	m := q.messages[ev.ID]
	if m == nil || m.awaits&(awaitsOpen|awaitsRead|awaitsReport) == 0 {
		q.duplicate(ev.ID, "broken")
		return
	}
	opening := m.answered(awaitsOpen)
	if m.answered(awaitsRead) {
		m.Reading = false
		q.room.Reserve(&m.Message, 0)
	}
	if m.answered(awaitsReport) {
		q.debts.Answered()
		if ev.Why == TroubleTemporary {
			m.unreported = true
			q.attend(m)
			return
		}
	}
	if ev.Why == TroubleGone && opening {
		q.forget(m)
		return
	}
	m.EndRead()
	m.become(stageRunning)
	switch ev.Why {
	case TroubleGone:
		q.vanished(m)
	case TroubleTemporary:
		m.retry, m.stuck, m.warming, m.suspended = true, false, false, false
		q.attend(m)
	case TroubleCorrupt:
		q.withdraw(m)
		m.order, m.reason = orders.Corrupt, ev.Text
		q.attend(m)
	default:
		assert.Unreachable("message %v is broken because of %d", ev.ID, ev.Why)
	}
}
