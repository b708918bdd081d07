package driver

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A readTask is a Fetch, Open or Read of the core, and the time of the request.
type readTask struct {
	action qmgr.Action
	now    mail.Instant
	ahead  time.Duration // how far that is ahead of the wall clock
}

// read answers the core's reads of the spool until ctx ends. A read that is then
// interrupted is not answered: the core has been halted, and waits only for changes
// and deliveries.
func (d *Driver) read(ctx context.Context) {
	for {
		select {
		case task := <-d.reads:
			if ev := d.answer(ctx, task); ev != nil {
				d.inbox.event(ev)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (d *Driver) answer(ctx context.Context, t readTask) qmgr.Event {
	switch a := t.action.(type) {
	case qmgr.Fetch:
		return d.fetch(ctx, a, t)
	case qmgr.Open:
		e, place, batch, err := d.ports.Spool.Open(ctx, a.ID, a.Max)
		if err != nil {
			return d.broken(ctx, a.ID, "cannot read message", err)
		}
		return qmgr.Opened{Envelope: e, Place: place, Batch: batch}
	case qmgr.Read:
		batch, err := d.ports.Spool.Read(ctx, a.ID, a.From, a.Max)
		if err != nil {
			return d.broken(ctx, a.ID, "cannot read message", err)
		}
		return qmgr.Recipients{ID: a.ID, Batch: batch}
	}
	return nil
}

// fetch does not give up: without an answer the core would never scan again.
//
// A date that a sender has named for held mail is one of the wall clock. Where the core's clock is ahead of that, such mail
// would be sent before its date, what arrives now included, until the next start. NOTE: while the core's clock
// catches up, it may be found later, by as much as the clock was ahead; and mail that was to be kept for a time, and
// arrived before the clock was set back, is kept longer by as much.
func (d *Driver) fetch(ctx context.Context, a qmgr.Fetch, t readTask) qmgr.Event {
	now, ahead := t.now, time.Duration(0)
	switch {
	case !a.Scan.Timed():
		now = mail.Never
	case a.Scan == qmgr.ScanHeld:
		ahead = t.ahead
		now = now.Add(-ahead)
	}
	for {
		found, err := d.ports.Spool.Fetch(ctx, a.Scan.Area(), a.From, now, a.Max)
		if err == nil {
			found.NextDue = found.NextDue.Add(ahead)
			return qmgr.Found{Scan: a.Scan, Found: found}
		}
		if ctx.Err() != nil {
			return nil
		}
		d.log.Error("cannot read the spool's index, trying again", "area", a.Scan.Area().String(), "error", err)
		if !pause.For(ctx, retryPause) {
			return nil
		}
	}
}

// broken returns the event for a message that could not be read or reported on,
// with the reason.
func (d *Driver) broken(ctx context.Context, id mail.QueueID, what string, err error) qmgr.Event {
	if ctx.Err() != nil {
		return nil
	}
	b := qmgr.Broken{ID: id, Why: qmgr.TroubleTemporary, Text: err.Error()}
	switch {
	case errors.Is(err, ErrGone):
		b.Why = qmgr.TroubleGone
	case errors.Is(err, ErrCorrupt):
		b.Why = qmgr.TroubleCorrupt
		d.log.Error("damaged message", "id", id.String(), "error", err)
	default:
		d.log.Error(what, "id", id.String(), "error", err)
	}
	return b
}

// A report that cannot be made is tried reportTries times, retryPause apart. Then the
// core is notified, which defers the message: that the report is owed is durable, and a
// message that waits occupies a place in the core. Each reporter keeps at most
// failedMost failed reports, as more of them mean a problem that takes longer to pass.
const (
	reportTries = 3
	failedMost  = 8
)

// reportsMost is the number of reports on one message that are passed to the core at once.
const reportsMost = 100

// A failedReport is a report that will be tried again.
type failedReport struct {
	id    mail.QueueID
	tries int // so far
}

// report makes the reports that the core requests until ctx ends. Config.Reporters
// goroutines run it.
func (d *Driver) report(ctx context.Context) {
	var failed []failedReport
	again := time.NewTicker(retryPause)
	defer again.Stop()
	again.Stop() // it ticks while something has failed: who has nothing to do does not wake
	for {
		select {
		case id := <-d.reports:
			none := len(failed) == 0
			failed = d.reportOne(ctx, failedReport{id: id}, failed)
			if none && len(failed) > 0 {
				again.Reset(retryPause)
			}
		case <-again.C:
			before := failed
			failed = nil
			for _, r := range before {
				failed = d.reportOne(ctx, r, failed)
			}
			if len(failed) == 0 {
				again.Stop()
			}
		case <-ctx.Done():
			return
		}
	}
}

// reportOne makes the reports on one message. If that fails, the message is added to
// failed, or the core is notified.
func (d *Driver) reportOne(ctx context.Context, r failedReport, failed []failedReport) []failedReport {
	var made []item
	err := d.ports.Reporter.Report(ctx, r.id, func(a mail.Arrival) { // durable even if others fail
		if made = append(made, item{event: qmgr.Arrived{Arrival: a}}); len(made) >= reportsMost {
			d.inbox.put(made...)
			made = nil
		}
	})
	var items []item
	r.tries++
	switch {
	case err == nil:
		items = append(items, item{event: qmgr.Reported{ID: r.id}, ends: true})
	case ctx.Err() != nil:
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrGone), r.tries >= reportTries, len(failed) >= failedMost:
		items = append(items, item{event: d.broken(ctx, r.id, "cannot make the report", err), ends: true})
	default:
		d.log.Error("cannot make the report, trying again", "id", r.id.String(), "error", err)
		failed = append(failed, r)
	}
	d.inbox.put(append(items, made...)...)
	return failed
}

// handOut gives waiting reads and reports to idle readers and reporters.
func (d *Driver) handOut() {
	for {
		select {
		case d.readsOut() <- d.nextRead():
			d.readQueue = d.readQueue[1:]
		case d.reportsOut() <- d.nextReport():
			d.owedQueue = d.owedQueue[1:]
		default:
			return
		}
	}
}

// readsOut is nil, on which a send never succeeds, while nothing waits.
func (d *Driver) readsOut() chan<- readTask {
	if len(d.readQueue) == 0 {
		return nil
	}
	return d.reads
}

func (d *Driver) nextRead() readTask {
	if len(d.readQueue) == 0 {
		return readTask{}
	}
	return d.readQueue[0]
}

func (d *Driver) reportsOut() chan<- mail.QueueID {
	if len(d.owedQueue) == 0 {
		return nil
	}
	return d.reports
}

func (d *Driver) nextReport() mail.QueueID {
	if len(d.owedQueue) == 0 {
		return 0
	}
	return d.owedQueue[0]
}
