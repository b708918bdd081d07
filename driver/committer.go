package driver

import (
	"context"
	"errors"
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

func (c *committer) add(changes ...mail.Change) {
	c.mu.Lock()
	c.pending = append(c.pending, changes...)
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

// applyMax bounds one batch, and with it the memory that it takes. A split copies
// content of up to 64 KiB, and counts for splitCost changes.
const (
	applyMax  = 1024
	splitCost = 64
)

// batch returns how many of some changes are made durable at once.
func batch(changes []mail.Change) int {
	cost := 0
	for i := range changes {
		if cost += 1 + splitCost*len(changes[i].Splits); cost > applyMax {
			return max(i, 1)
		}
	}
	return len(changes)
}

// commit runs the committer until ctx ends. It is the only caller of
// Spool.Apply.
func (d *Driver) commit(ctx context.Context) {
	var spare, failed []mail.Change // failed are those that are tried again when again fires
	var items []item
	again := time.NewTimer(retryPause)
	defer again.Stop()
	for {
		changes := d.committer.take(spare)
		spare = changes
		select {
		case <-again.C:
			d.committer.add(failed...)
			failed = failed[:0]
		default:
		}
		if len(changes) == 0 {
			select {
			case <-d.committer.wakeup:
				continue
			case <-again.C:
				d.committer.add(failed...)
				failed = failed[:0]
				continue
			case <-ctx.Done():
				return
			}
		}
		for len(changes) > 0 {
			n := batch(changes)
			items = items[:0]
			changed, errs := d.apply(ctx, changes[:n])
			for i := range changed {
				if errs != nil && errs[i] != nil {
					if len(failed) == 0 {
						again.Reset(retryPause)
					}
					failed = append(failed, changes[i])
					continue
				}
				items = append(items, item{event: qmgr.Changed{Changed: changed[i]}, ends: true})
			}
			d.inbox.put(items...)
			changes = changes[n:]
		}
	}
}

// apply makes changes durable and does not give up: every change may be made
// twice, and none may be lost. It returns those that could not be made for a
// reason that concerns their message alone; the others do not wait for them.
func (d *Driver) apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, mail.ChangeErrors) {
	for {
		changed, err := d.ports.Spool.Apply(ctx, changes)
		if err == nil {
			return changed, nil
		}
		if errs := mail.ChangeErrors(nil); errors.As(err, &errs) && len(errs) == len(changes) && len(changed) == len(changes) {
			d.log.Error("some changes could not be made durable, trying again", "error", errs)
			return changed, errs
		}
		d.log.Error("changes could not be made durable, trying again", "changes", len(changes), "error", err)
		if !pause.For(ctx, retryPause) {
			return nil, nil
		}
	}
}

// retryPause is how long the driver waits before it asks again for something
// that an I/O error has prevented.
const retryPause = time.Second
