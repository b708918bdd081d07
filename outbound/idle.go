package outbound

import (
	"net/netip"
	"sync"
	"time"
)

// A hopKey is what a session is kept idle for.
type hopKey struct{ transport, nexthop string }

// An addrKey is the address that an idle session is connected to.
type addrKey struct {
	transport string
	addr      netip.AddrPort
}

// sweepEvery is how often idle sessions are looked through for those whose
// time has come. A session lives at most this much longer than it should.
const sweepEvery = time.Second

// An idlePool keeps the sessions that wait for another delivery. Each is found
// under its nexthop and under its address, the one used last first, so that
// when there is less to do the surplus falls idle and ends. It may be used
// from many goroutines.
type idlePool struct {
	mu     sync.Mutex
	closed bool
	sweeps bool // the sweeper runs
	limit  int
	count  int
	hops   map[hopKey]*shelf
	addrs  map[addrKey]*shelf
	oldest *conn // ends of the list of all, by when they fell idle
	newest *conn
	stop   chan struct{} // closed when the pool is
	ended  sync.WaitGroup
}

// A shelf is the idle sessions under one key, the last one used last. Empty
// shelves are kept until the next sweep, for a busy destination's is empty
// every now and then.
type shelf struct{ list []*conn }

func newIdlePool(limit int) *idlePool {
	return &idlePool{
		limit: limit,
		hops:  make(map[hopKey]*shelf),
		addrs: make(map[addrKey]*shelf),
		stop:  make(chan struct{}),
	}
}

func (p *idlePool) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// put keeps a session until its idleUntil. It returns a session that has to be
// ended instead: another one if there are too many, the same one if the pool
// is closed.
func (p *idlePool) put(c *conn) (surplus *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.limit <= 0 {
		return c
	}
	if p.count >= p.limit {
		surplus = p.oldest
		p.remove(surplus)
	}
	place(p.hops, c.hop).push(c)
	place(p.addrs, c.address()).push(c)
	c.older = p.newest
	if p.newest != nil {
		p.newest.newer = c
	} else {
		p.oldest = c
	}
	p.newest = c
	p.count++
	if !p.sweeps {
		p.sweeps = true
		p.ended.Go(p.sweep)
	}
	return surplus
}

// takeHop returns the session of a nexthop that was used last, or nil.
func (p *idlePool) takeHop(key hopKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(p.hops[key])
}

// takeAddr returns the session to an address that was used last, or nil.
func (p *idlePool) takeAddr(key addrKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(p.addrs[key])
}

func (p *idlePool) take(s *shelf) *conn {
	if s == nil || len(s.list) == 0 {
		return nil
	}
	c := s.list[len(s.list)-1]
	p.remove(c)
	return c
}

// remove takes a session out of all three places.
func (p *idlePool) remove(c *conn) {
	p.hops[c.hop].remove(c)
	p.addrs[c.address()].remove(c)
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		p.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		p.newest = c.older
	}
	c.older, c.newer = nil, nil
	p.count--
}

// sweep ends sessions whose time has come until there are none left.
func (p *idlePool) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticker.C:
			due, more := p.expired(now)
			for _, c := range due {
				c.goodbye()
			}
			if !more {
				return
			}
		}
	}
}

// expired takes out the sessions whose time has come, and the empty shelves.
// It tells whether sweeping has to go on.
func (p *idlePool) expired(now time.Time) (due []*conn, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := p.oldest; c != nil; {
		next := c.newer
		if !now.Before(c.idleUntil) {
			p.remove(c)
			due = append(due, c)
		}
		c = next
	}
	dropEmpty(p.hops)
	dropEmpty(p.addrs)
	p.sweeps = p.count > 0
	return due, p.sweeps
}

// close ends all sessions and keeps none from now on.
func (p *idlePool) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.stop)
	var all []*conn
	for p.oldest != nil {
		all = append(all, p.oldest)
		p.remove(p.oldest)
	}
	p.mu.Unlock()
	for _, c := range all {
		p.ended.Go(c.goodbye)
	}
	p.ended.Wait()
}

func place[K comparable](m map[K]*shelf, key K) *shelf {
	s := m[key]
	if s == nil {
		s = new(shelf)
		m[key] = s
	}
	return s
}

func dropEmpty[K comparable](m map[K]*shelf) {
	for k, s := range m {
		if len(s.list) == 0 {
			delete(m, k)
		}
	}
}

func (s *shelf) push(c *conn) { s.list = append(s.list, c) }

// remove looks from the end, where the sessions are that are taken.
func (s *shelf) remove(c *conn) {
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i] == c {
			n := i + copy(s.list[i:], s.list[i+1:])
			s.list[n] = nil
			s.list = s.list[:n]
			return
		}
	}
}
