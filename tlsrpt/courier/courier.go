package courier

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/tlsrpt"
)

// A Courier counts sessions and sends reports on them. It is safe for concurrent use.
type Courier struct {
	cfg Config

	files   sync.Mutex // held while the file is written; before mu
	mu      sync.Mutex
	book    tlsrpt.Book
	tasks   map[taskKey]*task
	changed bool // since the last save
}

// A taskKey is the domain and day of a report.
type taskKey struct {
	day    tlsrpt.Day
	domain string
}

// A task is a report that is being sent. It belongs to the goroutine that sends it, but for to.
type task struct {
	to       map[string]progress // by destination; under mu
	failures int
	next     time.Time // not before
	why      error     // of the last failure
}

// A progress is how far a report is on its way to one destination.
type progress uint8

const (
	notSent progress = iota // or it could not be, and must be tried again
	claimed                 // it is being sent: it may have arrived
	sent                    // or never will be
)

// taken returns the destinations to which the report does not go again after a restart, in order.
func (e *task) taken() []string {
	var list []string
	for to, p := range e.to {
		if p != notSent {
			list = append(list, to)
		}
	}
	slices.Sort(list)
	return list
}

// Times of a courier. They are documented in doc.go.
const (
	saveEvery  = 10 * time.Minute
	lookEvery  = time.Minute
	retryMin   = 5 * time.Minute
	retryMax   = time.Hour
	dropAfter  = 24 * time.Hour
	sentAtOnce = 8
)

// New returns a courier with the counts of the last run. Run sends; Close must be called at the end.
func New(cfg Config) (*Courier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Courier{cfg: cfg.WithDefaults(), tasks: make(map[taskKey]*task)}
	c.load()
	return c, nil
}

// Success counts a session that satisfied a policy, or had none to satisfy.
func (c *Courier) Success(domain string, p tlsrpt.Policy) {
	day := tlsrpt.DayOf(c.cfg.Now())
	c.mu.Lock()
	c.book.Success(day, domain, p, 1)
	c.changed = true
	c.mu.Unlock()
}

// Failure counts a session that did not. f.Sessions counts as 1.
func (c *Courier) Failure(domain string, p tlsrpt.Policy, f tlsrpt.Failure) {
	day := tlsrpt.DayOf(c.cfg.Now())
	f.Sessions = 1
	c.mu.Lock()
	c.book.Failure(day, domain, p, f)
	c.changed = true
	c.mu.Unlock()
}

// Identify replaces who reports, for reports that are sent from now on.
func (c *Courier) Identify(i Identity) {
	c.mu.Lock()
	c.cfg.Identity = Config{Identity: i}.WithDefaults().Identity
	c.mu.Unlock()
}

// Days returns the days of which there are counts, the oldest first.
func (c *Courier) Days() []tlsrpt.Day {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.book.Days()
}

// Domains returns the domains with which there were sessions on a day, in order.
func (c *Courier) Domains(day tlsrpt.Day) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.book.Domains(day)
}

// Report returns the report on a domain as it would be sent now; ok is false if there were no
// sessions.
func (c *Courier) Report(day tlsrpt.Day, domain string) (r tlsrpt.Report, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sections := c.book.Sections(day, domain)
	id := c.cfg.Identity
	return tlsrpt.Report{Organization: id.Organization, Range: day.Range(), Contact: id.Contact,
		ID: fmt.Sprintf("%s.%s@%s", day, domain, id.Hostname), Sections: sections}, len(sections) > 0
}

// Run saves counts and sends reports until ctx ends.
func (c *Courier) Run(ctx context.Context) {
	var saving sync.WaitGroup
	saving.Go(func() { // to send thousands of reports to servers that do not answer takes hours
		every(ctx, saveEvery, c.save)
	})
	c.work(ctx)
	every(ctx, lookEvery, func() { c.work(ctx) })
	saving.Wait()
}

// every calls a function at intervals until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			f()
		}
	}
}

// Close saves the counts, with what has become of reports.
func (c *Courier) Close() { c.save() }

// due returns when the reports of a day are sent.
func (c *Courier) due(day tlsrpt.Day) time.Time {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", day, c.identity().Hostname)
	return (day + 1).Range().Start.Add(time.Duration(h.Sum64() % uint64(c.cfg.Spread)))
}

func (c *Courier) identity() Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.Identity
}

// work sends all reports whose time has come, and forgets those whose time is over.
func (c *Courier) work(ctx context.Context) {
	now := c.cfg.Now()
	var ready []taskKey
	for _, day := range c.Days() {
		due := c.due(day)
		switch {
		case day >= tlsrpt.DayOf(now) || now.Before(due):
			continue
		case !now.Before(due.Add(dropAfter)):
			c.drop(day)
			continue
		}
		c.mu.Lock()
		for _, domain := range c.book.Domains(day) {
			key := taskKey{day, domain}
			if !now.Before(c.taskOf(key).next) {
				ready = append(ready, key)
			}
		}
		c.mu.Unlock()
	}
	if len(ready) == 0 {
		return
	}
	c.tellSkipped()
	c.save() // a claim is appended to what it is about
	c.send(ctx, ready)
	c.save()
}

// taskOf returns the task of a report. The mutex must be held.
func (c *Courier) taskOf(key taskKey) *task {
	e := c.tasks[key]
	if e == nil {
		e = &task{to: make(map[string]progress)}
		c.tasks[key] = e
	}
	return e
}

// tellSkipped logs how much was not counted.
func (c *Courier) tellSkipped() {
	c.mu.Lock()
	n := c.book.Skipped
	c.book.Skipped = 0
	c.mu.Unlock()
	if n > 0 {
		c.cfg.Logger.Warn("TLS reports lack sessions, because too many domains or policies were counted", "sessions", n)
	}
}

// drop forgets the reports of a day.
func (c *Courier) drop(day tlsrpt.Day) {
	for _, domain := range c.Domains(day) {
		key := taskKey{day, domain}
		c.mu.Lock()
		why := c.taskOf(key).why
		c.mu.Unlock()
		c.cfg.Logger.Warn("TLS report dropped: it could not be sent in time", "domain", domain, "day", day.String(), "error", why)
		c.forget(key)
	}
}

func (c *Courier) forget(key taskKey) {
	c.mu.Lock()
	c.book.ForgetDomain(key.day, key.domain)
	delete(c.tasks, key)
	c.changed = true
	c.mu.Unlock()
}

// send sends reports, several at once.
func (c *Courier) send(ctx context.Context, ready []taskKey) {
	var group sync.WaitGroup
	slots := make(chan struct{}, sentAtOnce)
	for _, key := range ready {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			c.run(ctx, key)
		})
	}
	group.Wait()
}

// run sends one report to the destinations that have not had it.
func (c *Courier) run(ctx context.Context, key taskKey) {
	err := c.deliver(ctx, key)
	if ctx.Err() != nil && err != nil {
		return // the failure is our own
	}
	if err == nil {
		c.forget(key)
		return
	}
	c.mu.Lock()
	e := c.taskOf(key)
	e.why = err
	e.failures++
	e.next = c.cfg.Now().Add(min(retryMin<<min(e.failures-1, 8), retryMax))
	c.mu.Unlock()
	c.cfg.Logger.Info("TLS report not sent yet", "domain", key.domain, "day", key.day.String(), "error", err, "next", e.next.Format(time.RFC3339))
}

// recordPrefix, followed by the domain, is the name of the TXT record (RFC 8460 3).
const recordPrefix = "_smtp._tls."

// deliver sends a report. An error means that it must be tried again.
func (c *Courier) deliver(ctx context.Context, key taskKey) error {
	limited, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	texts, err := c.cfg.Resolver.TXT(limited, recordPrefix+key.domain)
	cancel()
	if err != nil {
		return fmt.Errorf("look up %s%s: %w", recordPrefix, key.domain, err)
	}
	uris, err := tlsrpt.ParseRecords(texts)
	if err != nil {
		if !errors.Is(err, tlsrpt.ErrNoRecord) {
			c.cfg.Logger.Info("TLS report not sent: "+recordPrefix+key.domain+" does not say where to", "domain", key.domain, "error", err)
		}
		return nil // the domain does not ask for reports
	}
	r, ok := c.Report(key.day, key.domain)
	if !ok {
		return nil
	}
	text, err := compress(r)
	if err != nil {
		return err
	}
	var failed []error
	for _, u := range uris {
		if err := c.attempt(ctx, key, u, &r, text); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// attempt sends a report to one destination, unless that has had it.
func (c *Courier) attempt(ctx context.Context, key taskKey, u *url.URL, r *tlsrpt.Report, text []byte) error {
	to := u.String()
	if c.progress(key, to) == sent {
		return nil
	}
	if err := c.claim(key, to); err != nil {
		c.advance(key, to, notSent)
		return fmt.Errorf("keep that the report is sent: %w", err)
	}
	err := c.convey(ctx, u, r, key, text)
	attrs := []any{"domain", key.domain, "day", key.day.String(), "to", mail.CleanText(to)}
	switch {
	case errors.Is(err, errNever), errors.Is(err, ErrUnsigned):
		c.cfg.Logger.Warn("TLS report not sent", append(attrs, "error", err)...)
	case err != nil:
		c.advance(key, to, notSent)
		return fmt.Errorf("%s: %w", mail.CleanText(to), err)
	default:
		c.cfg.Logger.Info("TLS report sent", append(attrs, "id", r.ID)...)
	}
	c.advance(key, to, sent)
	return nil
}

func (c *Courier) progress(key taskKey, to string) progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taskOf(key).to[to]
}

func (c *Courier) advance(key taskKey, to string, p progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taskOf(key).to[to] = p
	c.changed = true
}

// errNever is wrapped by errors that will not go away.
var errNever = errors.New("it cannot be sent there")

// convey sends a report to one destination.
func (c *Courier) convey(ctx context.Context, u *url.URL, r *tlsrpt.Report, key taskKey, text []byte) error {
	if u.Scheme == "https" {
		return c.post(ctx, u, text)
	}
	to, err := recipient(u)
	if err != nil {
		return err
	}
	m := compose(c.identity().From, to, r, key, text, c.cfg.Now())
	return c.cfg.Mail(ctx, m)
}
