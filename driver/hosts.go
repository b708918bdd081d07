package driver

import (
	"bytes"
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

const (
	// saveEvery is the interval between saves of host records. It bounds how much more mail
	// than its allowance of a day a source sends after a crash (qmgr/warmup).
	saveEvery = 3 * time.Second
	// saveMost is the maximum number of records in one save, so that collecting
	// them does not delay the owner; the rest waits for the next save.
	saveMost = 2000
)

// loadHosts gives the core the host records of the last run, and those of warm-ups.
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
	if len(ev.Hosts) > 0 {
		d.step(ev)
	}
}

// saveHosts saves the records that the owner sends.
func (d *Driver) saveHosts(ctx context.Context) {
	for {
		select {
		case records := <-d.hostSaves:
			if err := d.ports.Hosts.SaveHosts(ctx, records); err != nil && ctx.Err() == nil {
				d.log.Warn("cannot save host records", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// changedHosts sends changed host records to saveHosts, unless the previous ones
// are still being written.
func (d *Driver) changedHosts() {
	if d.ports.Hosts == nil || len(d.hostSaves) > 0 {
		return
	}
	if records := d.hostFeed.Changes(nil, saveMost); len(records) > 0 {
		d.hostSaves <- records // it has a buffer of one, and this is the only sender
	}
}

// saveLastHosts saves the remaining records at a stop.
func (d *Driver) saveLastHosts(ctx context.Context) {
	if d.ports.Hosts == nil {
		return
	}
	select { // the records sent last are older than those that follow
	case records := <-d.hostSaves:
		if err := d.ports.Hosts.SaveHosts(ctx, records); err != nil {
			d.log.Warn("cannot save host records", "error", err)
		}
	default:
	}
	for {
		records := d.hostFeed.Changes(nil, saveMost)
		if len(records) == 0 {
			return
		}
		if err := d.ports.Hosts.SaveHosts(ctx, records); err != nil {
			d.log.Warn("cannot save host records", "error", err)
			return
		}
	}
}
