package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// admission is how messages come into core: by being told of (Arrived) while
// there is room and nothing older waits, else through three scans of the
// spool's indexes. The scans take turns, so that neither new mail nor retries
// starve. A fourth scan is for held mail that is to be removed, which does not come
// into core (lapse.go).
type admission struct {
	scans [scans]scan
	turn  Scan
	// named is the youngest message that an operator has given an order about while
	// it was not in core: no scan has been past it, and yet it may be elsewhere by
	// the time its hint comes.
	named mail.QueueID
	// flushed is when RetryAll was asked for: what has been tried since then is
	// not tried again by that scan. Nor is what was tried last before flushSince.
	flushed, flushSince mail.Instant
	amnesty             uint64       // for hosts, when RetryAll was asked for; 0: never
	lapsing             int          // removals of held mail that are being made durable
	begun               bool         // there was a Step
	firstLapse          mail.Instant // begun: when to look for held mail to be removed first; Never if that was done
}

// A scan is a way through one index. Messages behind the cursor are in core,
// or done, or will be told of again.
type scan struct {
	from     mail.Cursor
	fetching bool
	low      mail.Cursor   // fetching: the first of what has appeared meanwhile
	missed   bool          // fetching: low is set
	more     bool          // there may be something at from or behind
	nextDue  mail.Instant  // if the scan is Timed, more false: when there will be
	found    []mail.Cursor // fetched and not yet opened
	force    []mail.QueueID
}

// fetchMax is how many messages a Fetch asks for. It bounds what is read in
// vain when the active limit is reached in between.
const fetchMax = 256

func newAdmission() admission {
	var a admission
	for s := range a.scans {
		a.scans[s].nextDue = mail.Never
	}
	a.scans[ScanIncoming].more = true
	a.scans[ScanDeferred].more = true
	a.scans[ScanHeld].from = heldFrom
	return a
}

// wake returns when admission has something to do without a further event.
func (a *admission) wake(room bool) mail.Instant {
	lapse := a.scans[ScanHeld].nextDue
	if !room {
		return lapse // a message that leaves makes room, by an event
	}
	return min(lapse, a.scans[ScanDeferred].nextDue)
}

// idle tells whether no scan has come upon anything that is left to do, or may
// yet.
func (a *admission) idle() bool {
	for i := range a.scans {
		s := &a.scans[i]
		if s.fetching || s.more || len(s.found) > 0 || len(s.force) > 0 || s.nextDue != mail.Never && Scan(i) != ScanHeld {
			return false
		}
	}
	return true
}

// underWay tells whether a scan has not come to its end.
func (s *scan) underWay() bool { return s.more || s.fetching || len(s.found) > 0 }

// back makes sure that a scan will come to a cursor.
func (s *scan) back(c mail.Cursor) {
	switch {
	case !s.fetching:
		if c.Before(s.from) {
			s.from = c
		}
	case !s.missed || c.Before(s.low):
		s.low, s.missed = c, true
	}
}

// advance moves a scan to where a Fetch has come, or back to what has appeared
// before that place while the Fetch was under way: it may not have been seen.
func (s *scan) advance(f mail.Found) {
	s.fetching = false
	s.from = f.Next
	s.more = s.more || f.More
	if s.missed && s.low.Before(s.from) {
		s.from, s.more = s.low, true
	}
	s.missed = false
}

// appeared makes sure that the scans come to a message that rests in the spool
// now: it was put there, or it was passed by because a change of it was under
// way.
func (a *admission) appeared(id mail.QueueID, at mail.Place) {
	switch at.Area {
	case mail.AreaIncoming:
		s := &a.scans[ScanIncoming]
		s.back(mail.Cursor{ID: id})
		s.more = true
	case mail.AreaDeferred:
		s := &a.scans[ScanDeferred]
		s.back(mail.Cursor{Due: at.Due, ID: id})
		s.nextDue = min(s.nextDue, at.Due)
	case mail.AreaHold:
		if at.Due > 0 {
			s := &a.scans[ScanHeld]
			s.back(mail.Cursor{Due: at.Due, ID: id})
			s.nextDue = min(s.nextDue, at.Due)
		}
	}
}

// mails is how many messages are in core that are mail.
func (q *Qmgr) mails() int { return len(q.messages) - q.calling.inCore() }

// hasRoom reports whether one more message may come into core.
func (q *Qmgr) hasRoom() bool {
	if q.mails() >= q.cfg.ActiveLimit {
		return false
	}
	return !q.roundRobin() || q.cfg.AsPostfix || q.recipients < q.cfg.RecipientLimit
}

// roomFor reports whether one more message of a scan may come into core. A
// quarter of the room is for new mail alone: a backlog that comes back at once
// delays new mail by its share of the deliveries, not by its length.
func (q *Qmgr) roomFor(s Scan) bool {
	if s == ScanIncoming || q.cfg.AsPostfix {
		return q.hasRoom()
	}
	const part = 4
	return q.mails() < q.cfg.ActiveLimit-q.cfg.ActiveLimit/part &&
		(!q.roundRobin() || q.recipients < q.cfg.RecipientLimit-q.cfg.RecipientLimit/part)
}

// Behind tells whether new mail waits in the spool because the core is full:
// delivery has fallen behind, and intake should be slowed down.
func (q *Qmgr) Behind() bool { return q.admission.scans[ScanIncoming].more && !q.hasRoom() }

// arrived admits a message at once if nothing older waits; else the scan will
// find it.
func (q *Qmgr) arrived(a mail.Arrival) {
	q.counts.Arrived++
	id := a.Envelope.ID
	if q.messages[id] != nil {
		return // the scan was faster
	}
	s := &q.admission.scans[ScanIncoming]
	at := mail.Cursor{ID: id}
	// The hint may be late: if the scan has been past that place, or an operator has
	// named the message, it may have been delivered and be gone by now, or be held.
	// Then only the spool can tell.
	if s.more || len(s.found) > 0 || at.Before(s.from) || id <= q.admission.named || q.halt || !q.hasRoom() {
		s.more = true
		s.back(at)
		return
	}
	m := q.newMessage(id, originIncoming)
	q.enter(m, a.Envelope, a.Place, a.Batch)
}

// admit opens messages while there is room, one scan after the other, and
// fetches more names when a scan runs out of them.
func (q *Qmgr) admit() {
	if q.halt {
		return
	}
	a := &q.admission
	deferred := &a.scans[ScanDeferred]
	if deferred.nextDue <= q.now {
		deferred.more, deferred.nextDue = true, mail.Never
	}
	for q.hasRoom() && q.started < q.cfg.ActionsPerStep {
		if !q.openOne() {
			break
		}
	}
	if q.hasRoom() && q.started >= q.cfg.ActionsPerStep {
		q.leftover = true
	}
	if !q.hasRoom() {
		return
	}
	for s := range ScanHeld {
		q.fetch(s)
	}
}

// openOne opens one message, of the scan whose turn it is if that has one.
func (q *Qmgr) openOne() bool {
	a := &q.admission
	for range ScanHeld { // the scans before it
		s := a.turn
		a.turn = (a.turn + 1) % ScanHeld
		if id, from, ok := q.take(s); ok {
			q.started++
			m := q.newMessage(id, from)
			m.await(awaitsOpen)
			q.emit(Open{ID: id, Max: q.firstRead(m)})
			return true
		}
	}
	return false
}

// take returns the next message of a scan that is not in core already.
func (q *Qmgr) take(s Scan) (mail.QueueID, origin, bool) {
	sc := &q.admission.scans[s]
	if !q.roomFor(s) {
		return 0, 0, false
	}
	for len(sc.force) > 0 {
		id := sc.force[0]
		sc.force = sc.force[1:]
		if q.free(id) {
			return id, originRetry, true
		}
		q.retryMoved(id)
	}
	for len(sc.found) > 0 {
		id := sc.found[0].ID
		sc.found = sc.found[1:]
		if q.free(id) {
			return id, origin(s), true
		}
		if s == ScanFlush {
			q.retryMoved(id)
		}
	}
	return 0, 0, false
}

// retryMoved has a message that is to be tried, and is just being changed at rest, is in
// core for its report or is parked for look-ups, tried after that.
func (q *Qmgr) retryMoved(id mail.QueueID) {
	if a := q.lookups.parked.known[id]; a != nil {
		a.from = originRetry // it asks again, whatever the name servers were like
	}
	if m := q.messages[id]; m != nil && m.forReport() {
		m.again.add(orderRetry, "")
	}
	if w, moving := q.moving[id]; moving {
		w.add(orderRetry, "")
		q.moving[id] = w
	}
}

// free tells whether a message is neither in core nor being moved, nor parked.
func (q *Qmgr) free(id mail.QueueID) bool {
	_, moving := q.moving[id]
	_, owing := q.debts.parked[id]
	return q.messages[id] == nil && !moving && !owing && q.lookups.parked.known[id] == nil
}

func (q *Qmgr) fetch(s Scan) {
	sc := &q.admission.scans[s]
	if sc.fetching || !sc.more || len(sc.found) > 0 || s != ScanHeld && !q.roomFor(s) {
		return
	}
	sc.fetching = true
	sc.more = false
	q.emit(Fetch{Scan: s, From: sc.from, Max: fetchMax})
}

func (q *Qmgr) found(ev Found) {
	s := &q.admission.scans[ev.Scan]
	if !s.fetching {
		q.duplicate(0, "found")
		return
	}
	s.advance(ev.Found)
	s.found = append(s.found[:0], ev.Found.Cursors...)
	if ev.Scan.Timed() && !ev.Found.More {
		s.nextDue = min(s.nextDue, ev.Found.NextDue)
	}
	if ev.Scan == ScanDeferred && !ev.Found.More {
		q.rescueFuture(ev.Found.NextDue)
	}
}

// rescueFuture looks at deferred mail whose due time no retry schedule can have
// given: the clock was ahead when it was deferred. It is tried now.
func (q *Qmgr) rescueFuture(due mail.Instant) {
	flush := &q.admission.scans[ScanFlush]
	if due == mail.Never || due <= q.now.Add(max(q.cfg.Backoff.MinimalBackoffTime, q.cfg.Backoff.MaximalBackoffTime)) || flush.more || flush.fetching {
		return
	}
	q.admission.flushed, q.admission.flushSince, q.admission.amnesty = q.now, 0, q.conns.Amnesty()
	flush.from, flush.more = mail.Cursor{Due: due}, true
}

// newMessage puts a message into core.
func (q *Qmgr) newMessage(id mail.QueueID, from origin) *message {
	assert.That(q.messages[id] == nil, "message %v is in core already", id)
	m := q.stocks.messages.Take()
	q.serial++
	m.serial = q.serial
	m.ID, m.Owner, m.from, m.Queued = id, m, from, q.now
	m.Own, m.Limit = q.cfg.RecipientMinimum, q.cfg.RecipientMinimum
	switch from {
	case originFlush:
		m.amnesty = q.admission.amnesty
	case originRetry:
		m.amnesty = q.conns.Amnesty()
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
		q.admission.appeared(m.ID, ev.Place)
		q.forget(m)
		return
	}
	q.enter(m, ev.Envelope, ev.Place, ev.Batch)
}

// wanted tells whether an opened message is still what its scan looked for: it
// may have been moved between Fetch and Open.
func (q *Qmgr) wanted(m *message, ev Opened) bool {
	if m.order != orderNone {
		return true // an operator's order wants it wherever it is
	}
	switch m.from {
	case originIncoming:
		return ev.Place.Area == mail.AreaIncoming
	case originDeferred:
		return ev.Place.Area == mail.AreaDeferred && ev.Place.Due <= q.now
	case originFlush:
		return ev.Place.Area == mail.AreaDeferred &&
			(ev.Envelope.LastAttempt < q.admission.flushed && ev.Envelope.LastAttempt >= q.admission.flushSince || ev.Envelope.LastAttempt > q.now)
	}
	return ev.Place.Area == mail.AreaDeferred || ev.Place.Area == mail.AreaIncoming
}

// enter starts a message's round.
func (q *Qmgr) enter(m *message, e mail.Envelope, place mail.Place, batch mail.RecipientBatch) {
	m.env, m.place, m.stage = e, place, stageRunning
	m.Queued, m.debts = q.now, place.Owes
	m.failed = place.Owes && e.Sender == "" // only a failure is owed to nobody
	if m.letter = e.IsReport(); m.letter {
		q.debts.letters++
	}
	q.takeBatch(m, cut(batch, q.firstRead(m)))
	q.advance(m)
}

// forget takes a message out of core; it rests in the spool, or is gone.
func (q *Qmgr) forget(m *message) {
	assert.That(m.Entries == 0 && m.awaits == 0 && m.routing.count == 0, "message %v leaves with %d entries and %d recipients that are looked up, awaiting %b",
		m.ID, m.Entries, m.routing.count, m.awaits)
	q.hold(m, -m.InCore)
	q.words.release(m.outcomes)
	m.routing.disown()
	if m.letter {
		q.debts.letters--
	}
	if m.from == originOwing {
		q.debts.collecting--
	}
	delete(q.messages, m.ID)
	if p := q.paused; p.Of(&m.Message) {
		q.paused = sched.Pause{}
		q.endLull(transportOf(p.Lane()))
	}
	id, again := m.ID, m.again
	q.stocks.giveMessage(m)
	q.fulfill(id, again)
}
