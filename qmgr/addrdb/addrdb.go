package addrdb

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// Config says how much is kept, and for how long.
type Config struct {
	// Limit bounds the addresses; default 50,000. One takes about 300 octets.
	Limit int
	// PositiveTime is how long it is believed that mail for an address is taken;
	// default 31 days. After PositiveRefresh, default 7 days, it is asked again.
	PositiveTime, PositiveRefresh time.Duration
	// NegativeTime is how long it is believed that it is refused, or that the
	// receiver refuses to be asked; default 3 days. After NegativeRefresh, default 3
	// hours, it is asked again.
	NegativeTime, NegativeRefresh time.Duration
}

// Patience is how long after an answer that was none an address is not asked for
// again. Servers that put strangers off for a while (greylisting) mostly do so for
// five minutes.
const Patience = 5 * time.Minute

// WithDefaults returns the configuration with every zero field replaced by its
// default.
func (c Config) WithDefaults() Config {
	if c.Limit == 0 {
		c.Limit = 50_000
	}
	for _, d := range []struct {
		of *time.Duration
		is time.Duration
	}{
		{&c.PositiveTime, 31 * 24 * time.Hour}, {&c.PositiveRefresh, 7 * 24 * time.Hour},
		{&c.NegativeTime, 3 * 24 * time.Hour}, {&c.NegativeRefresh, 3 * time.Hour},
	} {
		if *d.of == 0 {
			*d.of = d.is
		}
	}
	return c
}

// Validate tells everything that is wrong with a configuration that has its
// defaults.
func (c Config) Validate() error {
	var errs []error
	if c.Limit < 1 {
		errs = append(errs, fmt.Errorf("address limit is %d: want at least 1", c.Limit))
	}
	if min(c.PositiveTime, c.PositiveRefresh, c.NegativeTime, c.NegativeRefresh) < 0 {
		errs = append(errs, errors.New("a time for which an address is believed is negative"))
	}
	return errors.Join(errs...)
}

// A Standing is what is known of an address.
type Standing uint8

const (
	Unknown Standing = iota // nobody has asked lately
	Good                    // mail for it is taken
	Bad                     // it is refused for good
	Unsure                  // it was asked for, and the answer was none
	Mute                    // the receiver refuses to be asked, which is nothing against the address
)

// String returns the word that tests show.
func (s Standing) String() string { return [...]string{"unknown", "good", "bad", "unsure", "mute"}[s] }

// A Verdict is what a receiver has said about an address.
type Verdict struct {
	Standing Standing
	Reply    mail.Reply // its words, or ours why there are none
}

// A DB is what is known of addresses. It belongs to one goroutine. The instants that
// its methods are given must not decrease.
type DB struct {
	cfg     Config
	known   map[mail.Address]*address
	good    ilist.List[address] // Good and Mute, asked for longest ago first
	refused ilist.List[address] // Bad and Unsure, likewise
}

// An address is one that is known.
type address struct {
	key     mail.Address
	verdict Verdict
	until   mail.Instant // the verdict is believed
	again   mail.Instant // it is asked for again
	inList  ilist.Link[address]
}

// New returns a DB that knows nothing. The configuration has its defaults.
func New(cfg Config) *DB { return &DB{cfg: cfg, known: make(map[mail.Address]*address)} }

// Configure puts other limits in force. What is known was learned under the old ones
// and is believed as long as they said.
func (db *DB) Configure(cfg Config) {
	db.cfg = cfg
	db.shrink()
}

// Len returns how many addresses are known.
func (db *DB) Len() int { return len(db.known) }

// Find returns what is known of an address, and whether it is time to ask again.
// Whoever hears so does. Others who want to know meanwhile, and there may be thousands,
// do not: if no answer comes it is time again after Patience.
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

// textMax is how much is kept of a reply's text.
const textMax = 200

// Learn takes in what a receiver has said. A refusal of our own, because of a route
// that leads nowhere or an extension that is missing, may be another answer soon: it
// holds for minutes. Learn returns what is believed then, as Find does.
func (db *DB) Learn(a mail.Address, v Verdict, now mail.Instant) Verdict {
	assert.That(v.Standing != Unknown, "nothing is learned of %s", a)
	k := db.known[Key(a)]
	if k != nil {
		if v.Standing == Unsure && k.verdict.Standing != Unsure && now < k.until {
			k.again = now.Add(Patience)
			return k.verdict
		}
		db.drop(k)
	}
	v.Reply.Text = mail.CutText(v.Reply.Text, textMax)
	k = &address{key: Key(a), verdict: v}
	switch v.Standing {
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

// shrink forgets what is beyond the limit.
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
	switch k.verdict.Standing {
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

// Key is how an address is known: its domain is the same in any case, and only the
// receiver can tell that of its local part (RFC 5321 2.4).
func Key(a mail.Address) mail.Address {
	domain := a.Domain()
	if lower := strings.ToLower(domain); lower != domain {
		return a[:len(a)-len(domain)] + mail.Address(lower)
	}
	return a
}
