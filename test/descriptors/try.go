package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// firstPort is from where on a free port is looked for.
const firstPort = 24000

// tryMax is the longest time that everything may take for one limit.
const tryMax = 2 * time.Minute

type options struct {
	binary, dir   string
	clients, size int
}

// try runs the program with a limit of file descriptors.
func (o options) try(ctx context.Context, limit int, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, tryMax)
	defer cancel()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	box := new(measure.Mailbox)
	receiver, err := measure.Receive(sink.Config{Hostname: "sink.test", Taken: box.Take}, "")
	if err != nil {
		return err
	}
	defer receiver.Close() //nolint:errcheck // the mailbox has told
	d, err := daemon.Begin(ctx, daemon.Config{Binary: o.binary, Dir: dir, Hostname: "descriptors.test", FirstPort: firstPort, Descriptors: limit,
		Settings: fmt.Sprintf("spool.ballast_size = \"64K\"\n[routes]\n\"d.test\" = %q\n", receiver.Target)})
	if err != nil {
		return err
	}
	defer d.Abandon()
	watched, mostOpen := context.WithCancel(ctx)
	defer mostOpen()
	most := make(chan int, 1)
	go func() { most <- watch(watched, d.Pid()) }()

	began := time.Now()
	turnedAway, err := o.feed(ctx, d.Address, hesitation*time.Duration(limit)/4096)
	fed := time.Since(began)
	if err == nil {
		err = o.delivered(ctx, d, box)
	}
	mostOpen()
	fmt.Printf("limit %d: %d clients, %d messages of %d bytes in %s, delivered after %s; turned away %d times; at most %d descriptors open\n",
		limit, o.clients, o.clients, o.size, fed.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), turnedAway, <-most)
	if err != nil {
		return errors.Join(err, d.Alive())
	}
	return d.StopClean()
}

// feed has all clients send at the same time, each until its message is accepted.
func (o options) feed(ctx context.Context, address string, hesitation time.Duration) (turnedAway int64, err error) {
	body := bytes.Repeat([]byte("All work and no play makes Jack a dull boy. 1234567890123456\r\n"), o.size/62+1)
	var (
		all   sync.WaitGroup
		again atomic.Int64
		left  atomic.Int64
	)
	for i := range o.clients {
		all.Go(func() {
			m := feed.Message{Sender: "jack@origin.test", Recipients: []mail.Address{"jane@d.test"},
				Content: append(fmt.Appendf(nil, "Message-ID: <%d@origin.test>\r\n\r\n", i), body...)}
			for !accepted(ctx, address, hesitation, m) {
				again.Add(1)
				if !pause.For(ctx, 200*time.Millisecond) {
					left.Add(1)
					return
				}
			}
		})
	}
	all.Wait()
	if n := left.Load(); n > 0 {
		return again.Load(), fmt.Errorf("%d of %d messages were not accepted: %w", n, o.clients, ctx.Err())
	}
	return again.Load(), nil
}

// accepted tries to hand a message in, once. One whose fate is not known is sent
// again, and counts as delivered however often it comes.
func accepted(ctx context.Context, address string, hesitation time.Duration, m feed.Message) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	c, err := feed.New(&hesitant{Conn: conn, ctx: ctx, hesitation: hesitation})
	if err != nil {
		return false
	}
	r := c.Send(m)
	if r.Err == nil {
		c.Close() //nolint:errcheck // the message is what matters
	}
	return r.Fate == feed.Accepted
}

// A hesitant is a connection whose client waits in the middle of its message, so
// that all clients that are let in have a content file at the same time.
type hesitant struct {
	net.Conn
	ctx        context.Context
	hesitation time.Duration
	written    int
}

const (
	// hesitatesAfter is after how many bytes a client waits: the message has a file
	// by then.
	hesitatesAfter = 70_000
	// hesitation is the time for which it waits if all clients are let in; with fewer file
	// descriptors it is less, since there are more turns.
	hesitation = 2 * time.Second
)

func (h *hesitant) Write(p []byte) (n int, err error) {
	if before := hesitatesAfter - h.written; before >= 0 && before < len(p) {
		if n, err = h.Conn.Write(p[:before]); err != nil {
			return n, err
		}
		pause.For(h.ctx, h.hesitation)
		p = p[before:]
	}
	more, err := h.Conn.Write(p)
	h.written += n + more
	return n + more, err
}

// delivered waits until every message has come.
func (o options) delivered(ctx context.Context, d *daemon.Daemon, box *measure.Mailbox) error {
	for box.Keys() < o.clients {
		if err := d.Alive(); err != nil {
			return err
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%d of %d messages were delivered: %w", box.Keys(), o.clients, ctx.Err())
		}
	}
	return nil
}

// watch returns the largest number of descriptors that a process had open.
func watch(ctx context.Context, pid int) (most int) {
	for pause.For(ctx, 20*time.Millisecond) {
		if list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
			most = max(most, len(list))
		}
	}
	return most
}
