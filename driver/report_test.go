package driver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// slowReports is a world in which the commit of a report takes a while.
type slowReports struct {
	*world
	now, most atomic.Int64 // reports under way
}

const reportTakes = 10 * time.Millisecond

func (s *slowReports) Report(ctx context.Context, id mail.QueueID, arrived func(mail.Arrival)) error {
	now := s.now.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	time.Sleep(reportTakes)
	s.now.Add(-1)
	return s.world.Report(ctx, id, arrived)
}

// Many reports that are owed at once do not wait for each other's commit, and at
// most Config.Reporters are made concurrently.
func TestReportsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reporters, messages = 4, 100
		w := newWorld()
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult { return all(d, mail.Failed) }
		for id := range mail.QueueID(messages) {
			w.store(id+1, "u@a.test")
		}
		s := &slowReports{world: w}
		d, err := driver.New(driver.Config{Reporters: reporters}, driver.Ports{Spool: w, Router: w, Reporter: s, Agent: func(string) driver.Agent { return w }})
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		stop := run(t, d)
		for w.count() > 0 && time.Since(before) < time.Minute {
			time.Sleep(reportTakes)
			synctest.Wait()
		}
		if took, want := time.Since(before), messages/reporters*reportTakes; took > 2*want {
			t.Errorf("%d reports took %v, want about %v", messages, took, want)
		}
		if most := s.most.Load(); most != reporters {
			t.Errorf("%d reports at once, want %d", most, reporters)
		}
		stop()
	})
}

// Messages whose reports cannot be made, for example because their content cannot be
// read, do not block other mail, however many there are; once the reports can be made,
// they are.
//
// Seen failing: they stayed in the core until it was full.
func TestReportsThatFailKeepNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, bad, good = 50, 1000, 10
		w := newWorld()
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult {
			if d.Nexthop == "bad.test" {
				r := all(d, mail.Failed)
				r.Outcomes[0].Report = mail.ReportFailed
				return r
			}
			return all(d, mail.Delivered)
		}
		for id := range mail.QueueID(bad) {
			w.errors["report "+(id+1).String()] = 1 << 30
			w.store(id+1, "u@bad.test")
		}
		d, stop := w.start(t, driver.Config{Qmgr: qmgr.Config{ActiveLimit: limit}})
		time.Sleep(time.Minute)
		for id := range mail.QueueID(good) {
			d.Arrived(w.store(bad+1+id, "u@good.test"))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := w.count(); n != bad {
			t.Errorf("%d messages are left, want the %d that owe a report", n, bad)
		}
		w.mu.Lock()
		clear(w.errors)
		w.mu.Unlock()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(w.reports) != bad || w.count() != 0 {
			t.Errorf("%d reports were made and %d messages are left", len(w.reports), w.count())
		}
		stop()
	})
}

// If nearly all reports fail, only a few are retried at once: the others are deferred,
// and the queue of reports moves on.
func TestFewReportsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 1000
		w := newWorld()
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult { return all(d, mail.Failed) }
		w.errors["report"] = 1 << 30
		for id := range mail.QueueID(messages) {
			w.store(id+1, "u@a.test")
		}
		d, err := driver.New(driver.Config{Reporters: 1}, driver.Ports{Spool: w, Router: w, Reporter: &slowReports{world: w}, Agent: func(string) driver.Agent { return w }})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, d)
		time.Sleep(3 * messages * reportTakes / 2) // three tries of each would take twice that
		synctest.Wait()
		if v, err := d.View(t.Context(), 0); err != nil || v.Messages != 0 {
			t.Errorf("%d messages are still in core, %v", v.Messages, err)
		}
		stop()
	})
}
