package main

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A tap stands between the daemon and a server. It hands on what it reads, as it was
// cut into segments, after half a round trip; it counts how far the daemon goes
// ahead of the server's replies; and it may break connections at any octet.
type tap struct {
	ln     net.Listener
	to     string
	delay  time.Duration // of each direction
	cuts   bool
	counts wireCounts
}

// newTap makes a tap that listens at a port of its own, at all addresses.
func newTap(ctx context.Context, to string, roundTrip time.Duration, cuts bool) (*tap, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp4", ":0")
	return &tap{ln: ln, to: to, delay: roundTrip / 2, cuts: cuts}, err
}

// serve carries connections until ctx ends.
func (t *tap) serve(ctx context.Context) error { return acceptAll(ctx, t.ln, t.carry) }

// acceptAll hands all connections of a listener to serve, each in a goroutine, until
// ctx ends, and closes them then.
func acceptAll(ctx context.Context, ln net.Listener, serve func(net.Conn)) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	stop := context.AfterFunc(ctx, func() { ln.Close() }) //nolint:errcheck // nothing else to do
	defer stop()
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		clients.Go(func() {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // likewise
			defer stop()
			serve(conn)
		})
	}
}

// carry carries one connection to its end.
func (t *tap) carry(client net.Conn) {
	server, err := net.Dial("tcp", t.to)
	if err != nil {
		return
	}
	defer server.Close()
	w := newWire(&t.counts)
	there, back := int64(math.MaxInt64), int64(math.MaxInt64)
	if t.cuts {
		there, back = cutsAt()
	}
	var both sync.WaitGroup
	cut := sync.OnceFunc(func() { t.cut(client, server) })
	both.Go(func() { t.pump(client, server, there, w.said, cut) })
	both.Go(func() { t.pump(server, client, back, w.answered, cut) })
	both.Wait()
}

// How many octets a connection lasts in the mean, in each direction: some sixty
// letters, and the replies to them.
const (
	octetsThere = 200 << 10
	octetsBack  = 12 << 10
)

// cutsAt throws after how many octets of one direction a connection breaks. One in
// eight breaks within the greeting, the offers or the first envelope.
func cutsAt() (there, back int64) {
	there, back = math.MaxInt64, math.MaxInt64
	at := rand.ExpFloat64()
	switch forth, soon := rand.IntN(2) == 0, rand.IntN(8) == 0; {
	case forth && soon:
		there = rand.Int64N(300)
	case forth:
		there = int64(at * octetsThere)
	case soon:
		back = rand.Int64N(500)
	default:
		back = int64(at * octetsBack)
	}
	return there, back
}

// cut breaks a connection at both ends: half the time as if it had been closed, half
// the time as if the host had crashed, with what was on its way lost.
func (t *tap) cut(conns ...net.Conn) {
	t.counts.cut()
	for _, c := range conns {
		if tcp, ok := c.(*net.TCPConn); ok && rand.IntN(2) == 0 {
			tcp.SetLinger(0) //nolint:errcheck // then it is closed in the other way
		}
		c.Close()
	}
}

// A segment is what was read at once, and when it arrives at the other end.
type segment struct {
	data []byte
	due  time.Time
}

// segmentsMax is the number of segments that are on their way at most.
const segmentsMax = 256

// pump carries one direction until it ends or quota octets were carried. Each
// segment is shown to look before it arrives.
func (t *tap) pump(from, to net.Conn, quota int64, look func([]byte), cut func()) {
	way := make(chan segment, segmentsMax)
	go func() {
		defer close(way)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if n > 0 {
				way <- segment{buf[:n], time.Now().Add(t.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	var failed error
	for s := range way { // to the end, even if no reader is left
		if failed != nil {
			continue
		}
		if t.delay > 0 {
			time.Sleep(time.Until(s.due))
		}
		n := min(int64(len(s.data)), quota)
		look(s.data[:n])
		_, failed = to.Write(s.data[:n])
		if quota -= n; quota == 0 {
			cut()
			failed = errors.Join(failed, io.ErrClosedPipe)
		}
	}
	if tcp, ok := to.(*net.TCPConn); ok && failed == nil {
		tcp.CloseWrite() //nolint:errcheck // it is gone already
	}
}
