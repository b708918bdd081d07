// Package timers has the instants at which something is due.
//
// There are no callbacks. The owner says what each timer is of, and asks from time to time which timers are due. Those that are due at
// the same instant are so in the order in which they were set, so that a run can be repeated from its events.
package timers

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Timer is of something that is described by a T. The zero Timer is not running; Of must be set before it starts. It must not be
// copied while it is running.
type Timer[T any] struct {
	Of   T
	at   mail.Instant
	seq  uint64
	slot minheap.Slot
}

// Running reports whether the timer was set and is not due yet.
func (t *Timer[T]) Running() bool { return t.slot.Heaped() }

// At returns when the timer is due; if it is not running, the instant for which it was set last.
func (t *Timer[T]) At() mail.Instant { return t.at }

type order[T any] struct{}

func (order[T]) Before(a, b *Timer[T]) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (order[T]) Slot(t *Timer[T]) *minheap.Slot { return &t.slot }

// Timers are those that are running. The zero value has none, and is ready to use. It belongs to one goroutine.
type Timers[T any] struct {
	heap minheap.Heap[Timer[T], order[T]]
	seq  uint64 // of the timer that was set last
}

// Len returns the number of timers that are running.
func (ts *Timers[T]) Len() int { return ts.heap.Len() }

// Start sets a timer that is not running.
func (ts *Timers[T]) Start(t *Timer[T], at mail.Instant) {
	assert.That(!t.Running(), "a timer for %v is started, and was running until %v", at, t.at)
	ts.seq++
	t.at, t.seq = at, ts.seq
	ts.heap.Push(t)
}

// Set sets a timer, or sets it anew.
func (ts *Timers[T]) Set(t *Timer[T], at mail.Instant) {
	ts.Stop(t)
	ts.Start(t, at)
}

// Stop stops a timer if it is running.
func (ts *Timers[T]) Stop(t *Timer[T]) {
	if t.Running() {
		ts.heap.Remove(t)
	}
}

// Next returns when the next timer is due; Never if none is running.
func (ts *Timers[T]) Next() mail.Instant {
	if t := ts.heap.Min(); t != nil {
		return t.at
	}
	return mail.Never
}

// Due returns the next timer that is due at an instant, which is not running any more; nil if none is. It may be called again at once:
// what becomes due meanwhile is due, too.
func (ts *Timers[T]) Due(now mail.Instant) *Timer[T] {
	if t := ts.heap.Min(); t == nil || t.at > now {
		return nil
	}
	return ts.heap.PopMin()
}

// Check panics where an invariant does not hold.
func (ts *Timers[T]) Check() { ts.heap.Check() }
