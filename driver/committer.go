package driver

import (
	"context"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A committer makes changes durable. While one batch is being synced the next
// one gathers, so that the number of syncs adapts to the load and a lone change
// does not wait.
type committer struct {
	mu      sync.Mutex
	pending []mail.Change
	wakeup  chan struct{} // has room for one
}

func newCommitter() *committer { return &committer{wakeup: make(chan struct{}, 1)} }

func (c *committer) add(change mail.Change) {
	c.mu.Lock()
	c.pending = append(c.pending, change)
	c.mu.Unlock()
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

func (c *committer) take(spare []mail.Change) []mail.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes := c.pending
	clear(spare)
	c.pending = spare[:0]
	return changes
}

// applyMax bounds one batch, and with it the memory that it takes.
const applyMax = 1024

// commit runs the committer until ctx ends. It is the only caller of
// Spool.Apply.
func (d *Driver) commit(ctx context.Context) {
	var spare []mail.Change
	var items []item
	for {
		changes := d.committer.take(spare)
		spare = changes
		if len(changes) == 0 {
			select {
			case <-d.committer.wakeup:
				continue
			case <-ctx.Done():
				return
			}
		}
		for len(changes) > 0 {
			n := min(len(changes), applyMax)
			items = items[:0]
			for _, changed := range d.apply(ctx, changes[:n]) {
				items = append(items, item{event: qmgr.Changed{Changed: changed}, ends: true})
			}
			d.inbox.put(items...)
			changes = changes[n:]
		}
	}
}

// apply makes changes durable and does not give up: every change may be made
// twice, and none may be lost.
func (d *Driver) apply(ctx context.Context, changes []mail.Change) []mail.Changed {
	for {
		changed, err := d.ports.Spool.Apply(ctx, changes)
		if err == nil {
			return changed
		}
		d.log.Error("changes could not be made durable, trying again", "changes", len(changes), "error", err)
		if !pause.For(ctx, retryPause) {
			return nil
		}
	}
}

// retryPause is how long the driver waits before it asks again for something
// that an I/O error has prevented.
const retryPause = time.Second
