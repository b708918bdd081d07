package intake

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// A Scan is one of the ways through the spool's indexes that the core follows.
type Scan uint8

const (
	ScanIncoming Scan = iota // new mail
	ScanDeferred             // deferred mail that is due
	ScanFlush                // all deferred mail, because an operator asked for it
	ScanWarmup               // mail that was deferred until a day ends, since sources may send more before
	ScanResume               // mail that was deferred because of a suspension (Marked), since one has ended
	ScanHeld                 // held mail whose time is up; it is removed, or put into the deferred area, and does not come into core
	scans
)

// String returns the word that traces show.
func (s Scan) String() string {
	return [...]string{"incoming", "deferred", "flush", "warmup", "resume", "held"}[s]
}

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
// is room and nothing older of their bucket waits, else through five scans of the spool's
// indexes. The scans take turns, so that neither new mail nor retries starve. A sixth
// scan is for held mail whose time is up, which is removed.
//
// Within a scan, buckets take turns (scan.go), and share the core (account.go). Whether
// there is room is the caller's business. An Admission is not safe for concurrent use.
type Admission struct {
	scans    [scans]scan
	turn     Scan                     // whose Turn is next; never ScanHeld
	accounts map[mail.Bucket]*Account // of all buckets that anything was seen of
	recent   *Account                 // the one that was asked for last
	classes  []string                 // those that the configuration names
	// named is the youngest message that an operator has given an order about while it
	// was not in core: no scan has passed it, and yet it may be elsewhere by the time it
	// is announced.
	named    mail.QueueID
	flush    Flush
	rescuing bool // ScanFlush was begun last by Rescue
}

// A Flush is what ScanFlush was begun for by FlushAll. The zero Flush is none.
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

// heldFrom is the first position in the index of the hold area that has a due time.
var heldFrom = mail.Cursor{Due: 1}

// NewAdmission returns an admission that has looked at nothing yet.
func NewAdmission() *Admission {
	a := &Admission{accounts: make(map[mail.Bucket]*Account)}
	for s := range a.scans {
		sc := &a.scans[s]
		sc.of, sc.searches = Scan(s), make(map[mail.Bucket]*search)
		first := sc.newSearch(a.Account(0), mail.Cursor{})
		switch sc.of {
		case ScanIncoming, ScanDeferred:
			first.more = true
		case ScanHeld:
			first.from, sc.surveyed = heldFrom, mail.BucketEnd
		case ScanWarmup, ScanResume: // BeginWarmup and BeginResume say which buckets there are
			sc.surveyed = mail.BucketEnd
		}
		sc.refresh(first)
	}
	return a
}

// Configure sets the shares of classes.
func (a *Admission) Configure(rules *fair.Rules) {
	a.classes = a.classes[:0]
	for i := range rules.Classes {
		a.classes = append(a.classes, rules.Classes[i].Name)
	}
	for s := range a.scans {
		a.scans[s].ready.Configure(rules)
	}
	for b, acc := range a.accounts { //archtest:anyorder each has its own path
		acc.path = a.path(b)
	}
}

// Wake returns when admission has something to do without a further event; Never if it
// has not. Without room (for retries) that is only the removal of held mail: a message
// that leaves makes room, by an event.
func (a *Admission) Wake(room bool) mail.Instant {
	held := a.scans[ScanHeld].nextDue()
	if !room {
		return held
	}
	return min(held, a.scans[ScanDeferred].nextDue())
}

// Idle reports whether no scan has come upon anything that is left to do, or may yet.
// Held mail does not count.
func (a *Admission) Idle() bool {
	for i := range a.scans {
		s := &a.scans[i]
		if s.underWay() || len(s.named)+len(s.some) > 0 || s.nextDue() != mail.Never && s.of != ScanHeld {
			return false
		}
	}
	return true
}

// UnderWay reports whether a scan has not read its index to the end, or has found
// something that was not taken.
func (a *Admission) UnderWay(s Scan) bool { return a.scans[s].underWay() }

// Looking reports whether a scan has not read its index to the end. What it has found may
// wait to be taken.
func (a *Admission) Looking(s Scan) bool { return a.scans[s].looking > 0 }

// Waiting reports whether new mail may wait in the spool that is not being fetched.
func (a *Admission) Waiting() bool { return a.scans[ScanIncoming].unread > 0 }

// Appeared makes sure that the scans come to a message that rests in the spool now: it
// was put there, or it was passed over because a change of it was under way.
func (a *Admission) Appeared(id mail.QueueID, at mail.Place) {
	c := at.Cursor(id)
	switch {
	case at.Area == mail.AreaIncoming:
		a.scans[ScanIncoming].appeared(a.Account(c.Bucket), c)
	case at.Area == mail.AreaDeferred:
		a.scans[ScanDeferred].appeared(a.Account(c.Bucket), c)
	case at.Area == mail.AreaHold && at.Due > 0:
		a.scans[ScanHeld].appeared(a.Account(0), c)
	}
}

// Announced takes the hint that a message is in the incoming area, and reports whether
// it may come into core at once if there is room; else the scan will find it. Free is
// for how many messages there is room in core.
//
// The hint may be late: if the scan has passed that position, or an operator has named
// the message, it may have been delivered and be gone by now, or be held. Then only the
// spool knows.
func (a *Admission) Announced(id mail.QueueID, bucket mail.Bucket, free int) bool {
	sc := &a.scans[ScanIncoming]
	c := mail.Cursor{Bucket: bucket, ID: id}
	acc := a.Account(bucket)
	s := acc.searches[ScanIncoming]
	if s == nil && bucket <= sc.surveyed {
		s = sc.newSearch(acc, c)
	}
	if s == nil || s.more || len(s.found) > 0 || c.Before(s.from) || id <= a.named || !a.hasRoom(acc, free) {
		sc.appeared(acc, c)
		return false
	}
	return true
}

// Name notes that an operator has given an order about a message that is not in core.
func (a *Admission) Name(id mail.QueueID) { a.named = max(a.named, id) }

// Retry has a message at rest come into core before all that is found. An operator has asked for it now.
func (a *Admission) Retry(id mail.QueueID, now mail.Instant) {
	s := &a.scans[ScanFlush]
	s.named = append(s.named, named{id, now})
}

// RetrySome is Retry for some recipients of a message. These messages come behind those of Retry.
func (a *Admission) RetrySome(id mail.QueueID) {
	s := &a.scans[ScanFlush]
	s.some = append(s.some, id)
}

// NamedSome returns the number of messages that RetrySome has named and that were not taken.
func (a *Admission) NamedSome() int { return len(a.scans[ScanFlush].some) }

// Named returns the number of messages that Retry and RetrySome have named and that were not taken.
func (a *Admission) Named() int { return len(a.scans[ScanFlush].named) + len(a.scans[ScanFlush].some) }

// FlushAll begins ScanFlush anew, from the start of the index.
func (a *Admission) FlushAll(f Flush) {
	a.flush, a.rescuing = f, false
	sc := &a.scans[ScanFlush]
	for s := range sc.all.All() {
		s.found, s.more = s.found[:0], true
		s.back(bucketStart(s.account.bucket))
		sc.refresh(s)
	}
	sc.surveyed, sc.survey = 0, nil
}

// MayRescue reports whether ScanFlush may begin in one bucket for mail that a wrong clock has put off: once, since the clock of a
// core never goes back, so that such mail was put off before; and not while the scan is Looking there, or because of FlushAll,
// which finds such mail, too.
func (a *Admission) MayRescue(bucket mail.Bucket) bool {
	if a.Account(bucket).rescued {
		return false
	}
	if !a.Looking(ScanFlush) {
		return true
	}
	s := a.scans[ScanFlush].searches[bucket]
	return a.rescuing && (s == nil || !s.more && !s.fetching)
}

// Rescue begins ScanFlush in one bucket, at a due time, where it may (MayRescue). What it has found and was not taken
// stays. Flush is as before: whether a message is wanted that was not put off by a wrong clock does not depend on this.
func (a *Admission) Rescue(bucket mail.Bucket, due mail.Instant) {
	assert.That(a.MayRescue(bucket), "a scan of bucket %v from %v takes the place of another", bucket, due)
	sc := &a.scans[ScanFlush]
	acc := a.Account(bucket)
	s := acc.searches[ScanFlush]
	acc.rescued, a.rescuing = true, true
	if s == nil {
		s = sc.newSearch(acc, mail.Cursor{})
	}
	s.from, s.more = mail.Cursor{Bucket: bucket, Due: due}, true
	sc.refresh(s)
}

// MayBeginWarmup reports whether ScanWarmup may begin: when the last one has ended, and all
// buckets are known that have deferred mail.
func (a *Admission) MayBeginWarmup() bool {
	return !a.UnderWay(ScanWarmup) && a.scans[ScanDeferred].surveyed == mail.BucketEnd
}

// BeginWarmup begins ScanWarmup, where it may (MayBeginWarmup): for all mail that is due at
// exactly that instant.
func (a *Admission) BeginWarmup(due mail.Instant) {
	assert.That(a.MayBeginWarmup() && due > 0, "a scan for what is due at %v takes the place of another", due)
	sc := &a.scans[ScanWarmup]
	sc.only = due
	for of := range a.scans[ScanDeferred].all.All() {
		acc := of.account
		s := acc.searches[ScanWarmup]
		if s == nil {
			s = sc.newSearch(acc, mail.Cursor{})
		}
		s.from, s.more = mail.Cursor{Bucket: acc.bucket, Due: due}, true
		sc.refresh(s)
	}
}

// EndWarmup ends ScanWarmup. What it has found and was not taken rests.
func (a *Admission) EndWarmup() {
	sc := &a.scans[ScanWarmup]
	sc.only = 0
	for s := range sc.all.All() {
		if s.more || len(s.found) > 0 {
			s.found, s.more = s.found[:0], false
			sc.refresh(s)
		}
	}
}

// MayBeginResume reports whether ScanResume may begin: when all buckets are known that have
// deferred mail.
func (a *Admission) MayBeginResume() bool { return a.scans[ScanDeferred].surveyed == mail.BucketEnd }

// BeginResume begins ScanResume, where it may (MayBeginResume): for all mail whose due time
// has a mark, and is later than an instant. One that is under way begins anew.
func (a *Admission) BeginResume(now mail.Instant) {
	assert.That(a.MayBeginResume(), "the scan for resumed mail begins before the survey has ended")
	sc := &a.scans[ScanResume]
	for of := range a.scans[ScanDeferred].all.All() {
		acc := of.account
		s := acc.searches[ScanResume]
		if s == nil {
			s = sc.newSearch(acc, mail.Cursor{})
		}
		from := mail.Cursor{Bucket: acc.bucket, Due: now + 1}
		if !s.fetching && !s.more {
			s.from = from // it had come to the end
		}
		s.found, s.more = s.found[:0], true
		s.back(from)
		sc.refresh(s)
	}
}

// Flush returns what FlushAll has begun ScanFlush for last.
func (a *Admission) Flush() Flush { return a.flush }

// Due reports whether something that a Timed scan has not found is due.
func (a *Admission) Due(s Scan, now mail.Instant) bool { return a.scans[s].nextDue() <= now }

// Look has a Timed scan look again, from where it is, at the buckets of its index in which
// something is due.
func (a *Admission) Look(s Scan, now mail.Instant) {
	sc := &a.scans[s]
	assert.That(s.Timed(), "the scan of %v mail is begun at no instant", s)
	for sc.nextDue() <= now {
		first := sc.dues.Min()
		first.more, first.nextDue = true, mail.Never
		sc.refresh(first)
	}
}

// LookHeld has the scan of held mail look at its index from where it is.
func (a *Admission) LookHeld() {
	sc := &a.scans[ScanHeld]
	s := sc.searches[0]
	s.more, s.nextDue = true, mail.Never
	sc.refresh(s)
}

// AwaitHeld has the scan of held mail look at its index at an instant, if not before.
func (a *Admission) AwaitHeld(due mail.Instant) {
	sc := &a.scans[ScanHeld]
	s := sc.searches[0]
	s.nextDue = min(s.nextDue, due)
	sc.refresh(s)
}

// Turn returns the scan whose turn it is, of those whose messages come into core, and
// passes the turn on.
func (a *Admission) Turn() Scan {
	s := a.turn
	a.turn = (a.turn + 1) % ScanHeld
	return s
}

// A Candidate is a message that may come into core.
type Candidate struct {
	ID      mail.QueueID
	Origin  Origin       // how it will have come
	Account *Account     // of its bucket; nil if only the spool knows that
	Some    bool         // RetrySome has named it
	Asked   mail.Instant // when Retry has named it; 0: it has not, or only some of its recipients
}

// Tried reports whether a message was tried last after an operator had asked for it, because a scan found it while it waited for
// room: the order is carried out. A last attempt in the future shows that the clock was wrong then.
func Tried(asked, last, now mail.Instant) bool { return asked > 0 && last > asked && last <= now }

// Take returns the next message that a scan has found, or that Retry has named; false if
// there is none that has room. Free is for how many messages there is room in core.
func (a *Admission) Take(s Scan, free int) (c Candidate, ok bool) {
	sc := &a.scans[s]
	if len(sc.named) > 0 {
		c = Candidate{ID: sc.named[0].id, Origin: FromRetry, Asked: sc.named[0].asked}
		sc.named = sc.named[1:]
		return c, true
	}
	if len(sc.some) > 0 {
		c = Candidate{ID: sc.some[0], Origin: FromRetry, Some: true}
		sc.some = sc.some[1:]
		return c, true
	}
	from := a.next(sc, free)
	if from == nil {
		return c, false
	}
	c = Candidate{ID: from.found[0].ID, Origin: Origin(s), Account: from.account}
	sc.ready.Serve(&from.leaf)
	from.found = from.found[1:]
	sc.refresh(from)
	return c, true
}

// Has reports whether a scan has found something that was not taken. What Retry has named
// does not count.
func (a *Admission) Has(s Scan) bool { return a.scans[s].found > 0 }

// HasAny reports whether some message that comes into core was found, or named by Retry,
// and not taken.
func (a *Admission) HasAny() bool {
	for s := range ScanHeld {
		if sc := &a.scans[s]; sc.found+len(sc.named)+len(sc.some) > 0 {
			return true
		}
	}
	return false
}

// Shared reports whether mail has been seen that was classified. Then buckets share the
// core.
func (a *Admission) Shared() bool { return len(a.accounts) > 1 }

// MayFetch reports whether there is more of a scan to fetch that no fetch is under way for.
func (a *Admission) MayFetch(s Scan) bool {
	sc := &a.scans[s]
	return !sc.hungry.Empty() && sc.fetches < fetchesMax
}

// Fetch begins to fetch more of a scan, from the cursor it returns and at most so many
// messages, until Found; false if MayFetch is.
func (a *Admission) Fetch(s Scan) (from mail.Cursor, most int, ok bool) {
	if !a.MayFetch(s) {
		return mail.Cursor{}, 0, false
	}
	from, most = a.scans[s].fetch()
	return from, most, true
}

// Found takes what was fetched, and reports whether that was expected. It moves the
// scan to where the fetch has come, or back to what has appeared before that position
// while the fetch was under way: it may not have been seen.
func (a *Admission) Found(of Scan, f mail.Found) bool {
	sc := &a.scans[of]
	s := sc.searches[f.Next.Bucket]
	if s == nil || !s.fetching {
		return false
	}
	surveying := sc.survey == s
	sc.take(s, f)
	if surveying {
		sc.survey, sc.surveyed = nil, mail.BucketEnd
		for i, c := range f.Buckets {
			if i == mail.BucketsFound-1 { // there may be others behind it
				sc.surveyed, c = c.Bucket, mail.Cursor{Bucket: c.Bucket}
			}
			sc.discover(a.Account(c.Bucket), c)
		}
	}
	return true
}

// CheckAccounts panics unless accounts have so many messages in core.
func (a *Admission) CheckAccounts(inCore map[*Account]int) {
	for b, acc := range a.accounts { //archtest:anyorder assertions
		assert.That(acc.bucket == b && acc.inCore == inCore[acc], "bucket %v has %d messages in core, counted %d", acc.bucket, inCore[acc], acc.inCore)
	}
}

// Check panics where an invariant does not hold. Tests call it after every step.
func (a *Admission) Check() {
	assert.That(a.turn < ScanHeld, "it is the turn of the scan of %v mail", a.turn)
	for i := range a.scans {
		a.scans[i].check()
	}
}
