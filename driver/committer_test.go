package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
)

// batches is a world that records the largest number of messages split off by one
// Apply.
type batches struct {
	*world
	splits int
}

func (b *batches) Apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error) {
	n := 0
	for i := range changes {
		n += len(changes[i].Splits)
	}
	b.splits = max(b.splits, n)
	return b.world.Apply(ctx, changes)
}

// A change that splits off a message copies content of up to 64 KiB, so only a few
// of them form one batch, of 1 MiB at most.
func TestSplitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages, most = 200, 16
		w := &batches{world: newWorld()}
		w.syncTakes = time.Millisecond
		for id := range mail.QueueID(messages) {
			m := w.store(id+1, "u@a.test").Envelope.ID
			w.messages[m].place = mail.Place{Area: mail.AreaHold}
		}
		d, err := driver.New(driver.Config{}, driver.Ports{Spool: w, Router: w, Reporter: w, Agent: func(string) driver.Agent { return w }})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, d)
		for id := range mail.QueueID(messages) {
			d.Split(id+1, mail.Split{Into: messages + 1 + id, Recipients: []uint32{0}}, false)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if w.splits < 2 || w.splits > most {
			t.Errorf("up to %d messages were split off at once, want at most %d", w.splits, most)
		}
		stop()
	})
}
