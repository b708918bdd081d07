package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// An account holds what was delivered in a case. Its methods may be called from
// any goroutine.
type account struct {
	name     string // of the case, which is in its letters' keys and senders; "" for all
	mu       sync.Mutex
	got      map[delivery]int
	total    int                           // of got
	sums     map[string]uint32             // of bodies, by key
	damaged  []string                      // keys that came with different bodies
	strayed  []string                      // deliveries under an envelope that is not theirs
	failed   map[mail.Address]int          // how often a report says so, by recipient
	failures int                           // of failed
	reports  []sink.Delivery               // from the null sender
	contents map[mail.Address][]byte       // by recipient; nil if they are not kept
	senders  map[mail.Address]mail.Address // likewise
	changed  chan struct{}                 // has room for one
}

type delivery struct {
	key string
	to  mail.Address
}

func newAccount(name string) *account {
	return &account{name: name, got: make(map[delivery]int), sums: make(map[string]uint32), failed: make(map[mail.Address]int), changed: make(chan struct{}, 1)}
}

// owns reports whether a message belongs to the case of the account: a letter of it, or
// a report about one.
func (a *account) owns(d sink.Delivery) bool {
	if d.Sender == "" && len(d.Recipients) > 0 {
		return strings.HasSuffix(d.Recipients[0].Local(), "."+a.name)
	}
	return strings.HasPrefix(d.Key, "<"+a.name+"-")
}

// taken is called by our receiver for each message.
func (a *account) taken(d sink.Delivery) {
	if d.Sender == "" {
		a.report(d)
	} else {
		a.note(d.Key, d.Recipients, d.BodySum)
		a.compareEnvelope(d)
		a.keep(d)
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// note books a message for each of its recipients.
func (a *account) note(key string, recipients []mail.Address, bodySum uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, to := range recipients {
		a.got[delivery{key, to}]++
		a.total++
	}
	if before, found := a.sums[key]; found && before != bodySum {
		a.damaged = append(a.damaged, key)
	}
	a.sums[key] = bodySum
}

// keep keeps a content and its sender.
func (a *account) keep(d sink.Delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, to := range d.Recipients {
		if a.contents != nil {
			a.contents[to] = d.Content
		}
		if a.senders != nil {
			a.senders[to] = d.Sender
		}
	}
}

// compareEnvelope reports whether a letter came under the envelope that it was given:
// with its sender, and for some of its recipients. smtp-source's messages do not
// say.
func (a *account) compareEnvelope(d sink.Delivery) {
	sender, recipients, found := envelopeIn(d.Content)
	if !found {
		return
	}
	right := sender == d.Sender
	for _, to := range d.Recipients {
		right = right && slices.Contains(recipients, to)
	}
	if !right {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.strayed = append(a.strayed, fmt.Sprintf("%s, from %s for %s, came from %s for %s", d.Key, sender, recipients, d.Sender, d.Recipients))
	}
}

// report books a report and the recipients whose failure it reports (RFC 3464 2.3).
func (a *account) report(d sink.Delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reports = append(a.reports, d)
	var about mail.Address
	for line := range strings.Lines(string(d.Content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch strings.ToLower(name) {
		case "final-recipient":
			_, address, _ := strings.Cut(value, ";")
			about = mail.Address(strings.TrimSpace(address))
		case "action":
			if value == "failed" {
				a.failed[about]++
				a.failures++
			}
		}
	}
}

// Times of waiting for deliveries: without any news, at most; and behind the
// last one, for those that must not come.
const (
	newsMax   = 2 * time.Minute
	quietTime = 300 * time.Millisecond
)

// wait waits until so many recipients and reports have got something, and a
// little longer.
func (a *account) wait(ctx context.Context, deliveries, reports int) error {
	for {
		a.mu.Lock()
		gotDeliveries, gotReports := a.total, len(a.reports)
		a.mu.Unlock()
		if gotDeliveries >= deliveries && gotReports >= reports {
			time.Sleep(quietTime)
			return nil
		}
		select {
		case <-a.changed:
		case <-time.After(newsMax):
			return fmt.Errorf("no news for %s: %d of %d deliveries, %d of %d reports", newsMax, gotDeliveries, deliveries, gotReports, reports)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// verify compares what was delivered with what was sent: each recipient must have
// got each letter exactly once.
func (a *account) verify(sent []letter) error {
	_, err := a.judge(sent, new(excuses))
	return err
}

// excuses are what explains that a letter did not come, or came again.
type excuses struct {
	// refused means that servers refuse mail: then a report about a recipient is as
	// good as its letter, but not both, and not two.
	refused bool
	// doubts are how often it could not be known of a recipient whether its letter was
	// taken: so often it may have been sent again.
	doubts map[mail.Address]int
	// held are the recipients whose letters wait for an operator, with the letters'
	// IDs. They may have come, but not twice.
	held map[mail.Address]string
}

// judge compares what was delivered with what was sent. It returns how many letters
// came again for which there is an excuse.
func (a *account) judge(sent []letter, e *excuses) (again int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var missing, twice, damaged, strange, strayed complaints
	expected := make(map[delivery]bool)
	for _, l := range sent {
		for _, to := range l.recipients {
			d := delivery{l.key, to}
			expected[d] = true
			got, failed := a.got[d], 0
			if e.refused {
				failed = a.failed[to]
			}
			most := 1 + e.doubts[to]
			if e.held[to] != "" {
				most--
			}
			switch {
			case got+failed == 0 && e.held[to] == "":
				missing.add("%s for %s", l.key, to)
			case got+failed <= most:
				again += max(got+failed-1, 0)
			case failed > 0:
				twice.add("%s for %s: %d times, and %d reports of failure", l.key, to, got, failed)
			default:
				twice.add("%s for %s: %d times", l.key, to, got)
			}
		}
		if sum, found := a.sums[l.key]; found && sum != l.bodySum() {
			damaged.add("%s", l.key)
		}
	}
	for d := range a.got {
		if !expected[d] {
			strange.add("%s for %s", d.key, d.to)
		}
	}
	for _, key := range a.damaged {
		damaged.add("%s", key)
	}
	for _, what := range a.strayed {
		strayed.add("%s", what)
	}
	return again, errors.Join(missing.error("missing"), twice.error("delivered again"), damaged.error("damaged"),
		strange.error("not expected"), strayed.error("under a wrong envelope"))
}

// unsettled is the number of recipients that have got neither letter nor report, and wait for
// no operator.
func (a *account) unsettled(sent []letter, held map[mail.Address]string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range sent {
		for _, to := range l.recipients {
			if a.got[delivery{l.key, to}] == 0 && a.failed[to] == 0 && held[to] == "" {
				n++
			}
		}
	}
	return n
}

// complaints count, and keep the first few.
type complaints struct {
	n     int
	first []string
}

func (c *complaints) add(format string, args ...any) {
	if c.n++; c.n <= 5 {
		c.first = append(c.first, fmt.Sprintf(format, args...))
	}
}

func (c *complaints) error(what string) error {
	if c.n == 0 {
		return nil
	}
	return fmt.Errorf("%d %s: %s", c.n, what, strings.Join(c.first, "; "))
}

// A receiver is our sink, which books what it takes in the account of the case that
// it belongs to. What belongs to none is booked in all, where it is unexpected.
type receiver struct {
	*sink.Server
	mu   sync.Mutex
	open []*account
}

func newReceiver() (*receiver, error) {
	r := new(receiver)
	var err error
	r.Server, err = sink.New(sink.Config{Hostname: "receiver.test", ContentKept: 1 << 20, Taken: func(d sink.Delivery) {
		for _, a := range r.owners(d) {
			a.taken(d)
		}
	}})
	return r, err
}

func (r *receiver) owners(d sink.Delivery) []*account {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range r.open {
		if a.name == "" || a.owns(d) {
			return r.open[i : i+1 : i+1]
		}
	}
	return slices.Clone(r.open)
}

// account begins a new account for a case, and returns it. Cases without a name
// in their letters are alone.
func (r *receiver) account(name string) *account {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := newAccount(name)
	r.open = append(slices.Clone(r.open), a)
	return a
}

// close ends an account.
func (r *receiver) close(a *account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = slices.DeleteFunc(slices.Clone(r.open), func(b *account) bool { return a == b })
}
