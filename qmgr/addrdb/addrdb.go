package addrdb

import (
	"cmp"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
)

// Config sets how many addresses are kept, and for how long.
type Config struct {
	// Limit is the maximum number of addresses; default 50,000. One takes about 300
	// bytes.
	Limit int
	// PositiveTime is the time for which an acceptance of an address is valid; default 31
	// days. After PositiveRefresh, default 7 days, the receiver is asked again.
	PositiveTime, PositiveRefresh time.Duration
	// NegativeTime is the time for which a refusal of an address, or of call-outs by its
	// receiver, is valid; default 3 days. After NegativeRefresh, default 3 hours,
	// the receiver is asked again.
	NegativeTime, NegativeRefresh time.Duration
}

// Patience is the time for which an address is not asked for again after an inconclusive
// answer. Servers that defer unknown clients (greylisting) mostly do so for five
// minutes.
const Patience = 5 * time.Minute

// WithDefaults returns the configuration with every zero field replaced by its
// default.
func (c Config) WithDefaults() Config {
	c.Limit = cmp.Or(c.Limit, 50_000)
	c.PositiveTime = cmp.Or(c.PositiveTime, 31*24*time.Hour)
	c.PositiveRefresh = cmp.Or(c.PositiveRefresh, 7*24*time.Hour)
	c.NegativeTime = cmp.Or(c.NegativeTime, 3*24*time.Hour)
	c.NegativeRefresh = cmp.Or(c.NegativeRefresh, 3*time.Hour)
	return c
}

// Validate returns all errors of a configuration that has its defaults.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(c.Limit >= 1, "address limit is %d, must be at least 1", c.Limit)
	wrong.Unless(min(c.PositiveTime, c.PositiveRefresh, c.NegativeTime, c.NegativeRefresh) >= 0, "a lifetime of addresses is negative")
	return wrong.Join()
}

// A Status is what is known of an address.
type Status uint8

const (
	Unknown Status = iota // not asked recently
	Good                  // mail for it is accepted
	Bad                   // it is permanently refused
	Unsure                // it was asked for, and the answer was inconclusive
	Mute                  // the receiver refuses call-outs, which is no evidence against the address
)

// String returns the word that tests show.
func (s Status) String() string { return [...]string{"unknown", "good", "bad", "unsure", "mute"}[s] }

// A Verdict is what a receiver has said about an address.
type Verdict struct {
	Status Status
	Reply  mail.Reply // the receiver's, or ours if it sent none
}

// A DB has what is known of addresses. It belongs to one goroutine. The instants
// passed to its methods must not decrease.
type DB struct {
	cfg     Config
	known   map[mail.Address]*address
	good    ilist.List[address] // Good and Mute, least recently asked for first
	refused ilist.List[address] // Bad and Unsure, likewise
}

// An address is a known address.
type address struct {
	key     mail.Address
	verdict Verdict
	until   mail.Instant // the verdict is valid
	again   mail.Instant // the receiver is asked again
	inList  ilist.Link[address]
}

// New returns an empty DB. The configuration has its defaults.
func New(cfg Config) *DB { return &DB{cfg: cfg, known: make(map[mail.Address]*address)} }

// Configure changes the limits. Known addresses keep the lifetimes of the old ones.
func (db *DB) Configure(cfg Config) {
	db.cfg = cfg
	db.shrink()
}

// Len returns the number of known addresses.
func (db *DB) Len() int { return len(db.known) }

// Find returns what is known of an address, and whether the caller must ask again. Only
// one caller must; for the others, which may be thousands, again is false: if no answer
// comes, the next caller must after Patience.
func (db *DB) Find(a mail.Address, now mail.Instant) (v Verdict, again bool) {
	k := db.known[Key(a)]
	switch {
	case k == nil:
		return Verdict{}, true
	case now >= k.until:
		db.drop(k)
		return Verdict{}, true
	}
	db.listOf(k).MoveToBack(&k.inList)
	if again = now >= k.again; again {
		k.again = now.Add(Patience)
	}
	return k.verdict, again
}

// textMax is the maximum length of a reply's text that is kept.
const textMax = 200

// Learn records what a receiver has said. A refusal by this program, because of a
// route that leads nowhere or a missing extension, may soon change: it is valid for
// minutes. Learn returns the resulting verdict, as Find does.
func (db *DB) Learn(a mail.Address, v Verdict, now mail.Instant) Verdict {
	assert.That(v.Status != Unknown, "nothing is learned of %s", a)
	k := db.known[Key(a)]
	if k != nil {
		if v.Status == Unsure && k.verdict.Status != Unsure && now < k.until {
			k.again = now.Add(Patience)
			return k.verdict
		}
		db.drop(k)
	}
	v.Reply.Text = mail.CutText(v.Reply.Text, textMax)
	k = &address{key: Key(a), verdict: v}
	switch v.Status {
	case Good:
		k.until, k.again = now.Add(db.cfg.PositiveTime), now.Add(db.cfg.PositiveRefresh)
	case Bad, Mute:
		if v.Reply.By == "" {
			k.until, k.again = now.Add(Patience), mail.Never
			break
		}
		k.until, k.again = now.Add(db.cfg.NegativeTime), now.Add(db.cfg.NegativeRefresh)
	default:
		k.until, k.again = now.Add(Patience), mail.Never
	}
	db.known[k.key] = k
	db.listOf(k).PushBack(&k.inList, k)
	db.shrink()
	return v
}

// shrink drops addresses beyond the limit.
func (db *DB) shrink() {
	for len(db.known) > db.cfg.Limit {
		if db.refused.Len() > db.cfg.Limit/2 {
			db.drop(db.refused.Front())
		} else {
			db.drop(db.good.Front())
		}
	}
}

func (db *DB) drop(k *address) {
	delete(db.known, k.key)
	db.listOf(k).Remove(&k.inList)
}

func (db *DB) listOf(k *address) *ilist.List[address] {
	switch k.verdict.Status {
	case Good, Mute:
		return &db.good
	}
	return &db.refused
}

// Check panics where an invariant does not hold.
func (db *DB) Check() {
	db.good.Check()
	db.refused.Check()
	assert.That(db.good.Len()+db.refused.Len() == len(db.known), "%d and %d addresses are listed, %d known", db.good.Len(), db.refused.Len(), len(db.known))
	assert.That(len(db.known) <= db.cfg.Limit, "%d addresses are known, %d may be", len(db.known), db.cfg.Limit)
}

// Key returns the key of an address: the case of its domain does not matter,
// whereas only the receiver knows whether that of its local part does (RFC 5321
// 2.4).
func Key(a mail.Address) mail.Address {
	domain := a.Domain()
	if lower := strings.ToLower(domain); lower != domain {
		return a[:len(a)-len(domain)] + mail.Address(lower)
	}
	return a
}
