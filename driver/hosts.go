package driver

import (
	"bytes"
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

const (
	// saveEvery is how often what is known of hosts is saved.
	saveEvery = 10 * time.Second
	// saveMost is how many records are saved at once, so that the owner is not held
	// up by collecting them; the rest waits for the next time.
	saveMost = 2000
)

// loadHosts tells the core what was known at the last stop.
func (d *Driver) loadHosts(ctx context.Context, most int) {
	if d.ports.Hosts == nil {
		return
	}
	var ev qmgr.Learned
	err := d.ports.Hosts.LoadHosts(ctx, most, func(r mail.HostRecord) {
		ev.Hosts = append(ev.Hosts, mail.HostRecord{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
	})
	if err != nil {
		d.log.Warn("what was known of hosts cannot be read; it will be learned again", "error", err)
	}
	if len(ev.Hosts) > 0 {
		d.step(ev)
	}
}

// saveHosts saves what the owner hands over.
func (d *Driver) saveHosts(ctx context.Context) {
	for {
		select {
		case records := <-d.hostSaves:
			if err := d.ports.Hosts.SaveHosts(ctx, records); err != nil && ctx.Err() == nil {
				d.log.Warn("what is known of hosts cannot be saved", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// changedHosts hands what has changed of what is known of hosts to be saved, unless
// the last ones are still being written.
func (d *Driver) changedHosts() {
	if d.ports.Hosts == nil || len(d.hostSaves) > 0 {
		return
	}
	if records := d.core.HostChanges(nil, saveMost); len(records) > 0 {
		d.hostSaves <- records // it has room for one, and nobody else puts any in
	}
}

// saveLastHosts saves what is left at a stop.
func (d *Driver) saveLastHosts(ctx context.Context) {
	if d.ports.Hosts == nil {
		return
	}
	select { // what was handed over last is older than what follows
	case records := <-d.hostSaves:
		if err := d.ports.Hosts.SaveHosts(ctx, records); err != nil {
			d.log.Warn("what is known of hosts cannot be saved", "error", err)
		}
	default:
	}
	for {
		records := d.core.HostChanges(nil, saveMost)
		if len(records) == 0 {
			return
		}
		if err := d.ports.Hosts.SaveHosts(ctx, records); err != nil {
			d.log.Warn("what is known of hosts cannot be saved", "error", err)
			return
		}
	}
}
