package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// ErrUnsaved means that an operator's order is in force, but not on disk: a restart would undo it. The
// driver tries again to save it.
var ErrUnsaved = errors.New("in force, but not saved")

// ErrStopping means that an order was not carried out because the driver is stopping.
var ErrStopping = errors.New("stopping")

// orderSaves is how suspensions, operators' and those of rules on replies, get from the owner to the goroutine that saves them. They
// are saved in the order in which they were given.
type orderSaves struct {
	mu     sync.Mutex
	queue  []orderSave
	wakeup chan struct{} // buffer of one
	last   chan struct{} // closed when there are no more
	atRest chan struct{} // closed when saveOrders has returned
	saving chan struct{} // closed when what is queued or being saved has been tried; nil if nothing is

	unsaved []mail.HostRecord // of earlier saves that have failed; of the goroutine that saves
	failed  failures          // the same
}

// An orderSave is changed records, and where the result is reported; nil if no caller waits for it.
type orderSave struct {
	records []mail.HostRecord
	done    chan<- error // buffer of one
}

func (s *orderSaves) put(o orderSave) {
	s.mu.Lock()
	s.queue = append(s.queue, o)
	if s.saving == nil {
		s.saving = make(chan struct{})
	}
	s.mu.Unlock()
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

func (s *orderSaves) take() []orderSave {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.queue
	s.queue = nil
	return taken
}

// tried notes that what was taken has been saved, or could not be.
func (s *orderSaves) tried() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 && s.saving != nil {
		close(s.saving)
		s.saving = nil
	}
}

// await waits until the orders given so far have been saved, or could not be. Mail that was put off
// because of a suspension must not be on disk before the suspension is: after a crash in
// between, it would wait for the end of a suspension that no record mentions.
func (s *orderSaves) await(ctx context.Context) {
	s.mu.Lock()
	saving := s.saving
	s.mu.Unlock()
	if saving == nil {
		return
	}
	select {
	case <-saving:
	case <-s.atRest:
	case <-ctx.Done():
	}
}

// changedOrders has changed suspensions saved. Done, if it is not nil, is answered when they are
// durable.
func (d *Driver) changedOrders(done chan<- error) {
	records := d.hosts.feed.Orders(nil)
	switch {
	case d.ports.Hosts == nil:
		if done != nil {
			done <- nil
		}
	case len(records) > 0 || done != nil:
		d.orders.put(orderSave{records, done})
	}
}

// saveOrders saves what changedOrders sends, until the stop.
func (d *Driver) saveOrders(ctx context.Context) {
	defer close(d.orders.atRest)
	again := time.NewTicker(saveEvery)
	defer again.Stop()
	for {
		select {
		case <-d.orders.wakeup:
			d.saveTaken(ctx)
		case <-again.C:
			if len(d.orders.unsaved) > 0 {
				d.saveTaken(ctx)
			}
		case <-d.orders.last:
			return
		}
	}
}

// saveTaken saves what is waiting, behind what could not be saved before.
func (d *Driver) saveTaken(ctx context.Context) {
	taken := d.orders.take()
	records := d.orders.unsaved
	for _, o := range taken {
		records = append(records, o.records...)
	}
	var err error
	if len(records) > 0 {
		err = d.ports.Hosts.SaveOrders(ctx, records)
	}
	if d.orders.unsaved = nil; err != nil {
		d.orders.unsaved = latest(records)
		if d.orders.failed.worthALine() {
			d.log.Error("cannot save suspensions; a restart would undo the last orders", "tries", d.orders.failed.tries, "error", err)
		}
		err = errors.Join(ErrUnsaved, err)
	} else if tries := d.orders.failed.end(); tries > 0 && len(records) > 0 {
		d.log.Info("suspensions are saved again", "tries", tries)
	}
	d.orders.tried()
	for _, o := range taken {
		if o.done != nil {
			o.done <- err
		}
	}
}

// latest returns the last record of each key, so that what cannot be saved does not grow.
func latest(records []mail.HostRecord) []mail.HostRecord {
	seen := make(map[string]bool)
	var kept []mail.HostRecord
	for i := len(records) - 1; i >= 0; i-- {
		if key := string(records[i].Key); !seen[key] {
			seen[key] = true
			kept = append(kept, records[i])
		}
	}
	return kept
}

// saveLastOrders saves what remains at a stop.
func (d *Driver) saveLastOrders(ctx context.Context) {
	close(d.orders.last)
	<-d.orders.atRest
	if d.ports.Hosts == nil {
		return
	}
	d.orders.put(orderSave{records: d.hosts.feed.Orders(nil)})
	d.saveTaken(ctx)
}

// A Suspended is the answer to an order about a suspension.
type Suspended struct {
	// Was is the suspension before the order, and Is the one after it; the zero value if there was
	// or is none.
	Was, Is qmgr.SuspensionView
	// Known reports whether anything of the value is known (qmgr.Qmgr.Known).
	Known bool
}

// Suspend suspends something, or changes a suspension. It returns when the order is durable; its error
// wraps ErrUnsaved if it cannot be saved, ErrStopping if the driver has stopped, or is ctx's.
func (d *Driver) Suspend(ctx context.Context, ev qmgr.Suspend) (Suspended, error) {
	return d.suspension(ctx, ev, func(c *qmgr.Qmgr) qmgr.SuspensionView { return c.Suspension(ev.Scope, ev.Value) }, func(c *qmgr.Qmgr) bool { return c.Known(ev.Scope, ev.Value) })
}

// Resume ends a suspension. Errors are as for Suspend.
func (d *Driver) Resume(ctx context.Context, ev qmgr.Resume) (Suspended, error) {
	return d.suspension(ctx, ev, func(c *qmgr.Qmgr) qmgr.SuspensionView { return c.Suspension(ev.Scope, ev.Value) }, func(*qmgr.Qmgr) bool { return true })
}

// Suspensions returns the suspensions in force. Errors are as for View.
func (d *Driver) Suspensions(ctx context.Context) ([]qmgr.SuspensionView, error) {
	req := suspensionsRequest{make(chan []qmgr.SuspensionView, 1)}
	return consult(ctx, d, req, req.reply)
}

// suspension gives the core an order and waits until it is durable.
func (d *Driver) suspension(ctx context.Context, ev qmgr.Event, look func(*qmgr.Qmgr) qmgr.SuspensionView, known func(*qmgr.Qmgr) bool) (s Suspended, err error) {
	req := suspendRequest{ev: ev, look: look, known: known, answer: make(chan Suspended, 1), saved: make(chan error, 1)}
	d.inbox.put(item{question: req})
	for waits := true; waits; {
		select {
		case s = <-req.answer:
			waits = false
		case <-ctx.Done():
			return s, ctx.Err()
		case <-d.atRest:
			return s, ErrStopping
		}
	}
	select {
	case err = <-req.saved:
	case <-ctx.Done():
		err = errors.Join(ErrUnsaved, ctx.Err())
	case <-d.atRest: // with the last save, unless that has failed
		select {
		case err = <-req.saved:
		default:
			err = ErrUnsaved
		}
	}
	return s, err
}

// suspendRequest is an operator's order about a suspension.
type suspendRequest struct {
	ev     qmgr.Event
	look   func(*qmgr.Qmgr) qmgr.SuspensionView
	known  func(*qmgr.Qmgr) bool
	answer chan Suspended // buffer of one
	saved  chan error     // buffer of one
}

func (r suspendRequest) ask(d *Driver) {
	s := Suspended{Was: r.look(d.core), Known: r.known(d.core)}
	d.step(r.ev)
	s.Is = r.look(d.core)
	d.changedOrders(r.saved)
	r.answer <- s
}

// suspensionsRequest asks for the suspensions in force.
type suspensionsRequest struct{ reply chan []qmgr.SuspensionView }

func (r suspensionsRequest) ask(d *Driver) { r.reply <- d.core.Suspensions() }
