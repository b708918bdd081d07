package resolve

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A cache remembers values for a time of their own. Their weights together are
// at most max; the one least recently used is forgotten first. A value that is
// wanted but not there is made once, however many want it.
//
// Values whose time is over stay until they are replaced or pushed out, so that
// their makers can fall back on them.
type cache[K comparable, V any] struct {
	max     int
	weigh   func(V) int   // at least 1
	limit   time.Duration // of making a value
	ctx     context.Context
	makers  *sync.WaitGroup
	evicted *counter
	shared  *counter

	mu      sync.Mutex
	entries map[K]*entry[K, V]
	order   entry[K, V] // ring: order.next is the most recently used
	weight  int         // of all entries
	flights map[K]*flight[V]
	closed  bool
}

type entry[K comparable, V any] struct {
	key        K
	value      V
	until      time.Time
	weight     int
	prev, next *entry[K, V]
}

// A flight is a value in the making.
type flight[V any] struct {
	done  chan struct{}
	value V // this and until once done is closed
	until time.Time
}

func newCache[K comparable, V any](ctx context.Context, max int, weigh func(V) int, limit time.Duration, makers *sync.WaitGroup, s *counters) *cache[K, V] {
	c := &cache[K, V]{
		max: max, weigh: weigh, limit: limit, ctx: ctx, makers: makers, evicted: &s.evictions, shared: &s.shared,
		entries: make(map[K]*entry[K, V]),
		flights: make(map[K]*flight[V]),
	}
	c.order.prev, c.order.next = &c.order, &c.order
	return c
}

// get returns the value for a key, and when its time is over, if it is not.
func (c *cache[K, V]) get(key K, now time.Time) (value V, until time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil || !now.Before(e.until) {
		return value, until, false
	}
	c.touch(e)
	return e.value, e.until, true
}

// wait returns the value for a key and when its time is over, if need be by calling produce in a goroutine
// of its own, which goes on when the caller's context ends. Produce is told the
// value whose time is over, and returns a new one and when its time is over.
func (c *cache[K, V]) wait(ctx context.Context, key K, produce func(ctx context.Context, key K, old V) (V, time.Time)) (V, time.Time, error) {
	c.mu.Lock()
	e := c.entries[key]
	if e != nil && time.Now().Before(e.until) {
		defer c.mu.Unlock()
		c.touch(e)
		return e.value, e.until, nil
	}
	f := c.flights[key]
	switch {
	case f != nil:
		c.shared.Add(1)
	case c.closed:
		c.mu.Unlock()
		var none V
		return none, time.Time{}, errClosed
	default:
		f = c.start(key, e, produce)
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.value, f.until, nil
	case <-ctx.Done():
		var none V
		return none, time.Time{}, ctx.Err()
	}
}

var errClosed = errors.New("resolve: the resolver is closed")

// start launches a flight. The mutex is held.
func (c *cache[K, V]) start(key K, e *entry[K, V], produce func(ctx context.Context, key K, old V) (V, time.Time)) *flight[V] {
	f := &flight[V]{done: make(chan struct{})}
	c.flights[key] = f
	var old V
	if e != nil {
		old = e.value
	}
	c.makers.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, c.limit)
		defer cancel()
		f.value, f.until = produce(ctx, key, old)
		c.mu.Lock()
		delete(c.flights, key)
		c.put(key, f.value, f.until)
		c.mu.Unlock()
		close(f.done)
	})
	return f
}

// newStore returns a cache of at most max values that are entered only, never
// made.
func newStore[K comparable, V any](max int) *cache[K, V] {
	return newCache[K](context.Background(), max, func(V) int { return 1 }, 0, nil, &counters{})
}

// enter remembers a value.
func (c *cache[K, V]) enter(key K, value V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, value, until)
}

// put enters a value. The mutex is held.
func (c *cache[K, V]) put(key K, value V, until time.Time) {
	e := c.entries[key]
	if e == nil {
		e = &entry[K, V]{key: key}
		e.prev, e.next = e, e
		c.entries[key] = e
	}
	weight := c.weigh(value)
	c.weight += weight - e.weight
	e.value, e.until, e.weight = value, until, weight
	c.touch(e)
	for last := c.order.prev; c.weight > c.max && last != e; last = c.order.prev {
		last.unlink()
		delete(c.entries, last.key)
		c.weight -= last.weight
		c.evicted.Add(1)
	}
}

// touch makes e the most recently used. The mutex is held.
func (c *cache[K, V]) touch(e *entry[K, V]) {
	if c.order.next == e {
		return
	}
	e.unlink()
	e.prev, e.next = &c.order, c.order.next
	e.prev.next, e.next.prev = e, e
}

func (e *entry[K, V]) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
}

// close lets no further flight start, so that the makers can be waited for.
func (c *cache[K, V]) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// clear forgets everything. Flights under way enter their values all the same.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.weight = 0
	c.order.prev, c.order.next = &c.order, &c.order
}

func (c *cache[K, V]) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}
