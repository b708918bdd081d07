package driver

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A readTask is a Fetch, Open or Read of the core, and when it asked.
type readTask struct {
	action qmgr.Action
	now    mail.Instant
}

// read answers the core's reads of the spool until ctx ends. What that
// interrupts is not answered: the core has been halted, and waits for changes
// and deliveries alone.
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
		return d.fetch(ctx, a, t.now)
	case qmgr.Open:
		e, place, batch, err := d.ports.Spool.Open(ctx, a.ID, a.Max)
		if err != nil {
			return d.broken(ctx, a.ID, "message could not be read", err)
		}
		return qmgr.Opened{Envelope: e, Place: place, Batch: batch}
	case qmgr.Read:
		batch, err := d.ports.Spool.Read(ctx, a.ID, a.From, a.Max)
		if err != nil {
			return d.broken(ctx, a.ID, "message could not be read", err)
		}
		return qmgr.Recipients{ID: a.ID, Batch: batch}
	}
	return nil
}

// fetch does not give up: without an answer the core would never look again.
func (d *Driver) fetch(ctx context.Context, a qmgr.Fetch, now mail.Instant) qmgr.Event {
	if !a.Scan.Timed() {
		now = mail.Never
	}
	for {
		found, err := d.ports.Spool.Fetch(ctx, a.Scan.Area(), a.From, now, a.Max)
		if err == nil {
			return qmgr.Found{Scan: a.Scan, Found: found}
		}
		if ctx.Err() != nil {
			return nil
		}
		d.log.Error("the spool's index could not be read, trying again", "area", a.Scan.Area().String(), "error", err)
		if !pause.For(ctx, retryPause) {
			return nil
		}
	}
}

// broken tells the core why a message could not be read, or reported on.
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
// core is told, which puts its message off: what it owes is durable, and a message that
// is waited for takes a place in the core. Each reporter has at most failedMost that
// fail, as more of them mean that something is wrong which takes longer to pass.
const (
	reportTries = 3
	failedMost  = 8
)

// A failedReport is one that is to be tried again.
type failedReport struct {
	id    mail.QueueID
	tries int // so far
}

// report makes the reports that the core asks for until ctx ends, beside others
// that do the same (Config.Reporters).
func (d *Driver) report(ctx context.Context) {
	var failed []failedReport
	again := time.NewTicker(retryPause)
	defer again.Stop()
	for {
		select {
		case id := <-d.reports:
			failed = d.reportOne(ctx, failedReport{id: id}, failed)
		case <-again.C:
			before := failed
			failed = nil
			for _, r := range before {
				failed = d.reportOne(ctx, r, failed)
			}
		case <-ctx.Done():
			return
		}
	}
}

// reportOne makes the reports on one message. If that fails, it is added to the others
// that are to be tried again, or the core is told.
func (d *Driver) reportOne(ctx context.Context, r failedReport, failed []failedReport) []failedReport {
	arrivals, err := d.ports.Reporter.Report(ctx, r.id)
	items := make([]item, 0, len(arrivals)+1)
	r.tries++
	switch {
	case err == nil:
		items = append(items, item{event: qmgr.Reported{ID: r.id}, ends: true})
	case ctx.Err() != nil:
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrGone), r.tries >= reportTries, len(failed) >= failedMost:
		items = append(items, item{event: d.broken(ctx, r.id, "report could not be made", err), ends: true})
	default:
		d.log.Error("report could not be made, trying again", "id", r.id.String(), "error", err)
		failed = append(failed, r)
	}
	for _, a := range arrivals { // they are durable even if more was to follow
		items = append(items, item{event: qmgr.Arrived{Arrival: a}})
	}
	d.inbox.put(items...)
	return failed
}

// handOut gives waiting reads and reports to whoever is free.
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
