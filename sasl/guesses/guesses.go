// Package guesses limits how often passwords are guessed: by failures of each network of
// clients, and of each user's name.
//
// # Rules
//
// A failure counts for the network that it comes from and for the name, whether or not there is
// such a user, and each is forgotten at a constant rate, one in Config.Forget. While a network has
// Config.Limit failures that are not forgotten, none of its logins is tried; so in the long run it
// guesses once in Config.Forget. Below that, a reply to a failure is delayed by a second for each.
//
// While a name has as many failures, logins under it are tried only from networks from which
// this user has logged in before ([Table.Succeeded]). So an attacker who guesses from
// thousands of networks is limited like one, and keeps out neither users where they usually
// are, nor for ever those who are elsewhere: from all other networks together, one login in
// Config.Forget is tried.
//
// # Memory
//
// Each of the three tables has at most Config.Entries; the one that was used least
// recently makes room. All that is kept of failures is the instant at which the last of them
// will be forgotten (a leaky bucket).
package guesses

import (
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Config has the limits. Its zero values stand for the defaults.
type Config struct {
	// Limit is the number of failures at which no more logins are tried. Default 20; negative:
	// nothing is limited. Raise it if many people share an address and mistype
	// passwords.
	Limit int
	// Forget is the time after which one failure is forgotten. Default 1 minute.
	Forget time.Duration
	// DelayMax is the longest delay of the reply to a failure. Default 10 s.
	DelayMax time.Duration
	// Entries is the number of networks, of names, and of both together that are
	// remembered. Default 10,000; with names of 128 bytes they take 8 MB.
	Entries int
}

// WithDefaults returns c with its zero values replaced.
func (c Config) WithDefaults() Config {
	if c.Limit == 0 {
		c.Limit = 20
	}
	if c.Forget == 0 {
		c.Forget = time.Minute
	}
	if c.DelayMax == 0 {
		c.DelayMax = 10 * time.Second
	}
	if c.Entries == 0 {
		c.Entries = 10_000
	}
	return c
}

// Validate returns all errors of a Config with its defaults, joined.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(c.Limit < 0 || c.Limit <= 10_000, "limit of failures %d is above 10000", c.Limit)
	wrong.Unless(c.Forget >= time.Second && c.Forget <= 24*time.Hour, "time to forget a failure %s is not between 1 s and 1 day", c.Forget)
	wrong.Unless(c.DelayMax > 0 && c.DelayMax <= time.Minute, "maximum delay %s is not between 0 and 1 minute", c.DelayMax)
	wrong.Unless(c.Entries > 0, "number of entries %d is not positive", c.Entries)
	return wrong.Join()
}

// A Verdict is whether a login is tried.
type Verdict uint8

const (
	Tried       Verdict = iota
	NetworkFull         // the network has too many failures
	UserFull            // the user has, and has not logged in from this network
)

// String returns the reason in the log.
func (v Verdict) String() string {
	return [...]string{"tried", "too many failures from the network", "too many failures of the user"}[v]
}

// A Table counts failures. It must not be used by several goroutines at once.
type Table struct {
	cfg      Config
	networks table[netip.Prefix]
	users    table[string]
	known    table[pair] // from where users have logged in
}

type pair struct {
	network netip.Prefix
	user    string
}

// New returns a Table. Config must have its defaults.
func New(cfg Config) *Table {
	t := &Table{cfg: cfg}
	t.networks.init(cfg.Entries)
	t.users.init(cfg.Entries)
	t.known.init(cfg.Entries)
	return t
}

// Judge returns whether a login is tried. A network that is not valid is not limited. A
// name that is not known yet is "".
func (t *Table) Judge(now mail.Instant, network netip.Prefix, user string) Verdict {
	switch {
	case t.cfg.Limit < 0:
		return Tried
	case network.IsValid() && t.failures(t.networks.get(network), now) >= t.cfg.Limit:
		return NetworkFull
	case user == "" || t.failures(t.users.get(user), now) < t.cfg.Limit:
		return Tried
	case t.known.get(pair{network, user}) != 0:
		return Tried
	}
	return UserFull
}

// Failed counts a failure, and returns the delay of its reply.
func (t *Table) Failed(now mail.Instant, network netip.Prefix, user string) time.Duration {
	if t.cfg.Limit < 0 {
		return min(time.Second, t.cfg.DelayMax)
	}
	n := 1
	if network.IsValid() {
		n = max(n, count(t, &t.networks, network, now))
	}
	if user != "" {
		n = max(n, count(t, &t.users, user, now))
	}
	return min(time.Duration(n)*time.Second, t.cfg.DelayMax)
}

// Succeeded remembers that a user has logged in from a network.
func (t *Table) Succeeded(now mail.Instant, network netip.Prefix, user string) {
	t.known.set(pair{network, user}, now)
}

// count adds a failure, and returns how many there are. More than the limit are not
// counted, so that what is tried nevertheless does not make it worse.
func count[K comparable](t *Table, of *table[K], key K, now mail.Instant) int {
	until := of.get(key)
	n := t.failures(until, now)
	if n < t.cfg.Limit {
		n++
		until = max(until, now).Add(t.cfg.Forget)
	}
	of.set(key, until)
	return n
}

// failures returns how many failures are not forgotten at an instant, if all will be at
// until. A part of one counts as one.
func (t *Table) failures(until, now mail.Instant) int {
	left := until.Sub(now)
	if left <= 0 {
		return 0
	}
	return int((left + t.cfg.Forget - 1) / t.cfg.Forget)
}

// table is a map with a limit.
type table[K comparable] struct {
	most int
	all  map[K]*entry[K]
	used ilist.List[entry[K]] // the one used least recently is at the front
}

type entry[K comparable] struct {
	link ilist.Link[entry[K]]
	key  K
	at   mail.Instant
}

func (t *table[K]) init(most int) { t.most, t.all = most, make(map[K]*entry[K]) }

func (t *table[K]) get(key K) mail.Instant {
	if e := t.all[key]; e != nil {
		return e.at
	}
	return 0
}

func (t *table[K]) set(key K, at mail.Instant) {
	e := t.all[key]
	switch {
	case e != nil:
		t.used.Remove(&e.link)
	case len(t.all) >= t.most:
		e = t.used.Front()
		t.used.Remove(&e.link)
		delete(t.all, e.key)
		*e = entry[K]{key: key}
		t.all[key] = e
	default:
		e = &entry[K]{key: key}
		t.all[key] = e
	}
	e.at = at
	t.used.PushBack(&e.link, e)
}
