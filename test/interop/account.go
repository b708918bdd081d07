package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// An account holds what was delivered in a case. Its methods may be called from
// any goroutine.
type account struct {
	mu      sync.Mutex
	got     map[delivery]int
	sums    map[string]uint32 // of bodies, by key
	damaged []string          // keys that came with different bodies
	reports []sink.Delivery   // from the null sender
	changed chan struct{}     // has room for one
}

type delivery struct {
	key string
	to  mail.Address
}

func newAccount() *account {
	return &account{got: make(map[delivery]int), sums: make(map[string]uint32), changed: make(chan struct{}, 1)}
}

// taken is told by our receiver of each message.
func (a *account) taken(d sink.Delivery) {
	if d.Sender == "" {
		a.mu.Lock()
		a.reports = append(a.reports, d)
		a.mu.Unlock()
	} else {
		a.note(d.Key, d.Recipients, d.BodySum)
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
	}
	if before, found := a.sums[key]; found && before != bodySum {
		a.damaged = append(a.damaged, key)
	}
	a.sums[key] = bodySum
}

// Times of waiting for deliveries: without any news, at most; and behind the
// last one, for those that must not come.
const (
	newsMax   = 30 * time.Second
	quietTime = 300 * time.Millisecond
)

// wait waits until so many recipients and reports have got something, and a
// little longer.
func (a *account) wait(ctx context.Context, deliveries, reports int) error {
	for {
		a.mu.Lock()
		gotDeliveries, gotReports := a.total(), len(a.reports)
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

func (a *account) total() (n int) {
	for _, times := range a.got {
		n += times
	}
	return n
}

// verify compares what was delivered with what was sent, letter by letter and
// recipient by recipient.
func (a *account) verify(sent []letter) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var missing, twice, damaged, strange complaints
	expected := make(map[delivery]bool)
	for _, l := range sent {
		for _, to := range l.recipients {
			d := delivery{l.key, to}
			expected[d] = true
			switch n := a.got[d]; {
			case n == 0:
				missing.add("%s for %s", l.key, to)
			case n > 1:
				twice.add("%s for %s: %d times", l.key, to, n)
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
	return errors.Join(missing.error("missing"), twice.error("delivered again"), damaged.error("damaged"), strange.error("not expected"))
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

// A receiver is our sink, which books what it takes in the account of the case
// that is under way.
type receiver struct {
	*sink.Server
	mu      sync.Mutex
	current *account
}

func newReceiver() (*receiver, error) {
	r := &receiver{current: newAccount()}
	var err error
	r.Server, err = sink.New(sink.Config{Hostname: "receiver.test", ContentKept: 1 << 20, Taken: func(d sink.Delivery) {
		r.mu.Lock()
		a := r.current
		r.mu.Unlock()
		a.taken(d)
	}})
	return r, err
}

// open begins a new account and returns it.
func (r *receiver) open() *account {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = newAccount()
	return r.current
}
