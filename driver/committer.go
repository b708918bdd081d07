package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A committer makes changes durable. While one batch is being synced the next one
// gathers, so that the number of syncs adapts to the load and a single change does
// not wait.
type committer struct {
	mu      sync.Mutex
	pending []mail.Change
	trouble trouble
	wakeup  chan struct{} // buffer of one
}

// trouble describes the changes that could not be made durable and are retried.
type trouble struct {
	messages int // number of messages concerned
	at       time.Time
	reason   error
}

// Trouble returns the number of messages whose changes cannot be made durable, and the
// time and reason of the last failure. The changes are retried. It may be called from
// any goroutine and does not wait for the core.
func (d *Driver) Trouble() (messages int, at time.Time, reason error) {
	d.committer.mu.Lock()
	defer d.committer.mu.Unlock()
	t := &d.committer.trouble
	return t.messages, t.at, t.reason
}

// fails records the number of messages whose changes cannot be made; err is the
// error of one that has just failed, nil if none has.
func (c *committer) fails(messages int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble.messages = messages; err != nil {
		c.trouble.at, c.trouble.reason = time.Now(), err
	}
}

func newCommitter() *committer { return &committer{wakeup: make(chan struct{}, 1)} }

func (c *committer) add(changes ...mail.Change) {
	c.mu.Lock()
	c.pending = append(c.pending, changes...)
	c.mu.Unlock()
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

func (c *committer) take(spare []mail.Change) []mail.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes := c.pending
	clear(spare)
	c.pending = spare[:0]
	return changes
}

// applyMax bounds one batch and thus its memory. A split copies content of up to 64
// KiB and counts as splitCost changes.
const (
	applyMax  = 1024
	splitCost = 64
)

// batch returns how many of the first changes form one batch.
func batch(changes []mail.Change) int {
	cost := 0
	for i := range changes {
		if cost += 1 + splitCost*len(changes[i].Splits); cost > applyMax {
			return max(i, 1)
		}
	}
	return len(changes)
}

// commit runs the committer until ctx ends. It is the only caller of Spool.Apply.
func (d *Driver) commit(ctx context.Context) {
	var spare []mail.Change
	var items []item
	var failed setbacks
	again := time.NewTimer(retryPause)
	defer again.Stop()
	for {
		changes := append(d.committer.take(spare), failed.due(time.Now())...)
		spare = changes
		if len(changes) == 0 {
			again.Reset(failed.wait(time.Now()))
			select {
			case <-d.committer.wakeup:
			case <-again.C:
			case <-ctx.Done():
				return
			}
			continue
		}
		for len(changes) > 0 {
			n := batch(changes)
			items = items[:0]
			var why error
			d.orders.await(ctx)
			changed, errs := d.apply(ctx, changes[:n])
			for i := range changed {
				if errs != nil && errs[i] != nil {
					why = errs[i]
					failed.add(changes[i], time.Now())
					continue
				}
				failed.forget(changed[i].ID)
				items = append(items, item{event: qmgr.Changed{Changed: changed[i]}, ends: true})
			}
			d.inbox.put(items...)
			d.committer.fails(len(failed.tries), why)
			if errs != nil && failed.worthALine() {
				d.log.Error("some changes could not be made durable, trying again", "error", errs, "messages", len(failed.tries), "tries", failed.most())
			}
			changes = changes[n:]
		}
	}
}

// apply makes changes durable and does not give up: a change may be applied twice,
// but none may be lost. It returns the changes that failed for a reason that
// concerns their message alone; the others do not wait for them.
func (d *Driver) apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, mail.ChangeErrors) {
	began := time.Now()
	defer func() {
		d.counters.batch.Observe(float64(len(changes)))
		d.counters.commit.Duration(time.Since(began))
	}()
	for tries := 1; ; tries++ {
		changed, err := d.ports.Spool.Apply(ctx, changes)
		if err == nil {
			return changed, nil
		}
		if errs := mail.ChangeErrors(nil); errors.As(err, &errs) && len(errs) == len(changes) && len(changed) == len(changes) {
			return changed, errs
		}
		d.committer.fails(len(changes), err)
		if isPowerOfTwo(tries) {
			d.log.Error("changes could not be made durable, trying again", "changes", len(changes), "tries", tries, "error", err)
		}
		if !pause.For(ctx, retryPause) {
			return nil, nil
		}
	}
}

// retryPause is the time for which the driver waits before it repeats an operation that
// failed with an I/O error.
const retryPause = time.Second

// setbacks are the changes that failed for a reason that concerns their message alone.
// Each is retried after pauses that double up to setbackMost, without end: its
// information exists nowhere else.
type setbacks struct {
	waiting []setback
	tries   map[mail.QueueID]int // number of failures of a message's change
	said    bool                 // since the last call of worthALine, a change has failed that deserves a log line
}

type setback struct {
	change mail.Change
	at     time.Time
}

const setbackMost = 5 * time.Minute

func (s *setbacks) add(c mail.Change, now time.Time) {
	if s.tries == nil {
		s.tries = make(map[mail.QueueID]int)
	}
	s.tries[c.ID]++
	n := s.tries[c.ID]
	s.said = s.said || isPowerOfTwo(n)
	s.waiting = append(s.waiting, setback{c, now.Add(min(retryPause<<min(n-1, 16), setbackMost))})
}

func (s *setbacks) forget(id mail.QueueID) { delete(s.tries, id) }

// due removes and returns the changes that must be retried now.
func (s *setbacks) due(now time.Time) (due []mail.Change) {
	left := s.waiting[:0]
	for _, w := range s.waiting {
		if w.at.After(now) {
			left = append(left, w)
		} else {
			due = append(due, w.change)
		}
	}
	clear(s.waiting[len(left):])
	s.waiting = left
	return due
}

// wait returns the time until the next retry.
func (s *setbacks) wait(now time.Time) time.Duration {
	wait := setbackMost
	for _, w := range s.waiting {
		wait = min(wait, w.at.Sub(now))
	}
	return max(wait, 0)
}

// worthALine reports whether, since its last call, a change has failed for the first,
// second, fourth, … time.
func (s *setbacks) worthALine() bool {
	said := s.said
	s.said = false
	return said
}

func (s *setbacks) most() (tries int) {
	for _, n := range s.tries {
		tries = max(tries, n)
	}
	return tries
}

func isPowerOfTwo(n int) bool { return n&(n-1) == 0 }
