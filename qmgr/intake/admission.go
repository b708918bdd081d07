package intake

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Scan is one of the ways through the spool's indexes that the core follows.
type Scan uint8

const (
	ScanIncoming Scan = iota // new mail
	ScanDeferred             // deferred mail that is due
	ScanFlush                // all deferred mail, because an operator asked for it
	ScanHeld                 // held mail whose time is up; it is removed and does not come into core
	scans
)

// String returns the word that traces show.
func (s Scan) String() string { return [...]string{"incoming", "deferred", "flush", "held"}[s] }

// Area returns the area whose index the scan follows.
func (s Scan) Area() mail.Area {
	switch s {
	case ScanIncoming:
		return mail.AreaIncoming
	case ScanHeld:
		return mail.AreaHold
	}
	return mail.AreaDeferred
}

// Timed reports whether the scan wants only what is due at the present instant.
func (s Scan) Timed() bool { return s == ScanDeferred || s == ScanHeld }

// Admission is how messages come into core: by being announced (Arrived) while there
// is room and nothing older waits, else through three scans of the spool's indexes.
// The scans take turns, so that neither new mail nor retries starve. A fourth scan is
// for held mail whose time is up, which is removed.
//
// Whether there is room is the caller's business. An Admission is not safe for
// concurrent use.
type Admission struct {
	scans [scans]scan
	turn  Scan // whose Turn is next; never ScanHeld
	// named is the youngest message that an operator has given an order about while it
	// was not in core: no scan has passed it, and yet it may be elsewhere by the time it
	// is announced.
	named mail.QueueID
	flush Flush
}

// A Flush is what ScanFlush was begun for. The zero Flush is none.
type Flush struct {
	Asked mail.Instant // when; what was tried then or later is not tried again
	Since mail.Instant // nor is what was tried last before this; 0: all else is
	Reset uint64       // of conns.Pool, when it was asked for; 0: none
}

// Wants reports whether the scan is for a message that was tried last at an instant. A
// last attempt in the future shows that the clock was wrong then: it is tried.
func (f *Flush) Wants(last, now mail.Instant) bool {
	return last < f.Asked && last >= f.Since || last > now
}

// A scan is a way through one index. Messages before from are found, in core, or done, or
// will be announced again.
//
// Whatever rests at from or behind it is looked for while more is set. Behind it a Timed
// scan may leave what was not due yet: it looks again at nextDue. While a fetch is under
// way, more is about what comes after it.
type scan struct {
	from     mail.Cursor
	fetching bool
	low      mail.Cursor    // missed: the first of what has appeared during the fetch
	missed   bool           // low is set; only while fetching
	more     bool           // there may be something at from or behind
	nextDue  mail.Instant   // when a Timed scan has something to find; Never if more, or if there is nothing
	found    []mail.Cursor  // fetched and not taken, in the order of the index
	named    []mail.QueueID // ScanFlush: by Retry, and not taken
}

// heldFrom is the first position in the index of the hold area that has a due time.
var heldFrom = mail.Cursor{Due: 1}

// NewAdmission returns an admission that has looked at nothing yet.
func NewAdmission() Admission {
	var a Admission
	for s := range a.scans {
		a.scans[s].nextDue = mail.Never
	}
	a.scans[ScanIncoming].more = true
	a.scans[ScanDeferred].more = true
	a.scans[ScanHeld].from = heldFrom
	return a
}

// Wake returns when admission has something to do without a further event; Never if it
// has not. Without room (for retries) that is only the removal of held mail: a message
// that leaves makes room, by an event.
func (a *Admission) Wake(room bool) mail.Instant {
	held := a.scans[ScanHeld].nextDue
	if !room {
		return held
	}
	return min(held, a.scans[ScanDeferred].nextDue)
}

// Idle reports whether no scan has come upon anything that is left to do, or may yet.
// Held mail does not count.
func (a *Admission) Idle() bool {
	for i := range a.scans {
		s := &a.scans[i]
		if s.underWay() || len(s.named) > 0 || s.nextDue != mail.Never && Scan(i) != ScanHeld {
			return false
		}
	}
	return true
}

// UnderWay reports whether a scan has not read its index to the end, or has found
// something that was not taken.
func (a *Admission) UnderWay(s Scan) bool { return a.scans[s].underWay() }

func (s *scan) underWay() bool { return s.more || s.fetching || len(s.found) > 0 }

// Looking reports whether a scan has not read its index to the end. What it has found may
// wait to be taken.
func (a *Admission) Looking(s Scan) bool { return a.scans[s].more || a.scans[s].fetching }

// Waiting reports whether new mail may wait in the spool that is not being fetched.
func (a *Admission) Waiting() bool { return a.scans[ScanIncoming].more }

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

// Appeared makes sure that the scans come to a message that rests in the spool now: it
// was put there, or it was passed over because a change of it was under way.
func (a *Admission) Appeared(id mail.QueueID, at mail.Place) {
	switch at.Area {
	case mail.AreaIncoming:
		a.remember(id)
	case mail.AreaDeferred:
		a.scans[ScanDeferred].due(id, at.Due)
	case mail.AreaHold:
		if at.Due > 0 {
			a.scans[ScanHeld].due(id, at.Due)
		}
	}
}

func (s *scan) due(id mail.QueueID, due mail.Instant) {
	s.back(mail.Cursor{Due: due, ID: id})
	s.nextDue = min(s.nextDue, due)
}

// remember leaves a message of the incoming area to the scan.
func (a *Admission) remember(id mail.QueueID) {
	s := &a.scans[ScanIncoming]
	s.back(mail.Cursor{ID: id})
	s.more = true
}

// Announced takes the hint that a message is in the incoming area, and reports whether
// it may come into core at once if there is room; else the scan will find it.
//
// The hint may be late: if the scan has passed that position, or an operator has named
// the message, it may have been delivered and be gone by now, or be held. Then only the
// spool knows.
func (a *Admission) Announced(id mail.QueueID, room bool) bool {
	s := &a.scans[ScanIncoming]
	if s.more || len(s.found) > 0 || (mail.Cursor{ID: id}).Before(s.from) || id <= a.named || !room {
		a.remember(id)
		return false
	}
	return true
}

// Name notes that an operator has given an order about a message that is not in core.
func (a *Admission) Name(id mail.QueueID) { a.named = max(a.named, id) }

// Retry has a message at rest come into core before all that is found.
func (a *Admission) Retry(id mail.QueueID) {
	s := &a.scans[ScanFlush]
	s.named = append(s.named, id)
}

// FlushAll begins ScanFlush anew, from the start of the index.
func (a *Admission) FlushAll(f Flush) {
	a.flush = f
	s := &a.scans[ScanFlush]
	s.found, s.more = s.found[:0], true
	s.back(mail.Cursor{})
}

// FlushFrom begins ScanFlush at a due time. It must not be Looking; what it has found and
// was not taken stays, and is judged by f.
func (a *Admission) FlushFrom(due mail.Instant, f Flush) {
	assert.That(!a.Looking(ScanFlush), "a scan from %v takes the place of another", due)
	a.flush = f
	s := &a.scans[ScanFlush]
	s.from, s.more = mail.Cursor{Due: due}, true
}

// Flush returns what ScanFlush was begun for last.
func (a *Admission) Flush() Flush { return a.flush }

// Due reports whether something that a Timed scan has not found is due.
func (a *Admission) Due(s Scan, now mail.Instant) bool { return a.scans[s].nextDue <= now }

// Look has a Timed scan look at its index again from where it is.
func (a *Admission) Look(s Scan) {
	assert.That(s.Timed(), "the scan of %v mail is begun at no instant", s)
	a.scans[s].more, a.scans[s].nextDue = true, mail.Never
}

// Turn returns the scan whose turn it is, of those whose messages come into core, and
// passes the turn on.
func (a *Admission) Turn() Scan {
	s := a.turn
	a.turn = (a.turn + 1) % ScanHeld
	return s
}

// Take returns the next message that a scan has found, or that Retry has named, and how
// it will have come into core; false if there is none.
func (a *Admission) Take(s Scan) (id mail.QueueID, from Origin, ok bool) {
	sc := &a.scans[s]
	switch {
	case len(sc.named) > 0:
		id, sc.named = sc.named[0], sc.named[1:]
		return id, FromRetry, true
	case len(sc.found) > 0:
		id, sc.found = sc.found[0].ID, sc.found[1:]
		return id, Origin(s), true
	}
	return 0, 0, false
}

// Has reports whether a scan has found something that was not taken. What Retry has named
// does not count.
func (a *Admission) Has(s Scan) bool { return len(a.scans[s].found) > 0 }

// HasAny reports whether some message that comes into core was found, or named by Retry,
// and not taken.
func (a *Admission) HasAny() bool {
	for s := range ScanHeld {
		if sc := &a.scans[s]; len(sc.found)+len(sc.named) > 0 {
			return true
		}
	}
	return false
}

// MayFetch reports whether there is more of a scan to fetch and no fetch is under way.
func (a *Admission) MayFetch(s Scan) bool {
	sc := &a.scans[s]
	return !sc.fetching && sc.more && len(sc.found) == 0
}

// Fetch begins to fetch more of a scan, from the cursor it returns, until Found; false if
// a fetch is under way, if what was found is not taken yet, or if there is no more.
func (a *Admission) Fetch(s Scan) (mail.Cursor, bool) {
	if !a.MayFetch(s) {
		return mail.Cursor{}, false
	}
	sc := &a.scans[s]
	sc.fetching, sc.more = true, false
	return sc.from, true
}

// Check panics where an invariant does not hold. Tests call it after every step.
func (a *Admission) Check() {
	assert.That(a.turn < ScanHeld, "it is the turn of the scan of %v mail", a.turn)
	for i := range a.scans {
		of, s := Scan(i), &a.scans[i]
		assert.That(!s.missed || s.fetching, "the scan of %v mail missed something, and fetches nothing", of)
		assert.That(of.Timed() || s.nextDue == mail.Never, "the scan of %v mail waits for an instant", of)
		assert.That(of == ScanFlush || len(s.named) == 0, "an operator has named mail to the scan of %v mail", of)
		assert.That(of != ScanHeld || !s.from.Before(heldFrom), "the scan of held mail is at %v, where all is held without end", s.from)
		for n := 1; n < len(s.found); n++ {
			assert.That(s.found[n-1].Before(s.found[n]), "the scan of %v mail has found %v before %v", of, s.found[n-1], s.found[n])
		}
	}
}

// Found takes what was fetched, and reports whether that was expected. It moves the
// scan to where the fetch has come, or back to what has appeared before that position
// while the fetch was under way: it may not have been seen.
func (a *Admission) Found(of Scan, f mail.Found) bool {
	s := &a.scans[of]
	if !s.fetching {
		return false
	}
	s.fetching = false
	s.from, s.more = f.Next, s.more || f.More
	if s.missed && s.low.Before(s.from) {
		s.from, s.more = s.low, true
	}
	s.missed = false
	s.found = append(s.found[:0], f.Cursors...)
	if of.Timed() && !f.More {
		s.nextDue = min(s.nextDue, f.NextDue)
	}
	return true
}
