package mtasts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/atomicfile"
)

// A Store knows the policies of domains. It is safe for concurrent use.
type Store struct {
	cfg   Config
	fetch func(ctx context.Context, domain string) (Policy, *Error)
	write func(path string, text []byte) error
	slots chan struct{} // one element for each fetch under way
	spare chan struct{} // one for each that renews a policy

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	entries  cache
	flights  map[string]chan struct{} // domains being fetched; closed at the end
	searches map[string]chan struct{} // domains being looked for, in the DNS and then by fetching; closed at the end
	changed  bool                     // since the last save
	closed   bool
}

// New returns a store with the policies of the last run. It must be closed.
func New(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	f := &fetcher{c}
	s := &Store{
		cfg: c, fetch: f.fetch, write: func(path string, text []byte) error { return atomicfile.Replace(path, text, nil) },
		slots:    make(chan struct{}, c.Fetches),
		spare:    make(chan struct{}, (c.Fetches+1)/2),
		entries:  newCache(c.Entries),
		flights:  make(map[string]chan struct{}),
		searches: make(map[string]chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.load(time.Now())
	s.tasks.Go(s.keep)
	return s, nil
}

// Close cancels all fetches, waits for them to end and saves the policies. Callers that wait
// get what is in force.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.tasks.Wait()
	s.save()
}

// Times of the store. They are documented in doc.go.
const (
	// checkEvery is the interval between looks for a new id while there is mail.
	checkEvery = 5 * time.Minute
	// renewEvery is the age at which a policy is renewed, unless half of its max_age is
	// less (RFC 8461 10.2 suggests a day).
	renewEvery = 24 * time.Hour
	// usedWithin is the time since the last mail within which policies are renewed.
	usedWithin = 30 * 24 * time.Hour
	// inForceMin is the time for which a policy is in force even if its max_age is less,
	// so that a max_age of 0 does not make a fetch of each message.
	inForceMin = 5 * time.Minute
	// retryMin and retryMax are the first and longest delay after a failed fetch; it
	// doubles from one to the other.
	retryMin = 5 * time.Minute
	retryMax = 24 * time.Hour
	// rest is the least time between two fetches from one domain.
	rest = time.Minute
)

// Lookup returns the policy that is in force for a domain, if there is one. If none is in memory
// it searches for one, which takes as long as Config.Timeout for the record and as long again for
// the policy. If ctx ends first there is no policy, and the error is that of ctx: whether there is
// one is not known yet. The search goes on, and a later Lookup finds its result.
//
// The domain is the one to which RFC 8461 applies: that of the recipient, or the relay
// through which its mail goes, without brackets. The policy's MX is shared and
// must not be changed.
func (s *Store) Lookup(ctx context.Context, domain string) (p Policy, ok bool, err error) {
	name, ok := canonical(domain)
	if !ok {
		return Policy{}, false, nil
	}
	p, found, check := s.known(name, time.Now())
	if check {
		s.search(name)
	}
	if found {
		return p, true, nil
	}
	return s.searched(ctx, name)
}

// Recheck is Lookup, but looks for a new policy first even if one is in force, which
// must be done before mail is returned because of it (RFC 8461 5.1). It asks no more
// often than there may be a new answer. If ctx ends first it returns what is in force, and the
// error of ctx.
func (s *Store) Recheck(ctx context.Context, domain string) (p Policy, ok bool, err error) {
	name, ok := canonical(domain)
	if !ok {
		return Policy{}, false, nil
	}
	return s.searched(ctx, name)
}

// searched waits for the end of a search, and returns what is in force then.
func (s *Store) searched(ctx context.Context, name string) (Policy, bool, error) {
	var err error
	select {
	case <-s.search(name):
	case <-ctx.Done():
		err = ctx.Err()
	}
	p, found, _ := s.known(name, time.Now())
	switch {
	case found:
		err = nil
	case err == nil:
		err = s.ctx.Err() // the store was closed, which ended the search
	}
	return p, found, err
}

// search starts a search for the policy of a domain, unless one is already in progress, and returns
// a channel that is closed when the search is over. The search goes on even if no caller waits for
// it any more: mail is sent without a policy that takes too long, and the next mail should have it.
func (s *Store) search(name string) (done chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done = s.searches[name]; done != nil {
		return done
	}
	done = make(chan struct{})
	if s.closed {
		close(done)
		return done
	}
	s.searches[name] = done
	s.tasks.Go(func() {
		s.check(name)
		s.mu.Lock()
		delete(s.searches, name)
		s.mu.Unlock()
		close(done)
	})
	return done
}

// known returns the policy in memory, notes that there is mail for the domain, and
// reports whether it is time to look for a new id.
func (s *Store) known(name string, now time.Time) (p Policy, found, check bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries.get(name)
	if e == nil || !e.inForce(now) {
		return Policy{}, false, false
	}
	e.used = now
	check = !now.Before(e.checked.Add(checkEvery)) && s.flights[name] == nil
	if check {
		e.checked = now
	}
	return e.policy, true, check
}

// check asks the DNS for the id, and fetches the policy if there is a new one. It returns
// when that is done, or when the store is closed.
func (s *Store) check(name string) {
	limited, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	id, err := s.announced(limited, name)
	cancel()
	s.mu.Lock()
	now := time.Now()
	e := s.entries.peek(name)
	if e != nil {
		e.checked = now
		e.flawed = err != nil && !errors.Is(err, ErrNoRecord)
	}
	if err != nil { // what is in force stays so
		s.mu.Unlock()
		return
	}
	done := s.flights[name]
	if done == nil && e.wants(id, now) {
		done = s.start(name, id, s.slots)
	}
	s.mu.Unlock()
	if done == nil {
		return
	}
	<-done // the fetch has a time limit, and ends when the store is closed
}

// recordPrefix, followed by the domain, is the name of the TXT record (RFC 8461 3.1).
const recordPrefix = "_mta-sts."

// announced returns the id in the domain's record.
func (s *Store) announced(ctx context.Context, name string) (id string, err error) {
	texts, err := s.cfg.Resolver.TXT(ctx, recordPrefix+name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoRecord, err) // as good as none (RFC 8461 3.1)
	}
	return ParseRecords(texts)
}

// start begins to fetch a policy when there is room. The mutex must be held.
func (s *Store) start(name, id string, room chan struct{}) (done chan struct{}) {
	if s.closed {
		return nil
	}
	done = make(chan struct{})
	s.flights[name] = done
	s.tasks.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
		defer cancel()
		p, wrong := s.fetchIn(ctx, room, name)
		p.ID = id
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.flights, name)
		if s.ctx.Err() != nil {
			return // the failure is our own
		}
		s.enter(name, p, wrong, time.Now())
	})
	return done
}

// fetchIn waits for room and fetches a policy.
func (s *Store) fetchIn(ctx context.Context, room chan struct{}, name string) (Policy, *Error) {
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
		return s.fetch(ctx, name)
	case <-ctx.Done():
		return Policy{}, failed(FetchError, "policy of %s: too many policies are being fetched", name)
	}
}

// enter stores the result of a fetch. The mutex must be held.
func (s *Store) enter(name string, p Policy, wrong *Error, now time.Time) {
	e := s.entries.peek(name)
	if e == nil {
		e = &entry{domain: name, used: now, checked: now}
	}
	e.tried = now
	if wrong == nil {
		if e.fetched.IsZero() || e.policy.ID != p.ID || e.policy.Mode != p.Mode {
			s.cfg.Logger.Info("MTA-STS policy found", "domain", name, "mode", p.Mode.String(), "id", p.ID, "max_age", p.MaxAge, "mx", len(p.MX))
		}
		e.policy, e.fetched, e.problem, e.failures, e.failedID, e.retry = p, now, nil, 0, "", time.Time{}
		s.changed = true
	} else {
		e.problem, e.failedID = wrong, p.ID
		e.failures++
		e.retry = now.Add(retryTime(e.failures))
		level := slog.LevelInfo
		if e.inForce(now) {
			level = slog.LevelWarn
		}
		s.cfg.Logger.Log(s.ctx, level, "MTA-STS policy cannot be fetched", "domain", name, "error", wrong, "in_force", e.inForce(now), "next", e.retry.Format(time.RFC3339))
	}
	s.entries.put(e)
}

// retryTime returns the delay after the n-th failed fetch in a row.
func retryTime(n int) time.Duration {
	d := retryMin
	for ; n > 1 && d < retryMax; n-- {
		d *= 2
	}
	return min(d, retryMax)
}

// canonical returns a domain in the form of keys. ok is false for what has no policy:
// addresses, and texts that are no names.
func canonical(domain string) (name string, ok bool) {
	name = strings.ToLower(strings.TrimSuffix(domain, "."))
	_, err := netip.ParseAddr(name)
	return name, err != nil && isPattern(name) && !strings.HasPrefix(name, "*") && len(recordPrefix)+len(name) <= domainMax
}

// A Status describes a domain's policy, for people and reports.
type Status struct {
	Policy  Policy // the last one that was fetched
	InForce bool   // whether it is in force
	Fetched time.Time
	Expires time.Time
	Err     error     // what is wrong now, an *Error; nil if nothing is
	Retry   time.Time // after a failed fetch: not before this time is a policy of the same id fetched again
}

// Status returns what is known of a domain, without any request to the network.
func (s *Store) Status(domain string) (st Status, ok bool) {
	name, _ := canonical(domain)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries.peek(name)
	if e == nil {
		return Status{}, false
	}
	st = Status{Policy: e.policy, InForce: e.inForce(now), Fetched: e.fetched, Retry: e.retry}
	if !e.fetched.IsZero() {
		st.Expires = e.expires()
	}
	switch {
	case e.problem != nil:
		st.Err = e.problem
	case e.flawed:
		st.Err = failed(Invalid, "TXT record of %s: it is malformed, or not the only one", recordPrefix+name)
	}
	return st, true
}
