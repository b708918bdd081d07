package resolve

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A cache holds values, each with its own lifetime. Their total weight is at most
// max; the least recently used value is evicted first. A value that is not in the
// cache is produced once, no matter how many callers wait for it.
//
// Expired values stay until they are replaced or evicted, so that produce can
// fall back on them.
type cache[K comparable, V any] struct {
	max     int
	weigh   func(V) int   // at least 1
	limit   time.Duration // for producing a value
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

// A flight is a value being produced.
type flight[V any] struct {
	done  chan struct{}
	value V // this and until are set once done is closed
	until time.Time
}

func newCache[K comparable, V any](ctx context.Context, max int, weigh func(V) int, limit time.Duration, makers *sync.WaitGroup, s *Counters) *cache[K, V] {
	c := &cache[K, V]{
		max: max, weigh: weigh, limit: limit, ctx: ctx, makers: makers, evicted: &s.evictions, shared: &s.shared,
		entries: make(map[K]*entry[K, V]),
		flights: make(map[K]*flight[V]),
	}
	c.order.prev, c.order.next = &c.order, &c.order
	return c
}

// get returns the value for a key, and when it expires, if it has not expired.
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

// wait returns the value for a key and when it expires. If necessary it calls
// produce in a separate goroutine, which continues when the caller's context ends.
// produce gets the expired value, and returns a new one and when it expires.
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

// start begins a flight. The mutex must be held.
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

// newStore returns a cache of at most max values that are only entered, never
// produced.
func newStore[K comparable, V any](max int) *cache[K, V] {
	return newCache[K](context.Background(), max, func(V) int { return 1 }, 0, nil, &Counters{})
}

// enter stores a value.
func (c *cache[K, V]) enter(key K, value V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, value, until)
}

// put stores a value. The mutex must be held.
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

// touch makes e the most recently used entry. The mutex must be held.
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

// close prevents further flights, so that the current ones can be waited for.
func (c *cache[K, V]) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// clear removes all values. Flights under way still store theirs.
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
