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
	hand   int              // where Collect goes on in all

	changed []Key // from head on: whose records changed, oldest first
	head    int
	lost    uint64
	amnesty uint64 // the last
}

// A host is one record, and what of it is not worth saving.
type host struct {
	key    Key
	rec    Record
	place  int // in DB.all
	recent ilist.Link[host]
	open   int    // connections, those being made included
	marked bool   // its key is in DB.changed
	failed uint64 // the amnesties that there were when it failed
	tally  tally
}

// New returns an empty database. cfg must be valid.
func New(cfg Config, seed uint64) *DB {
	return &DB{cfg: cfg.WithDefaults(), random: prng.New(seed), hosts: map[Key]*host{}, amnesty: AmnestyStart}
}

// Configure changes the configuration. Instants that are fixed already, as of
// retries and holds, stay.
func (db *DB) Configure(cfg Config) {
	db.cfg = cfg.WithDefaults()
	db.shrink()
}

// Len returns the number of records.
func (db *DB) Len() int { return len(db.all) }

// State returns what a host is good for, and an instant: for Closed when its
// last connection was made, for RetryLater and RetryDue when it may be, or
// might have been, tried again; otherwise 0.
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

// RetryAt returns until when no further connection is to be made, 0 if it may
// be made now. It also counts while the host has open connections: some work,
// but the last attempt to open another did not.
func (db *DB) RetryAt(k Key, now mail.Instant) mail.Instant {
	if h := db.hosts[k]; h != nil && h.rec.Health.Failures > 0 && now < h.rec.Health.RetryAt {
		return h.rec.Health.RetryAt
	}
	return 0
}

// Open says that a connection is being made. The host is in use until Shut has
// been called as often.
func (db *DB) Open(k Key, now mail.Instant) {
	h := db.find(k, now)
	if h.open == 0 {
		db.idle.Remove(&h.recent)
	}
	h.open++
}

// A Life is what a connection was until it was shut.
type Life struct {
	// MadeAt is when the connection became ready; 0 if it never did.
	MadeAt mail.Instant
	// Messages is how many transactions it carried to their final replies.
	Messages uint32
	// Clean is how many of these were without any anomaly, spoken at Level.
	Clean uint32
	Level mail.Level
	Why   mail.CloseReason
	// Outlived says that another connection of the host, which is open, has carried
	// more: the host does not close them after so many.
	Outlived bool
}

// dropped tells whether the host ended it in the midst of something.
func (l Life) dropped() bool { return l.Why == mail.CloseBusy || l.Why == mail.CloseLost }

// Shut says that a connection of the host is gone.
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

// Failed says that an attempt to connect, which began at started, came to
// nothing: no connection, no handshake. It returns until when the host is to
// be left alone.
//
// Attempts that began before the last failure was known are part of the same
// misfortune and do not lengthen it, so that opening several connections at
// once to a dead host counts as one failure.
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
	*old = Health{
		At:       old.stamp(now),
		Failures: min(failures+1, failuresMax),
		RetryAt:  now.Add(db.random.Between(wait-wait/jitter, wait+wait/jitter)),
		Reason:   cut(reason),
	}
	h.failed = db.amnesty
	db.mark(h)
	return old.RetryAt
}

// jitter is which part of a wait is left to chance, so that hosts that failed
// together are not probed together.
const jitter = 5

// failuresMax is beyond every number that makes a difference.
const failuresMax = 64

// backoff returns the wait after so many failures before the last one.
func (c *Config) backoff(failures uint32) time.Duration {
	wait := c.RetryMin
	for range failures {
		wait = min(2*wait, c.RetryMax)
	}
	return wait
}

// Works reports whether the last that is known of a host is that it took mail.
func (db *DB) Works(k Key) bool {
	h := db.hosts[k]
	return h != nil && h.rec.Health.Failures == 0 && h.rec.Pace.At != 0
}

// WorksLately reports whether the last that is known of a host is that it took mail,
// not longer ago than failures count.
func (db *DB) WorksLately(k Key, now mail.Instant) bool {
	return db.Works(k) && db.TookLately(k, now)
}

// TookLately reports whether a host took mail, not longer ago than failures count,
// whatever has happened since.
func (db *DB) TookLately(k Key, now mail.Instant) bool {
	h := db.hosts[k]
	return h != nil && h.rec.Pace.At != 0 && now < h.rec.Pace.At.Add(db.cfg.FailureTTL)
}

// Succeeded says that a connection became ready: the host is well.
func (db *DB) Succeeded(k Key, now mail.Instant) {
	h := db.touch(k, now)
	if h.rec.Health.Failures > 0 {
		db.mark(h)
	}
	h.rec.Health = Health{At: h.rec.Health.stamp(now)}
}

// Amnesty returns the number of a new amnesty, which is for all failures until now.
// A host need not be pardoned before it is wanted, and what has failed since then is
// not forgotten: a flush finds messages for a long time, and each of them would have
// a dead host tried again. Instants would not do, as those of failures may come from
// another clock.
func (db *DB) Amnesty() uint64 {
	db.amnesty++
	return db.amnesty
}

// AmnestyStart is the amnesty for what has failed in an earlier run, or elsewhere.
const AmnestyStart uint64 = 1

// Pardon forgets the failures of a host, because an operator wants it tried now, if
// it failed before the amnesty. It tells whether there was anything to forget.
func (db *DB) Pardon(k Key, amnesty uint64, now mail.Instant) bool {
	h := db.hosts[k]
	if h == nil || h.rec.Health.Failures == 0 || h.failed >= amnesty {
		return false
	}
	h.rec.Health = Health{At: h.rec.Health.stamp(now)}
	db.mark(h)
	return true
}

// stamp returns the instant of an observation that replaces h.
func (h *Health) stamp(now mail.Instant) mail.Instant { return stamp(h.At, now) }

// stamp returns now, or the first instant after old if that is later: what is
// seen here and now replaces what came from a clock that is ahead.
func stamp(old, now mail.Instant) mail.Instant { return max(now, old+1) }

// touch returns the record for an observation, made if there is none.
func (db *DB) touch(k Key, now mail.Instant) *host {
	h := db.find(k, now)
	db.shrink()
	return h
}

// find does that without making room for it. A record that has had its time
// begins anew, whether Collect has come by or not.
func (db *DB) find(k Key, now mail.Instant) *host {
	h := db.hosts[k]
	switch {
	case h == nil:
		h = db.add(k)
		db.idle.PushBack(&h.recent, h)
	case h.open == 0:
		if h.rec.keepUntil(&db.cfg) <= now {
			h.rec, h.tally = Record{}, tally{}
		}
		db.idle.MoveToBack(&h.recent)
	}
	h.rec.Used = max(h.rec.Used, now)
	return h
}

// add makes an empty record. The caller puts it on the list of idle hosts.
func (db *DB) add(k Key) *host {
	h := &host{key: k, place: len(db.all)}
	db.hosts[k] = h
	db.all = append(db.all, h)
	return h
}

// shrink makes the hosts not used for the longest time give way.
func (db *DB) shrink() {
	for db.idle.Len() > db.cfg.HostLimit {
		db.drop(db.idle.Front())
	}
}

// drop forgets an idle host.
func (db *DB) drop(h *host) {
	assert.That(h.open == 0, "forgetting a host with %d open connections", h.open)
	db.mark(h)
	db.idle.Remove(&h.recent)
	last := len(db.all) - 1
	moved := db.all[last]
	db.all[h.place], moved.place = moved, h.place
	db.all[last] = nil
	db.all = db.all[:last]
	delete(db.hosts, h.key)
}

// Collect gives back the memory of records that have had their time. It looks
// at most at max records, from where it stopped before, and returns how many
// are gone. No answer depends on when it is called.
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
