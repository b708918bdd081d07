package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/internal/feed"
)

// Submit sends n messages to a server over several connections. It calls message, from
// several goroutines, for what to send. It returns an error unless all of them were
// accepted for all of their recipients.
func Submit(ctx context.Context, address string, connections, n int, message func(i int) feed.Message) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, connections)
	for c := range errs {
		all.Go(func() { errs[c] = submitSome(ctx, address, n, &next, message) })
	}
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

func submitSome(ctx context.Context, address string, n int, next *atomic.Int64, message func(i int) feed.Message) error {
	c, err := feed.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Abort()
	for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
		if err := send(c, message(i)); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return c.Close()
}

// SubmitOne sends a message over a connection of its own. It returns an error unless it
// was accepted for all of its recipients.
func SubmitOne(ctx context.Context, network, address string, m feed.Message) error {
	c, err := feed.Dial(ctx, network, address)
	if err != nil {
		return err
	}
	defer c.Abort()
	if err := send(c, m); err != nil {
		return err
	}
	return c.Close()
}

func send(c *feed.Client, m feed.Message) error {
	r := c.Send(m)
	if r.Fate != feed.Accepted || len(r.Accepted) != len(m.Recipients) {
		return errors.Join(fmt.Errorf("%s, %s, %d of %d recipients", r.Fate, r.Reply, len(r.Accepted), len(m.Recipients)), r.Err)
	}
	return nil
}
