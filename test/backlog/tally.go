package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/test/measure"
)

// A tally counts how often each of n numbered things has arrived.
type tally struct {
	mu          sync.Mutex
	seen        []bool
	arrived     int // different ones
	twice       int
	unknown     int // none of them
	first, last time.Time
	done        chan struct{} // closed when all have arrived
}

func newTally(n int) *tally { return &tally{seen: make([]bool, n), done: make(chan struct{})} }

// take records an arrival by its name, whose number is parsed with a format.
func (t *tally) take(format, name string) {
	var i int
	_, err := fmt.Sscanf(name, format, &i)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil || i < 0 || i >= len(t.seen):
		t.unknown++
		return
	case t.seen[i]:
		t.twice++
		return
	}
	if t.arrived == 0 {
		t.first = now
	}
	t.seen[i], t.last = true, now
	if t.arrived++; t.arrived == len(t.seen) {
		close(t.done)
	}
}

func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.arrived
}

// wait waits until all have arrived. It gives up when nothing has for a while.
func (t *tally) wait(ctx context.Context) error {
	const patience = 5 * time.Minute
	for before := -1; ; {
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(patience):
			if now := t.count(); now == before {
				return fmt.Errorf("%d of %d have arrived, and no more for %s", now, len(t.seen), patience)
			} else {
				before = now
			}
		}
	}
}

// balance adds what has arrived to the figures.
func (t *tally) balance(f *measure.Figures, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.Exactly(what+" that arrived", t.arrived, len(t.seen))
	f.Exactly(what+" that arrived more than once, or were never sent", t.twice+t.unknown, 0)
}
