package qmgr

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A Scan is one of the ways through the spool's indexes that the core follows (package
// intake).
type Scan = intake.Scan

// The scans are explained in package intake.
const (
	ScanIncoming = intake.ScanIncoming
	ScanDeferred = intake.ScanDeferred
	ScanFlush    = intake.ScanFlush
	ScanWarmup   = intake.ScanWarmup
	ScanResume   = intake.ScanResume
	ScanHeld     = intake.ScanHeld
)

// Behind reports whether new mail waits in the spool because the core is full: delivery has
// fallen behind, and intake should be slowed down. It is not because one bucket has its part
// of the core: that is no reason to slow others down.
func (q *Qmgr) Behind() bool { return q.admission.Waiting() && !q.room.Any() }

// arrived admits a message at once if nothing older waits; else the scan will
// find it.
func (q *Qmgr) arrived(a mail.Arrival) {
	q.counts.Arrived++
	id := a.Envelope.ID
	if q.messages[id] != nil {
		return // the scan was faster
	}
	if a.Place.Area == mail.AreaHold {
		q.admission.Appeared(id, a.Place)
		return
	}
	free := q.room.Free()
	if q.halt {
		free = 0
	}
	if q.admission.Announced(id, a.Place.Bucket, free) {
		q.enter(q.newMessage(id, intake.FromIncoming), a.Envelope, a.Place, a.Batch)
	}
}

// admit opens messages while there is room, one scan after the other, and
// fetches more names when a scan runs out of them.
func (q *Qmgr) admit() {
	if q.halt {
		return
	}
	if q.admission.Due(ScanDeferred, q.now) {
		q.admission.Look(ScanDeferred, q.now)
	}
	for q.admission.HasAny() && q.room.Any() && q.started < q.cfg.ActionsPerStep {
		if !q.openOne() {
			break
		}
	}
	if q.room.Any() && q.started >= q.cfg.ActionsPerStep {
		q.leftover = true
	}
	for s := range ScanHeld {
		// Where buckets share the core, each has something found for its turn.
		for q.admission.MayFetch(s) && (q.room.For(s, q.admission.Shared()) || q.admission.Shared()) {
			q.fetch(s)
		}
	}
}

// openOne opens one message, of the scan whose turn it is if that has one.
func (q *Qmgr) openOne() bool {
	for range ScanHeld { // the scans before it
		s := q.admission.Turn()
		if !q.room.For(s, q.admission.Shared()) {
			continue
		}
		for c, ok := q.admission.Take(s, q.room.Free()); ok; c, ok = q.admission.Take(s, q.room.Free()) {
			var chosen orders.Indexes // nil: all
			if c.Some {
				chosen, c.Asked = q.orders.TakeChosen(c.ID)
			}
			if q.rests(c.ID) {
				q.started++
				m := q.open(c.ID, c.Origin)
				m.chosen, m.asked = chosen, c.Asked
				q.account(m, c.Account)
				return true
			}
			if s == ScanFlush {
				q.retryMoved(&c, chosen)
			}
		}
	}
	return false
}

// open asks for a message that is to come into core.
func (q *Qmgr) open(id mail.QueueID, from intake.Origin) *message {
	m := q.newMessage(id, from)
	m.await(awaitsOpen)
	q.emit(Open{ID: id, Max: q.room.FirstRead(&m.Message)})
	return m
}

// retryMoved has a message, or those of its recipients that are chosen, tried as soon as it can be: it is being
// changed at rest, is in core for its report or for some of its recipients alone, or is parked for lookups.
func (q *Qmgr) retryMoved(c *intake.Candidate, chosen orders.Indexes) {
	q.lookups.RetryParked(c.ID)
	if m := q.messages[c.ID]; m != nil && (m.forReport() || m.chosen != nil) {
		retryOf(&m.again, c, chosen)
	}
	q.orders.Then(c.ID, func(w *orders.Wish) { retryOf(w, c, chosen) })
}

// account has a message counted in its bucket; nil if that is not known.
func (q *Qmgr) account(m *message, a *intake.Account) {
	if m.account = a; a != nil {
		q.admission.Enter(a)
	}
}

// rests reports whether a message is neither in core nor being moved, nor parked.
func (q *Qmgr) rests(id mail.QueueID) bool {
	return q.messages[id] == nil && !q.orders.Moving(id) && !q.debts.IsParked(id) && !q.lookups.IsParked(id)
}

func (q *Qmgr) fetch(s Scan) {
	if from, most, ok := q.admission.Fetch(s); ok {
		q.emit(Fetch{Scan: s, From: from, Max: most})
	}
}

func (q *Qmgr) found(ev Found) {
	if !q.admission.Found(ev.Scan, ev.Found) {
		q.duplicate(0, "found")
		return
	}
	if ev.Scan == ScanDeferred && !ev.Found.More {
		q.rescueFuture(ev.Found.Next.Bucket, ev.Found.NextDue)
		for _, c := range ev.Found.Buckets {
			q.rescueFuture(c.Bucket, c.Due)
		}
	}
}

// rescueFuture looks at deferred mail if all of a bucket is due later than a retry schedule says: the clock may have been
// ahead when it was deferred. What has evidence of that is tried now (putOffByWrongClock). The rest keeps its time,
// which a longer maximal_backoff_time may have given. Where sources are chosen, mail may wait for their next day.
func (q *Qmgr) rescueFuture(bucket mail.Bucket, due mail.Instant) {
	latest := q.now.Add(max(q.cfg.Backoff.MinimalBackoffTime, q.cfg.Backoff.MaximalBackoffTime, unsurePause))
	if q.sources.HasPools() {
		latest = max(latest, q.warmupDue())
	}
	if intake.Marked(due) { // a suspension may have given it, for as long as the message lives
		latest = q.now.Add(longestRest(&q.cfg.Backoff) + time.Hour)
	}
	if due != mail.Never && due > latest && q.admission.MayRescue(bucket) {
		q.admission.Rescue(bucket, due)
	}
}

// putOffByWrongClock reports whether the clock was ahead when a message was deferred: its last attempt is yet to come, or it is due
// later than any configuration would have it wait. The latter is for what was released by such a clock, and not tried.
func (q *Qmgr) putOffByWrongClock(e *mail.Envelope, place mail.Place) bool {
	b := &q.cfg.Backoff
	return e.LastAttempt > q.now || place.Due > q.now.Add(max(longestRest(b), b.MinimalBackoffTime, b.MaximalBackoffTime)+time.Hour)
}

// newMessage puts a message into core.
func (q *Qmgr) newMessage(id mail.QueueID, from intake.Origin) *message {
	assert.That(q.messages[id] == nil, "message %v is in core already", id)
	m := q.stocks.messages.Take()
	q.serial++
	m.serial = q.serial
	m.ID, m.Owner, m.Queued = id, m, q.now
	m.from = from
	q.room.Comes(from)
	m.Own, m.Limit = q.cfg.RecipientMinimum, q.cfg.RecipientMinimum
	switch from {
	case intake.FromFlush:
		m.reset = q.admission.Flush().Reset
	case intake.FromRetry:
		m.reset = q.conns.ResetRetries()
	case intake.FromWarmup:
		q.warmups.Read()
	}
	q.messages[id] = m
	return m
}

// opened takes a message that was asked for, unless it is not wanted any more.
func (q *Qmgr) opened(ev Opened) {
	m := q.messages[ev.Envelope.ID]
	if m == nil || !m.answered(awaitsOpen) {
		q.duplicate(ev.Envelope.ID, "opened")
		return
	}
	if !q.wanted(m, ev) {
		// Another scan may have passed it by because it was in core.
		q.admission.Appeared(m.ID, ev.Place)
		q.forget(m)
		return
	}
	q.enter(m, ev.Envelope, ev.Place, ev.Batch)
}

// wanted reports whether an opened message is still what its scan looked for: it
// may have been moved between Fetch and Open.
func (q *Qmgr) wanted(m *message, ev Opened) bool {
	if m.order != orders.None {
		return true // an operator's order wants it wherever it is
	}
	switch m.from {
	case intake.FromIncoming:
		return ev.Place.Area == mail.AreaIncoming
	case intake.FromDeferred:
		return ev.Place.Area == mail.AreaDeferred && ev.Place.Due <= q.now
	case intake.FromFlush:
		flush := q.admission.Flush()
		switch {
		case ev.Place.Area != mail.AreaDeferred:
			return false
		case flush.Since > 0 && q.doubtedLately(ev): // no operator has asked for it
			return false
		}
		return flush.Wants(ev.Envelope.LastAttempt, q.now) || q.putOffByWrongClock(&ev.Envelope, ev.Place)
	case intake.FromRetry:
		if ev.Place.Area == mail.AreaDeferred && intake.Tried(m.asked, ev.Envelope.LastAttempt, q.now) {
			return false
		}
	case intake.FromResume:
		return ev.Place.Area == mail.AreaDeferred && (intake.Marked(ev.Place.Due) || ev.Place.Due <= q.now)
	case intake.FromWarmup:
		return ev.Place.Area == mail.AreaDeferred && (ev.Place.Due == q.warmupDue() || ev.Place.Due <= q.now)
	}
	return ev.Place.Area == mail.AreaDeferred || ev.Place.Area == mail.AreaIncoming
}

// doubtedLately reports whether a message was tried last so short a time ago that a host may be about to accept it, of
// which it is unknown for some of the first recipients whether a host has it: since that attempt or an earlier one.
func (q *Qmgr) doubtedLately(ev Opened) bool {
	last := ev.Envelope.LastAttempt
	return last <= q.now && q.now < last.Add(unsurePause) && slices.ContainsFunc(ev.Batch.Recipients, func(r mail.Recipient) bool { return len(r.Doubts.All()) > 0 })
}

// enter starts a message's round.
func (q *Qmgr) enter(m *message, e mail.Envelope, place mail.Place, batch mail.RecipientBatch) {
	m.become(stageRunning)
	m.env, m.place = e, place
	if m.account == nil {
		q.account(m, q.admission.Account(place.Bucket))
	}
	q.suspended.Comes(&m.suspension, place, q.now)
	if !q.cfg.AsPostfix {
		m.flow = q.flows.Join(e.Flow)
	}
	if m.again.Order == orders.Release && place.Area != mail.AreaHold {
		m.again.Order = orders.None // it was not held; what holds it later is not to be undone
	}
	m.Queued, m.debts = q.now, place.Owes
	m.failed = place.Owes && e.Sender == "" // with the null sender only a failure stays owed
	if m.letter = e.IsReport(); m.letter {
		q.debts.LetterComes()
	}
	q.awaitDeadline(m)
	q.takeBatch(m, cut(batch, q.room.FirstRead(&m.Message)))
	q.attend(m)
}

// forget takes a message out of core; it rests in the spool, or is gone.
func (q *Qmgr) forget(m *message) {
	assert.That(m.Entries == 0 && m.awaits == 0 && m.routing.Len() == 0, "message %v leaves with %d entries and %d recipients that are looked up, awaiting %b",
		m.ID, m.Entries, m.routing.Len(), m.awaits)
	q.hold(m, -m.InCore)
	q.texts.Release(m.outcomes)
	m.routing.Disown()
	if m.letter {
		q.debts.LetterLeaves()
	}
	if m.from == intake.FromDebt {
		q.debts.Collected()
	}
	q.room.Leaves(m.from)
	if m.account != nil {
		q.admission.Leave(m.account)
	}
	if m.deadline.Heaped() {
		q.deadlines.Remove(m)
	}
	q.suspended.Leaves(&m.suspension, m.place, q.now)
	delete(q.messages, m.ID)
	q.unattend(m)
	if p := q.paused; p.Of(&m.Message) {
		q.paused = sched.Pause{}
		q.endDelay(transportOf(p.Lane()))
	}
	if !m.again.Empty() {
		q.orders.Wish(m.ID, m.place, m.again)
	}
	f := m.flow
	q.stocks.giveMessage(m)
	q.flows.Part(f)
}
