package daemon

import (
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/quota"
)

// What tenants have sent is in the spool, so that limits per hour and longer hold across
// restarts. It is saved every quotaPause and at the end: a kill loses what was counted
// since then, which was accepted beyond the limits at worst.
const (
	quotaPause = 30 * time.Second
	quotaPage  = 256
	// quotaRecords bounds the records that are read: three levels of the most that a book
	// keeps.
	quotaRecords = 200_000
)

// quotaCounts returns for what the spool must count messages.
func quotaCounts(cfg *config.Config) mail.CountLevel {
	q := cfg.Quotas()
	return q.Counts()
}

// loadQuotas takes over what earlier processes have counted.
func (d *Daemon) loadQuotas(ctx context.Context) {
	var stale []mail.HostRecord
	err := d.spool.LoadRates(ctx, quotaRecords, func(r mail.HostRecord) {
		s, err := quota.Parse(string(r.Key), string(r.Value))
		if err != nil || !d.quotas.Restore(s) {
			stale = append(stale, mail.HostRecord{Key: []byte(string(r.Key))})
		}
	})
	if err == nil && len(stale) > 0 {
		err = d.spool.SaveRates(ctx, stale)
	}
	if err != nil {
		d.log.Warn("what tenants have sent before the start is not known; it does not count under their limits", "error", err)
	}
}

// keepQuotas saves what is counted until ctx ends.
func (d *Daemon) keepQuotas(ctx context.Context) {
	tick := time.NewTicker(quotaPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.saveQuotas()
		case <-ctx.Done():
			return
		}
	}
}

func (d *Daemon) saveQuotas() {
	for more := true; more; {
		var list []quota.Saved
		list, more = d.quotas.Save(quotaPage)
		records := make([]mail.HostRecord, len(list))
		for i := range list {
			records[i].Key = []byte(list[i].Key)
			if len(list[i].Messages)+len(list[i].Recipients) > 0 {
				records[i].Value = []byte(list[i].Text())
			}
		}
		if len(records) == 0 {
			return
		}
		if err := d.spool.SaveRates(context.Background(), records); err != nil {
			d.quotas.Unsaved(list) // the next save tries again
			d.log.Warn("what tenants have sent cannot be saved; after a restart it does not count under their limits", "error", err)
			return
		}
	}
}
