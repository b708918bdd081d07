package driver_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/replies"
)

// What metrics show is what the log says, and is counted whether or not there is a log.
func TestCounters(t *testing.T) {
	for _, log := range []*slog.Logger{nil, event.NewStrict(&logBook{}, nil, nil)} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.deliver = func(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
				time.Sleep(2 * time.Second)
				r := all(d, mail.Delivered)
				if d.Recipients[0].Address == "gone@b.test" {
					r = all(d, mail.Failed)
					for i := range r.Outcomes {
						r.Outcomes[i].Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "no such user"}
					}
				}
				r.Connect, r.Send = 500*time.Millisecond, 2*time.Second
				return r
			}
			book := replies.New([]replies.Pattern{{Class: replies.ClassNoSuchUser, Match: replies.Match{Codes: []replies.CodeRange{{From: 550, To: 550}}}}}, nil)
			d, err := driver.New(driver.Config{Log: log}, driver.Ports{Spool: w, Router: w, Reporter: w,
				Agent: func(string) driver.Agent { return w }, Replies: func() *replies.Book { return book }})
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, d)
			for i := range 40 {
				a := w.store(mail.QueueID(1000+i), "u@b.test")
				a.Envelope.Flow = mail.Flow{Class: fmt.Sprint("class", i), Tenant: "t", Flow: "f"}
				a.Envelope.Arrived = mail.Instant(time.Now().Add(-10 * time.Second).UnixNano())
				d.Arrived(a)
			}
			d.Arrived(w.store(2000, "gone@b.test", "gone@b.test"))
			synctest.Wait()
			time.Sleep(time.Hour)
			stop()
			c := d.Snapshot()
			if got := c.Outcomes[mail.Delivered][replies.ClassNone]; got != 40 {
				t.Errorf("%d recipients delivered to, want 40", got)
			}
			if got := c.Outcomes[mail.Failed][replies.ClassNoSuchUser]; got != 2 {
				t.Errorf("%d recipients that do not exist, want 2: %v", got, c.Outcomes)
			}
			if c.Before.Count != 41 || c.Connect.Count != 41 || c.Connect.Sum != 41*0.5 || c.Send.Sum != 41*2 || c.Delivery.Count != 40 {
				t.Errorf("before %d, connect %d (%v), send %v, delivery %d", c.Before.Count, c.Connect.Count, c.Connect.Sum, c.Send.Sum, c.Delivery.Count)
			}
			if c.Delivery.Sum < 40*12.5 || c.Before.Sum < 40*10 {
				t.Errorf("the delays are %v and %v in all", c.Delivery.Sum, c.Before.Sum)
			}
			if c.Batch.Count == 0 || c.Batch.Count != c.Commit.Count || c.Batch.Sum < 41 {
				t.Errorf("batches %+v, commits %+v", c.Batch.Count, c.Commit.Count)
			}
			if c.Notes[qmgr.NoteRemoved] != 41 {
				t.Errorf("%d messages removed, want 41", c.Notes[qmgr.NoteRemoved])
			}
			// Mail that waits may have names of classes of any earlier configuration.
			sum := uint64(0)
			for _, one := range c.First {
				sum += one.Times.Count
			}
			if len(c.First) != 33 || sum != 41 || c.First[32].Class != driver.OtherClasses {
				t.Errorf("%d classes with %d messages", len(c.First), sum)
			}
		})
	}
}

// Mail that an operator has suspended is put off without an attempt: no receiver has refused it, and it still waits for
// its first attempt.
//
// Seen failing: half a million messages of a suspended domain were half a million refusals of class server.
func TestCountersOfWhatIsPutOff(t *testing.T) {
	for _, log := range []*slog.Logger{nil, slog.New(slog.NewTextHandler(&logBook{}, nil))} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult { return all(d, mail.Deferred) } // as the agent of retry does
			d, stop := w.start(t, driver.Config{Log: log})
			if _, err := d.Suspend(t.Context(), qmgr.Suspend{Scope: measure.Domain, Value: "b.test"}); err != nil {
				t.Fatal(err)
			}
			d.Arrived(w.store(1, "u@b.test"))
			time.Sleep(time.Second)
			synctest.Wait()
			stop()
			c := d.Snapshot()
			if c.Outcomes != (driver.Counters{}).Outcomes || c.Before.Count+c.Send.Count > 0 || len(c.First) > 0 || c.Notes[qmgr.NoteDeferred] != 1 {
				t.Errorf("outcomes %v, %d attempts, %d classes, %d deferred", c.Outcomes, c.Before.Count+c.Send.Count, len(c.First), c.Notes[qmgr.NoteDeferred])
			}
		})
	}
}
