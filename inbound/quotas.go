package inbound

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/quota"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// Quotas are the limits of classes, tenants and flows, with what was sent under them. All
// methods may be called concurrently.
type Quotas struct {
	now func() mail.Instant
	any atomic.Bool // there are limits
	of  atomic.Uint32

	mu   sync.Mutex // guards the field below
	book *quota.Book
}

// NewQuotas returns quotas under which nothing was sent.
func NewQuotas(cfg quota.Config) *Quotas {
	start := time.Now()
	// It is not the wall clock: that may be set back, and what was sent before would count
	// until it has caught up.
	now := func() mail.Instant { return mail.Instant(start.UnixNano()).Add(time.Since(start)) }
	q := &Quotas{now: now, book: quota.New(cfg)}
	q.set(&cfg)
	return q
}

// set notes whether there is something to check.
func (q *Quotas) set(cfg *quota.Config) {
	q.any.Store(cfg.Any())
	q.of.Store(uint32(cfg.Counts()))
}

// Configure replaces the limits for messages that are checked from now on. What was sent
// counts under the new limits, too.
func (q *Quotas) Configure(cfg quota.Config) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.book.Configure(cfg, q.now())
	q.set(&cfg)
}

// active reports whether there are limits.
func (q *Quotas) active() bool { return q != nil && q.any.Load() }

// check decides before the end of the content, by what is certain. Counts may be
// outdated by the end, where admit decides.
func (q *Quotas) check(m *quota.Message, sink Sink) mail.Reply {
	var w mail.Waiting
	if sink != nil && mail.CountLevel(q.of.Load()) != mail.CountNothing {
		w = sink.Waiting(m.Flow)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return replyTo(q.book.Check(q.now(), m, w))
}

// admit decides at the end of the content, and counts the message. retract takes that back.
func (q *Quotas) admit(m *quota.Message, draft Draft) (retract func(), refusal mail.Reply, err error) {
	var at mail.Instant
	retract = func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.book.Retract(at, m)
	}
	decide := func(w mail.Waiting) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		at = q.now()
		refusal = replyTo(q.book.Admit(at, m, w))
		return refusal.IsZero()
	}
	if mail.CountLevel(q.of.Load()) == mail.CountNothing {
		decide(mail.Waiting{})
		return retract, refusal, nil
	}
	_, err = draft.Reserve(m.Flow, m.Octets, decide)
	return retract, refusal, err
}

func replyTo(r *quota.Refusal) mail.Reply {
	if r == nil {
		return mail.Reply{}
	}
	return r.Reply()
}

// Refused returns how many messages and recipients each kind of limit has refused.
func (q *Quotas) Refused(k quota.Kind, r quota.Resource) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.book.Refused(k, r)
}

// Views returns the classes and tenants that have limits of their own, and then others
// that have sent something under limits, at most most of all.
func (q *Quotas) Views(most int) []quota.View {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.book.Views(q.now(), most)
}

// View returns the limits and the use of one class, tenant or flow.
func (q *Quotas) View(kind quota.Kind, tenant, name string) quota.View {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.book.View(q.now(), kind, tenant, name)
}

// Save returns what has changed since the last Save and must outlive the process, at most
// most entries; see quota.Book.Save.
func (q *Quotas) Save(most int) (list []quota.Saved, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.book.Save(q.now(), most)
}

// Unsaved has Save return again what could not be kept.
func (q *Quotas) Unsaved(list []quota.Saved) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.book.Unsaved(list)
}

// Restore takes over what was saved; false means that it is not needed any more.
func (q *Quotas) Restore(s quota.Saved) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.book.Restore(s, q.now())
}

// A foreseen is the information about a message that is certain at MAIL.
type foreseen struct {
	flow       mail.Flow
	known      quota.Known
	recipients int // accepted so far
}

// foresee begins the checks of a message, and returns the refusal of MAIL.
func (c *connection) foresee(rules *flow.Rules, sender mail.Address, r *server.Begin) mail.Reply {
	c.ahead = foreseen{}
	q := c.server.cfg.Quotas
	if rules == nil || !q.active() {
		return mail.Reply{}
	}
	var known flow.Known
	c.ahead.flow, known = rules.Foresee(c.origin, sender, r.Priority)
	c.ahead.known = quota.Known(known)
	return q.check(&quota.Message{Flow: c.ahead.flow, Known: c.ahead.known, Moment: quota.AtMail, Octets: r.Size}, c.server.sink)
}

// roomFor returns the refusal of one recipient more.
func (c *connection) roomFor() mail.Reply {
	q := c.server.cfg.Quotas
	if c.ahead.known == (quota.Known{}) || !q.active() {
		return mail.Reply{}
	}
	return q.check(&quota.Message{Flow: c.ahead.flow, Known: c.ahead.known, Moment: quota.AtRecipient, Recipients: c.ahead.recipients + 1}, nil)
}

// admit returns the refusal of a complete message. retract is called if it is not accepted
// for another reason.
func (c *connection) admit(e *mail.Envelope, draft Draft) (retract func(), refusal mail.Reply, err error) {
	q := c.server.cfg.Quotas
	if !q.active() {
		return func() {}, mail.Reply{}, nil
	}
	return q.admit(&quota.Message{Flow: e.Flow, Octets: e.Size, Recipients: int(e.Recipients)}, draft)
}
