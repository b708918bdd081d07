package driver

import (
	"bytes"
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

const (
	// saveEvery is the interval between saves of host records. It bounds how much more mail
	// than its allowance of a day a source sends after a crash (qmgr/warmup), and which measures
	// of rules on replies are lost (qmgr/measure).
	saveEvery = 3 * time.Second
	// saveMost is the maximum number of records in one save, so that collecting
	// them does not delay the owner.
	saveMost = 2000
	// saveRest is the interval while there are more.
	saveRest = 100 * time.Millisecond
)

// hostSaves is how changed host records get from the owner to the goroutine that saves them.
type hostSaves struct {
	feed   *qmgr.HostFeed         // of what has to be saved
	limit  int                    // of the records that are kept
	saves  chan []mail.HostRecord // has room for one
	last   chan struct{}          // closed when the last save begins
	atRest chan struct{}          // closed when saveHosts has returned
}

func newHostSaves(feed *qmgr.HostFeed, limit int) hostSaves {
	return hostSaves{feed: feed, limit: limit, saves: make(chan []mail.HostRecord, 1), last: make(chan struct{}), atRest: make(chan struct{})}
}

// loadHosts gives the core the host records of the last run, and those of warm-ups and measures.
func (d *Driver) loadHosts(ctx context.Context, most int) {
	if d.ports.Hosts == nil {
		return
	}
	var ev qmgr.Learned
	err := d.ports.Hosts.LoadHosts(ctx, most, func(r mail.HostRecord) {
		ev.Hosts = append(ev.Hosts, mail.HostRecord{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
	})
	if err != nil {
		d.log.Warn("cannot read saved host records; they will be learned again", "error", err)
	}
	err = d.ports.Hosts.LoadOrders(ctx, measure.OrderLimit+1, func(r mail.HostRecord) {
		ev.Hosts = append(ev.Hosts, mail.HostRecord{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
	})
	if err != nil {
		d.log.Error("cannot read saved suspensions: what was suspended is delivered; suspend it again", "error", err)
	}
	ev.Hosts = append(ev.Hosts, resumedRecord(d.clock.now()))
	d.step(ev)
}

// resumedRecord has the core look for mail that a suspension kept which is not in force any more: one that could not be
// saved, as on a full disk, or whose record is damaged, or that concerns the mail no more by the configuration of this
// start. Otherwise it would wait until it expires. Without suspensions that reads the index alone.
func resumedRecord(now mail.Instant) mail.HostRecord {
	key, _ := measure.AppendKey(nil, measure.Key{Scope: measure.Resumed})
	value, _ := measure.AppendRecord(nil, measure.Record{Order: measure.Order{Since: now, Until: mail.Never}})
	return mail.HostRecord{Key: key, Value: value}
}

// saveHosts saves the records that the owner sends, until the last save. What cannot be
// saved, as while the disk is full, is tried again before newer records are taken, which the
// core keeps meanwhile: a warm-up would otherwise forget what was sent on this day, and what
// an operator has ordered.
func (d *Driver) saveHosts(ctx context.Context) {
	defer close(d.hosts.atRest)
	for {
		select {
		case records := <-d.hosts.saves:
			d.save(ctx, records)
		case <-d.hosts.last:
			select {
			case records := <-d.hosts.saves: // older than those of the last save
				d.save(ctx, records)
			default:
			}
			return
		}
	}
}

// save saves records, trying again until the last save.
func (d *Driver) save(ctx context.Context, records []mail.HostRecord) {
	again := time.NewTicker(saveEvery)
	defer again.Stop()
	var failed failures
	for last := false; ; {
		err := d.ports.Hosts.SaveHosts(ctx, records)
		if err == nil {
			if tries := failed.end(); tries > 0 {
				d.log.Info("host records are saved again", "tries", tries)
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		if failed.worthALine() {
			d.log.Warn("cannot save host records", "tries", failed.tries, "error", err)
		}
		if last {
			return
		}
		select {
		case <-again.C:
		case <-d.hosts.last:
			last = true
		}
	}
}

// failures are those in a row of something that is tried again without end. The first has a line in the log, the second, the
// fourth, and so on: at ever longer intervals.
type failures struct{ tries int }

// worthALine counts a failure, and reports whether it has a line.
func (f *failures) worthALine() bool {
	f.tries++
	return isPowerOfTwo(f.tries)
}

// end returns how many there were, and forgets them.
func (f *failures) end() (tries int) {
	tries, f.tries = f.tries, 0
	return tries
}

// changedHosts sends changed host records to saveHosts, unless the previous ones
// are still being written. If there may be more than it sends, they follow soon: what is
// not saved is not bounded by their number.
func (d *Driver) changedHosts(save *time.Ticker) {
	if d.ports.Hosts == nil || len(d.hosts.saves) > 0 {
		return
	}
	records := d.hosts.feed.Changes(nil, saveMost)
	if len(records) > 0 {
		d.hosts.saves <- records // it has a buffer of one, and this is the only sender
	}
	if len(records) < saveMost {
		save.Reset(saveEvery)
	} else {
		save.Reset(saveRest)
	}
}

// saveLastHosts saves the remaining records at a stop.
func (d *Driver) saveLastHosts(ctx context.Context) {
	close(d.hosts.last)
	<-d.hosts.atRest // what it saves is older
	if d.ports.Hosts == nil {
		return
	}
	for {
		records := d.hosts.feed.Changes(nil, saveMost)
		if len(records) == 0 {
			return
		}
		if err := d.ports.Hosts.SaveHosts(ctx, records); err != nil {
			d.log.Warn("cannot save host records", "error", err)
			return
		}
	}
}
