package daemon

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/pause"
)

// readyMax is the longest time that a start may take before it counts as failed.
const readyMax = time.Minute

// Until calls check repeatedly until there is no error, and returns when that was.
func (d *Daemon) Until(ctx context.Context, ask func() error) (time.Time, error) {
	for end := time.Now().Add(readyMax); ; {
		err := ask()
		now := time.Now()
		if err == nil {
			return now, nil
		}
		select {
		case <-d.ended:
			return now, d.endedByItself()
		default:
		}
		if now.After(end) {
			return now, fmt.Errorf("not within %s of the start: %w", readyMax, err)
		}
		if !pause.For(ctx, time.Millisecond) {
			return now, ctx.Err()
		}
	}
}

// Listening waits until the daemon accepts connections, and returns when it did.
func (d *Daemon) Listening(ctx context.Context) (time.Time, error) {
	return d.Until(ctx, func() error {
		conn, err := net.DialTimeout("tcp", d.Address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Begin writes the configuration, starts the daemon and waits for its first SMTP greeting.
// The caller calls Abandon at the end.
func Begin(ctx context.Context, c Config) (*Daemon, error) {
	d, err := New(c)
	if err != nil {
		return nil, err
	}
	if err := d.Begin(ctx); err != nil {
		d.Abandon()
		return nil, err
	}
	return d, nil
}

// Begin starts the daemon and waits for its first SMTP greeting.
func (d *Daemon) Begin(ctx context.Context) error {
	_, err := d.Start()
	if err == nil {
		_, err = d.Greeted(ctx)
	}
	return err
}

// Greeted waits for the first SMTP greeting.
func (d *Daemon) Greeted(ctx context.Context) (time.Time, error) {
	return d.Until(ctx, func() error {
		conn, err := net.DialTimeout("tcp", d.Address, time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && !strings.HasPrefix(line, "220 ") {
			return fmt.Errorf("greeted with %q", line)
		}
		return err
	})
}

// Answered waits for the first answer of the administration.
func (d *Daemon) Answered(ctx context.Context) (time.Time, error) {
	return d.Until(ctx, func() error {
		_, err := d.Admin.Status(ctx, 0)
		return err
	})
}

// Settled waits until so many messages are deferred, and there are no others.
func (d *Daemon) Settled(ctx context.Context, deferred int) (admin.Status, error) {
	for {
		s, err := d.Admin.Status(ctx, 0)
		if err != nil {
			return s, err
		}
		if s.Core.Messages == 0 && s.Spool.Incoming == 0 && s.Spool.Deferred == int64(deferred) {
			return s, nil
		}
		if !pause.For(ctx, 200*time.Millisecond) {
			return s, ctx.Err()
		}
	}
}
