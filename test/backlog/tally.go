package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
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

// take notes an arrival by its name, which a format tells the number of.
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
func (t *tally) balance(f *figures, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.exactly(what+" that arrived", t.arrived, len(t.seen))
	f.exactly(what+" that arrived more than once, or were never sent", t.twice+t.unknown, 0)
}

// A receiver is a sink at an address.
type receiver struct {
	address string
	stop    context.CancelFunc
	ended   chan error
}

// receive starts a sink that tells of each message. Without an address it
// takes a free port.
func receive(address string, taken func(sink.Delivery)) (*receiver, error) {
	return receiveAs(sink.Config{Taken: taken}, address)
}

// receiveAs is receive with a configuration.
func receiveAs(cfg sink.Config, address string) (*receiver, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	s, err := sink.New(cfg)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &receiver{address: ln.Addr().String(), stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- s.Serve(ctx, ln) }()
	return r, nil
}

func (r *receiver) close() error {
	r.stop()
	return <-r.ended
}

// target is the route to a receiver's address.
func target(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", errors.Join(errors.New("route to a receiver"), err)
	}
	return fmt.Sprintf("smtp:[%s]:%s", host, port), nil
}
