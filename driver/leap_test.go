package driver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
)

const year = 365 * 24 * time.Hour

func wallNow() mail.Instant { return mail.Instant(time.Now().UnixNano()) }

// waiting stores a message that was deferred.
func (w *world) waiting(id mail.QueueID, arrived, due mail.Instant, attempts uint32) {
	w.store(id, "u@a.test")
	m := w.messages[id]
	m.envelope.Arrived, m.envelope.Attempts = arrived, attempts
	m.place = mail.Place{Area: mail.AreaDeferred, Due: due}
}

// Mail that was deferred while the clock was years ahead is tried at the start after the
// clock was set right, and expires when it has been tried for as long as other mail.
//
// Seen failing: without retryFarDue it was tried when no other mail was due sooner; without clock.tried it was tried
// 1,440 times in five days and did not expire.
func TestClockWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var tries atomic.Int32
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult {
			if d.Envelope.ID == 1 {
				tries.Add(1)
			}
			return all(d, mail.Deferred)
		}
		now := wallNow()
		w.waiting(1, now.Add(3*year), now.Add(3*year+time.Hour), 0)
		w.waiting(2, now, now.Add(time.Minute), 1) // as long as others are due sooner, the core does not see it
		_, stop := w.start(t, driver.Config{})
		time.Sleep(time.Minute)
		if tries.Load() != 1 {
			t.Errorf("%d attempts within a minute of the start, want 1", tries.Load())
		}
		time.Sleep(4 * 24 * time.Hour)
		if w.count() != 2 {
			t.Error("it expired within four days")
		}
		time.Sleep(3 * 24 * time.Hour)
		synctest.Wait()
		stop()
		if w.count() != 0 || tries.Load() < 90 || tries.Load() > 150 {
			t.Errorf("after a week and %d attempts, %d messages wait, want none", tries.Load(), w.count())
		}
	})
}

// Mail that waits until a day of a warm-up ends, or that was deferred before maximal_backoff_time was lowered, is due late, but the clock was
// right. It is not tried at a start, unless there is also mail whose last attempt is yet to come.
func TestFarDueByConfiguration(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, now := newWorld(), wallNow()
			var tries atomic.Int32
			w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult {
				tries.Add(1)
				return all(d, mail.Deferred)
			}
			for id := range mail.QueueID(6000) { // more than are looked at one by one
				w.waiting(1+id, now, now.Add(20*time.Hour), 1)
				w.messages[1+id].envelope.LastAttempt = now.Add(-time.Minute)
			}
			for id := range mail.QueueID(300) {
				w.waiting(7000+id, now, now.Add(20*time.Hour+time.Duration(id)*time.Second), 1)
			}
			if wrong {
				w.waiting(8000, now, now.Add(30*time.Hour), 1)
				w.messages[8000].envelope.LastAttempt = now.Add(29 * time.Hour)
			}
			_, stop := w.start(t, driver.Config{})
			time.Sleep(time.Minute)
			synctest.Wait()
			if tried := tries.Load() > 0; tried != wrong {
				t.Errorf("mail is tried: %t; a clock was wrong: %t", tried, wrong)
			}
			stop()
		})
	}
}

// The program starts while the clock is years ahead, or after it has not run for years:
// no mail expires within the hour that it takes to set a clock right.
//
// Seen failing: without clock.resume all mail expired at its first attempt.
func TestStartWhileTheClockIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var tries atomic.Int32
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult {
			tries.Add(1)
			return all(d, mail.Deferred)
		}
		last := wallNow().Add(-3 * year)
		w.waiting(mail.NewQueueID(last, 1), last.Add(-time.Hour), last.Add(-time.Minute), 3)
		_, stop := w.start(t, driver.Config{Since: last})
		time.Sleep(59 * time.Minute)
		if tries.Load() == 0 || w.count() != 1 {
			t.Errorf("%d attempts, %d messages wait within the hour", tries.Load(), w.count())
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		stop()
		if w.count() != 0 {
			t.Errorf("after the hour, %d messages wait; the clock is believed then", w.count())
		}
	})
}
