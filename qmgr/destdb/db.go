package destdb

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// A DB is the records of all hosts. It belongs to one goroutine.
type DB struct {
	cfg    Config
	random prng.Source
	hosts  map[Key]*host
	all    []*host          // the same, in an order that only Collect cares about
	idle   ilist.List[host] // those without open connections, least recently used first
	hand   int              // where Collect continues in all

	changes changes
	resets  uint64 // number of retry resets so far
	long    int    // bytes of long texts in the records (longMost)
}

// A host is one record, with state that is not worth saving.
type host struct {
	key     Key
	rec     Record
	place   int // in DB.all
	recent  ilist.Link[host]
	open    int    // connections, including those being opened
	changed uint64 // number of its last change, from 1 on; 0 if there was none
	failed  uint64 // DB.resets when it failed
	tally   tally
}

// New returns an empty database. cfg must be valid.
func New(cfg Config, seed uint64) *DB {
	return &DB{cfg: cfg.WithDefaults(), random: prng.New(seed), hosts: map[Key]*host{}, resets: RetryResetStart}
}

// Configure changes the configuration. Instants that are already set, such as those
// of retries and holds, stay.
func (db *DB) Configure(cfg Config) {
	db.cfg = cfg.WithDefaults()
	db.shrink()
}

// Len returns the number of records.
func (db *DB) Len() int { return len(db.all) }

// State returns the state of a host and an instant: for Closed when its last
// connection was made, for RetryLater and RetryDue the earliest retry; otherwise 0.
func (db *DB) State(k Key, now mail.Instant) (State, mail.Instant) {
	switch h := db.hosts[k]; {
	case h == nil:
		return Unused, 0
	case h.open > 0:
		return InUse, 0
	default:
		return h.rec.state(&db.cfg, now)
	}
}

// RetryAt returns the instant before which no further connection may be opened, 0
// if one may be opened now. It also applies while the host has open connections:
// these work, but the last attempt to open another failed.
func (db *DB) RetryAt(k Key, now mail.Instant) mail.Instant {
	if h := db.hosts[k]; h != nil && h.rec.Health.Failures > 0 && now < h.rec.Health.RetryAt {
		return h.rec.Health.RetryAt
	}
	return 0
}

// Open records that a connection is being opened. The host is in use until Shut has
// been called as often.
func (db *DB) Open(k Key, now mail.Instant) {
	h := db.find(k, now)
	if h.open == 0 {
		db.idle.Remove(&h.recent)
	}
	h.open++
}

// A Life describes a connection that has ended.
type Life struct {
	// MadeAt is when the connection became ready; 0 if it never did.
	MadeAt mail.Instant
	// Messages is the number of transactions that got their final replies.
	Messages uint32
	// Clean is the number of these without any anomaly, at Level.
	Clean uint32
	Level mail.Level
	Why   mail.CloseReason
	// Outlived means that another, open connection of the host has carried more:
	// the host does not close connections after this number.
	Outlived bool
}

// dropped reports whether the host ended it while transactions were under way.
func (l Life) dropped() bool { return l.Why == mail.CloseBusy || l.Why == mail.CloseLost }

// Shut records that a connection of the host has ended.
func (db *DB) Shut(k Key, life Life, now mail.Instant) {
	h := db.hosts[k]
	assert.That(h != nil && h.open > 0, "shutting a connection that is not open")
	h.rec.Used = max(h.rec.Used, now)
	h.open--
	if life.MadeAt != 0 {
		h.countDrops(life, now)
		h.countClean(&db.cfg, life, now)
		if h.open == 0 {
			h.rec.Closed = Closing{MadeAt: max(h.rec.Closed.MadeAt, life.MadeAt), At: max(h.rec.Closed.At, now)}
		}
		db.mark(h)
	}
	if h.open == 0 {
		db.idle.PushBack(&h.recent, h)
		db.shrink()
	}
}

// Failed records that an attempt to connect, which began at started, failed: no
// connection, or no session. It returns the instant of the next retry.
//
// Attempts that began before the last failure was known belong to that failure and
// do not lengthen the wait, so that opening several connections at once to a dead
// host counts as one failure.
func (db *DB) Failed(k Key, started, now mail.Instant, reason mail.Reply) mail.Instant {
	h := db.touch(k, now)
	old := &h.rec.Health
	failures := old.Failures
	switch {
	case failures > 0 && started < old.At:
		return old.RetryAt
	case now >= old.At.Add(db.cfg.FailureTTL):
		failures = 0
	}
	wait := db.cfg.backoff(failures)
	db.setHealth(h, Health{
		At:       old.stamp(now),
		Failures: min(failures+1, failuresMax),
		RetryAt:  now.Add(db.random.Between(wait-wait/jitter, wait+wait/jitter)),
		Reason:   cut(reason),
	})
	h.failed = db.resets
	db.mark(h)
	return old.RetryAt
}

// jitter is the fraction (1/jitter) of a wait that is random, so that hosts that
// failed together are not probed together.
const jitter = 5

// failuresMax is larger than any number that makes a difference.
const failuresMax = 64

// backoff returns the wait after a number of failures before the last one.
func (c *Config) backoff(failures uint32) time.Duration {
	wait := c.RetryMin
	for range failures {
		wait = min(2*wait, c.RetryMax)
	}
	return wait
}

// Works reports whether the latest fact about a host is that it accepted mail.
func (db *DB) Works(k Key) bool {
	h := db.hosts[k]
	return h != nil && h.rec.Health.Failures == 0 && h.rec.Pace.At != 0
}

// WorksLately reports whether the latest fact about a host is that it accepted mail,
// within FailureTTL.
func (db *DB) WorksLately(k Key, now mail.Instant) bool {
	return db.Works(k) && db.TookLately(k, now)
}

// TookLately reports whether a host accepted mail within FailureTTL, whatever has
// happened since.
func (db *DB) TookLately(k Key, now mail.Instant) bool {
	h := db.hosts[k]
	return h != nil && h.rec.Pace.At != 0 && now < h.rec.Pace.At.Add(db.cfg.FailureTTL)
}

// Succeeded records that a connection became ready: the host works.
func (db *DB) Succeeded(k Key, now mail.Instant) {
	h := db.touch(k, now)
	if h.rec.Health.Failures > 0 {
		db.mark(h)
	}
	db.setHealth(h, Health{At: h.rec.Health.stamp(now)})
}

// NewRetryReset returns the number of a new retry reset, which covers all failures
// until now. It is applied to a host by ResetRetry when the host is needed, and does
// not cover later failures: a flush finds messages for a long time, and each of them
// would make a dead host be tried again. Instants would not do instead of numbers,
// as those of failures may come from another clock.
func (db *DB) NewRetryReset() uint64 {
	db.resets++
	return db.resets
}

// RetryResetStart is the retry reset for failures of an earlier run, or of another
// node.
const RetryResetStart uint64 = 1

// ResetRetry forgets the failures of a host, because an operator wants it tried
// now, if it failed before the retry reset. It reports whether there was anything
// to forget.
func (db *DB) ResetRetry(k Key, reset uint64, now mail.Instant) bool {
	h := db.hosts[k]
	if h == nil || h.rec.Health.Failures == 0 || h.failed >= reset {
		return false
	}
	db.setHealth(h, Health{At: h.rec.Health.stamp(now)})
	db.mark(h)
	return true
}

// stamp returns the instant of an observation that replaces h.
func (h *Health) stamp(now mail.Instant) mail.Instant { return stamp(h.At, now) }

// stamp returns now, or the first instant after old if that is later: a local
// observation replaces one from a clock that is ahead.
func stamp(old, now mail.Instant) mail.Instant { return max(now, old+1) }

// touch returns the record for an observation, creating it if there is none.
func (db *DB) touch(k Key, now mail.Instant) *host {
	h := db.find(k, now)
	db.shrink()
	return h
}

// find is touch without making room. An expired record starts anew, whether Collect
// has reached it or not.
func (db *DB) find(k Key, now mail.Instant) *host {
	h := db.hosts[k]
	switch {
	case h == nil:
		h = db.add(k)
		db.idle.PushBack(&h.recent, h)
	case h.open == 0:
		if h.rec.keepUntil(&db.cfg) <= now {
			db.setHealth(h, Health{})
			h.rec, h.tally = Record{}, tally{}
		}
		db.idle.MoveToBack(&h.recent)
	}
	h.rec.Used = max(h.rec.Used, now)
	return h
}

// add creates an empty record. The caller puts it on the list of idle hosts.
func (db *DB) add(k Key) *host {
	h := &host{key: k, place: len(db.all)}
	db.hosts[k] = h
	db.all = append(db.all, h)
	return h
}

// shrink drops the hosts that were not used for the longest time.
func (db *DB) shrink() {
	for db.idle.Len() > db.cfg.HostLimit {
		db.drop(db.idle.Front())
	}
}

// drop removes an idle host.
func (db *DB) drop(h *host) {
	assert.That(h.open == 0, "forgetting a host with %d open connections", h.open)
	db.mark(h)
	db.long -= h.rec.Health.long()
	db.idle.Remove(&h.recent)
	last := len(db.all) - 1
	moved := db.all[last]
	db.all[h.place], moved.place = moved, h.place
	db.all[last] = nil
	db.all = db.all[:last]
	delete(db.hosts, h.key)
}

// Collect frees the memory of expired records. It checks at most max records, from
// where it stopped before, and returns the number of records removed. No result
// depends on when it is called.
func (db *DB) Collect(now mail.Instant, max int) (gone int) {
	for max = min(max, len(db.all)); max > 0; max-- {
		if db.hand >= len(db.all) {
			db.hand = 0
		}
		h := db.all[db.hand]
		if h.open > 0 || now < h.rec.keepUntil(&db.cfg) {
			db.hand++
			continue
		}
		db.drop(h) // another takes its place
		gone++
	}
	return gone
}
