package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
)

// A host whose input is finite must return when all of it is done, including
// retries that are due much later and messages that were in the spool before. The
// result of the run can be queried afterwards.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.store(1, "old@a.test")
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult {
			if d.Envelope.Attempts == 0 {
				return all(d, mail.Deferred)
			}
			return all(d, mail.Delivered)
		}
		d, wait := w.drain(t)
		d.Arrived(w.store(mail.NewQueueID(mail.Instant(time.Now().UnixNano()), 1), "u@a.test", "v@b.test"))
		d.Drain()
		start := time.Now()
		wait()
		if w.count() != 0 || time.Since(start) < 270*time.Second {
			t.Errorf("ended after %v with %d messages", time.Since(start), w.count())
		}
		v, err := d.View(t.Context(), 0)
		if err != nil || v.Counts.Outcomes[mail.Delivered] != 3 || v.Messages != 0 {
			t.Errorf("after the run the view is %+v, %v", v, err)
		}
		in, err := d.InCore(t.Context(), []mail.QueueID{1})
		if err != nil || in[0] {
			t.Errorf("after the run a message that is done is in core: %v, %v", in, err)
		}
	})
}

// Draining with nothing to do ends at once, but not before the spool has been read.
func TestDrainOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d, wait := w.drain(t)
		d.Drain()
		wait()
		w = newWorld()
		w.store(1, "old@a.test")
		d, wait = w.drain(t)
		d.Drain()
		wait()
		if w.count() != 0 {
			t.Error("ended before the spool was read")
		}
	})
}

// drain runs a driver until it has drained.
func (w *world) drain(t *testing.T) (d *driver.Driver, wait func()) {
	t.Helper()
	d, err := driver.New(driver.Config{}, driver.Ports{Spool: w, Router: w, Agent: func(string) driver.Agent { return w }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- d.Run(context.Background()) }()
	return d, func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
