package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A bounded is a listener that limits the number of open connections; the others
// wait in the system's queue, where they use none of our file descriptors.
//
// While one waits, connections without a request under way make room: otherwise silent
// connections up to the limit would keep all others out for as long as a server waits for
// a request. The client with the most connections is the first to lose one, its oldest:
// otherwise a client that keeps opening connections would end those of others, whose first
// request takes some round trips, most of all with TLS.
type bounded struct {
	net.Listener
	most int

	mu    sync.Mutex
	quiet ilist.List[slotted] // no request under way, the oldest first
	open  int
	// streams is the number of those whose request has no end.
	streams int
	of      map[netip.Prefix]int // open connections of each client
	freed   chan struct{}        // holds a value if there may be new room since the last check
	closed  chan struct{}
	close   sync.Once
}

// quietAtLeast is the time that a connection has to send a request before it may have
// to make room. It is long for a live client and short for those that wait: with the
// default limit, four thousand silent connections are gone after four seconds.
const quietAtLeast = 50 * time.Millisecond

func newBounded(ln net.Listener, connections int) *bounded {
	return &bounded{Listener: ln, most: connections, freed: make(chan struct{}, 1), closed: make(chan struct{}),
		of: make(map[netip.Prefix]int)}
}

// Accept waits for a connection, and then until there is room for it.
func (b *bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		wait, ok := b.makeRoom()
		if ok {
			break
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-b.freed:
		case <-b.closed:
			timer.Stop()
			conn.Close()
			return nil, net.ErrClosed
		}
		timer.Stop()
	}
	c := &slotted{Conn: conn, of: b, client: clientOf(conn.RemoteAddr())}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	b.of[c.client]++
	c.fallQuiet()
	return c, nil
}

// makeRoom reports whether one more connection may be open, closing one if necessary.
// If not, it returns the longest time to wait before checking again.
func (b *bounded) makeRoom() (wait time.Duration, ok bool) {
	b.mu.Lock()
	if b.open < b.most {
		b.mu.Unlock()
		return 0, true
	}
	first := b.dispensable()
	if first == nil {
		b.mu.Unlock()
		return time.Hour, false
	}
	if age := time.Since(first.since); age < quietAtLeast {
		b.mu.Unlock()
		return quietAtLeast - age, false
	}
	b.quiet.Remove(&first.inQuiet)
	b.mu.Unlock()
	first.Close()
	return 0, true
}

// dispensable returns the connection that is the next to make room; nil if each has a
// request under way. The caller holds mu.
func (b *bounded) dispensable() *slotted {
	first := b.quiet.Front()
	if len(b.of) == 1 { // as on a unix socket, which may have thousands of connections
		return first
	}
	for c := range b.quiet.All() {
		if b.of[c.client] > b.of[first.client] {
			first = c
		}
	}
	return first
}

// clientOf returns whose connection it is: of an address, or of an IPv6 network of 64 bits,
// all addresses of which one machine may use. The zero Prefix stands for this machine's users.
func clientOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr, bits := tcp.AddrPort().Addr().Unmap(), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}

// Close also ends an Accept that waits for room.
func (b *bounded) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// signal makes a waiting Accept check again.
func (b *bounded) signal() {
	select {
	case b.freed <- struct{}{}:
	default:
	}
}

// A slotted is a connection that makes room when it is closed.
type slotted struct {
	net.Conn
	of      *bounded
	client  netip.Prefix
	since   time.Time // quiet: since when
	inQuiet ilist.Link[slotted]
	ended   bool
	timed   atomic.Bool // a handler has set a deadline for writes
}

// fallQuiet records that no request is under way. The caller holds of.mu.
func (c *slotted) fallQuiet() {
	c.since = time.Now()
	c.of.quiet.PushBack(&c.inQuiet, c)
}

func (c *slotted) Close() error {
	err := c.Conn.Close()
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.ended {
		return err
	}
	c.ended = true
	b.open--
	if b.of[c.client]--; b.of[c.client] == 0 {
		delete(b.of, c.client)
	}
	if c.inQuiet.Listed() {
		b.quiet.Remove(&c.inQuiet)
	}
	b.signal()
	return err
}

// writePatience is the time that a client has to take in some octets of an answer: one that stops reading would keep its
// connection, and others out, for as long as it likes.
const writePatience = 30 * time.Second

// Write implements net.Conn. It takes no longer than writePatience, unless a handler has set a deadline of its own.
func (c *slotted) Write(p []byte) (int, error) {
	if !c.timed.Load() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(writePatience)) // if it fails, so does the write
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn.
func (c *slotted) SetWriteDeadline(at time.Time) error {
	c.timed.Store(!at.IsZero())
	return c.Conn.SetWriteDeadline(at)
}

// connKey is the context key for the connection of a request.
type connKey struct{}

// withConn records the connection for the handlers of its requests.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*slotted); ok {
		ctx = context.WithValue(ctx, connKey{}, c)
	}
	return withPeer(ctx, conn)
}

// notQuiet keeps connections open while their requests are served.
func notQuiet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*slotted); ok {
			c.serve(true)
			defer c.serve(false)
		}
		next.ServeHTTP(w, r)
	})
}

// serve records that a request begins or has ended.
func (c *slotted) serve(begins bool) {
	b := c.of
	b.mu.Lock()
	defer b.mu.Unlock()
	switch quiet := c.inQuiet.Listed(); {
	case begins && quiet:
		b.quiet.Remove(&c.inQuiet)
	case !begins && !quiet && !c.ended:
		c.fallQuiet()
		b.signal()
	}
}
