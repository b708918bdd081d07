package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A FlushQueue tries deferred mail. In its arguments a domain with a leading dot stands for the domain and its
// subdomains.
type FlushQueue interface {
	// Retry has the mail for some domains tried now, and returns the number of messages. It may take as long as
	// the queue is large. reason is for the log.
	Retry(ctx context.Context, domains []string, reason string) (messages int, err error)
	// Count returns the number of messages that Retry would try, and whether that is all of them. It takes a
	// second at most, since a client waits for the answer.
	Count(ctx context.Context, domains []string) (messages int, whole bool, err error)
}

// FlushConfig configures a Flusher. The names in parentheses are Postfix's.
type FlushConfig struct {
	// Domains are those whose mail clients may have tried (fast_flush_domains). ".example.com" stands for all
	// names below example.com. Default none.
	Domains []string
	// Interval is the shortest time between two tries of the mail for one domain. Default 1 minute.
	Interval time.Duration
}

// WithDefaults returns c with its zero values replaced.
func (c FlushConfig) WithDefaults() FlushConfig {
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	return c
}

// Validate returns all errors of a FlushConfig with its defaults, joined.
func (c FlushConfig) Validate() error {
	_, err := newDomainSet("fast flush domain", c.Domains)
	if c.Interval < 0 {
		err = errors.Join(err, fmt.Errorf("fast flush interval %s is negative", c.Interval))
	}
	return err
}

// Limits on what clients can ask of a Flusher. They are for names that are only below domains on the list: those on
// the list are as many as it has.
const (
	// flushDomainsMax is the number of names that wait, or that were flushed within the last interval.
	flushDomainsMax = 1000
	// flushStrangersMax is the number of those that strangers have asked for: trusted clients find room in any case.
	flushStrangersMax = 900
	// flushNetworkMax is the number of those that strangers of one network have asked for.
	flushNetworkMax = 20
	// flushRest is the shortest pause between two flushes. flushRestFactor is the number of times that the pause is
	// longer than the flush before it: whatever clients ask for, the queue is searched for them during a fifth
	// of the time at most.
	flushRest       = time.Second
	flushRestFactor = 4
)

// A Flusher has the mail for domains tried at the request of clients (ETRN, RFC 1985): of sites that are not always
// connected, and ask for their mail when they are. It notes the domains and returns. Run then has the mail of
// all that wait tried by one search of the queue at a time. A domain is flushed once in an interval. A request
// within it is not lost but served when the interval ends, or anybody could keep a site from its mail by asking for
// it too often.
//
// All methods may be called concurrently.
type Flusher struct {
	log   *slog.Logger
	queue FlushQueue
	wake  chan struct{} // something waits

	counting sync.Mutex // held while messages are counted for the reply to a client

	mu        sync.Mutex // guards the fields below
	domains   domainSet
	interval  time.Duration
	known     map[string]*flushState // by domain, with a leading dot if with its subdomains
	limited   int                    // the names of known that count for a limit
	strange   int                    // those of limited that strangers have asked for
	strangers map[netip.Prefix]int   // the same by their networks
}

// flushState is what is known of a domain that clients have asked for.
type flushState struct {
	wanted  bool         // it waits to be flushed
	last    time.Time    // when it was flushed last; zero if it was not
	limited bool         // it counts for a limit
	from    netip.Prefix // of the strangers for whom it counts; not valid if for none
}

// NewFlusher returns a Flusher for a queue.
func NewFlusher(cfg FlushConfig, queue FlushQueue, log *slog.Logger) (*Flusher, error) {
	f := &Flusher{log: log, queue: queue, wake: make(chan struct{}, 1), known: make(map[string]*flushState), strangers: make(map[netip.Prefix]int)}
	return f, f.Configure(cfg)
}

// Configure replaces the configuration. What waits is flushed even if its domain is no longer in the list. After an error nothing has changed.
func (f *Flusher) Configure(cfg FlushConfig) error {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	domains, err := newDomainSet("fast flush domain", cfg.Domains)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.domains, f.interval = domains, cfg.Interval
	f.mu.Unlock()
	f.rouse() // the interval may have become shorter
	return nil
}

// flushAsked is a client's request.
type flushAsked struct {
	name    smtp.ETRN
	trusted bool         // the client may learn what is in the queue
	from    netip.Prefix // the network of a stranger
}

// flush notes a request, and returns the reply; a zero one is 250. Only trusted clients wait, and only they learn
// whether there is mail: the reply to others is the same in any case.
func (f *Flusher) flush(ctx context.Context, a flushAsked) mail.Reply {
	key, refusal := f.keyOf(a.name)
	if !refusal.IsZero() {
		return refusal
	}
	due, refusal := f.note(time.Now(), key, a)
	if !refusal.IsZero() {
		return refusal
	}
	var reply mail.Reply
	if due && a.trusted {
		reply = f.count(ctx, key, a.name)
	}
	f.rouse()
	return reply
}

// keyOf returns the key of a name in known, or why it is refused.
func (f *Flusher) keyOf(name smtp.ETRN) (key string, refusal mail.Reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case name.Queue != "":
		return "", notAllowed(name, "there are no queues with names")
	case !f.domains.has(name.Domain), name.Below && !f.domains.hasBelow(name.Domain):
		return "", notAllowed(name, "its mail cannot be requested here")
	case name.Below:
		return "." + name.Domain, mail.Reply{}
	}
	return name.Domain, mail.Reply{}
}

// note notes that a domain is wanted, or returns why that is not possible. due is whether it is new, and can be
// flushed at once.
func (f *Flusher) note(now time.Time, key string, a flushAsked) (due bool, refusal mail.Reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.known[key]; s != nil && (s.wanted || now.Sub(s.last) < f.interval) {
		s.wanted = true
		return false, mail.Reply{}
	}
	f.forget(key) // its interval is over
	s := &flushState{wanted: true}
	if !f.domains.lists(key) {
		if s.limited, s.from = true, a.from; f.full(a.from) {
			f.purge(now)
		}
		switch {
		case f.strangers[a.from] >= flushNetworkMax:
			return false, notNow(a.name, 7, 1)
		case f.full(a.from):
			return false, notNow(a.name, 3, 2)
		}
		f.limited++
		if a.from.IsValid() {
			f.strange++
			f.strangers[a.from]++
		}
	}
	f.known[key] = s
	return true, mail.Reply{}
}

// full reports whether no more names can be noted for strangers of a network, or for a trusted client if that is not valid.
func (f *Flusher) full(from netip.Prefix) bool {
	if !from.IsValid() {
		return f.limited >= flushDomainsMax
	}
	return f.strangers[from] >= flushNetworkMax || f.strange >= flushStrangersMax || f.limited >= flushDomainsMax
}

// forget drops what is known of a domain.
func (f *Flusher) forget(key string) {
	s := f.known[key]
	if s == nil {
		return
	}
	delete(f.known, key)
	if !s.limited {
		return
	}
	f.limited--
	if !s.from.IsValid() {
		return
	}
	f.strange--
	if f.strangers[s.from]--; f.strangers[s.from] == 0 {
		delete(f.strangers, s.from)
	}
}

// purge forgets the domains that do not wait and whose interval is over.
func (f *Flusher) purge(now time.Time) {
	for key, s := range f.known {
		if !s.wanted && now.Sub(s.last) >= f.interval {
			f.forget(key)
		}
	}
}

// count returns the reply to a trusted client, which says how much there is (RFC 1985 5.3): a zero one if that cannot
// be found out soon. One client at a time has its mail counted.
func (f *Flusher) count(ctx context.Context, key string, name smtp.ETRN) mail.Reply {
	if !f.counting.TryLock() {
		return mail.Reply{}
	}
	defer f.counting.Unlock()
	messages, whole, err := f.queue.Count(ctx, withUnicode([]string{key}))
	if err != nil {
		if ctx.Err() == nil {
			f.log.Error("cannot count the mail for a domain", "domain", name.String(), "error", err)
		}
		return mail.Reply{}
	}
	say := func(code uint16, format string, args ...any) mail.Reply {
		return mail.Reply{Code: code, Status: mail.Status{Class: 2}, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case messages > 0 && whole:
		return say(253, "OK, %d pending messages for node %s started", messages, name)
	case messages > 0:
		return say(252, "OK, pending messages for node %s started", name)
	case whole:
		return say(251, "OK, no messages waiting for node %s", name)
	}
	return mail.Reply{}
}

// rouse has Run look for what waits.
func (f *Flusher) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the domains that are due, as flushed from now on, and the time until the next one is due; 0 if none
// waits.
func (f *Flusher) take(now time.Time) (due []string, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.purge(now)
	for key, s := range f.known {
		if !s.wanted {
			continue
		}
		if left := f.interval - now.Sub(s.last); !s.last.IsZero() && left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		s.wanted, s.last = false, now
		due = append(due, key)
	}
	slices.Sort(due)
	return due, wait
}

// Run flushes what clients ask for until ctx ends. What waits then is forgotten: after a restart all mail has its own time, and
// the client asks again.
func (f *Flusher) Run(ctx context.Context) {
	for {
		due, wait := f.take(time.Now())
		if len(due) > 0 {
			wait = f.try(ctx, due)
			if !sleep(ctx, nil, wait) {
				return
			}
			continue
		}
		if !sleep(ctx, f.wake, wait) {
			return
		}
	}
}

// try flushes some domains, and returns the pause after that.
func (f *Flusher) try(ctx context.Context, domains []string) time.Duration {
	begin := time.Now()
	messages, err := f.queue.Retry(ctx, withUnicode(domains), "ETRN "+shown(domains))
	if err != nil && ctx.Err() == nil {
		f.log.Error("mail that clients have asked for by ETRN is not tried now, but at its own time", "domains", shown(domains), "messages", messages, "error", err)
	}
	return max(flushRest, flushRestFactor*time.Since(begin))
}

// sleep waits for some time, or without end if that is 0, or until woken; it reports whether ctx goes on.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var timeout <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-wake:
	case <-timeout:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// shown returns the first of some domains for the log.
func shown(domains []string) string {
	const most = 10
	text := strings.Join(domains[:min(len(domains), most)], " ")
	if more := len(domains) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// withUnicode returns domains with those that recipients of SMTPUTF8 may have in place of A-labels.
func withUnicode(domains []string) []string {
	var all []string
	for _, d := range domains {
		name, below := strings.CutPrefix(d, ".")
		for _, form := range spellings(name) {
			if below {
				form = "." + form
			}
			all = append(all, form)
		}
	}
	return all
}
