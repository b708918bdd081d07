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

// slowReports is a world in which the commit of a report takes a while.
type slowReports struct {
	*world
	now, most atomic.Int64 // reports under way
}

const reportTakes = 10 * time.Millisecond

func (s *slowReports) Report(ctx context.Context, id mail.QueueID) ([]mail.Arrival, error) {
	now := s.now.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	time.Sleep(reportTakes)
	s.now.Add(-1)
	return s.world.Report(ctx, id)
}

// Many reports that are owed at once do not wait for each other's commit, and
// never more are made at once than Config.Reporters.
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
