package daemon

import (
	"time"

	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/mail"
)

// newSampler returns the sampler of the figures that people watch.
func newSampler(d *Daemon) *live.Sampler {
	return live.New(live.Config{View: d.driver.View, Destinations: d.driver.Destinations, Flows: d.driver.Flows, Facts: func() live.Facts {
		free := d.spool.Health().Free
		return live.Facts{Unready: d.monitor.unready(), Spool: spoolTotals(d), Free: free, Headroom: free - d.spool.MinFree(), Sessions: d.inbound.Snapshot().Open}
	}})
}

// spoolTotals returns how much the spool has; nil until that is known.
func spoolTotals(d *Daemon) *live.SpoolTotals {
	sum, known := d.spool.Totals()
	if !known {
		return nil
	}
	of := func(area mail.Area) int64 { return int64(sum.Messages[area]) }
	s := &live.SpoolTotals{Incoming: of(mail.AreaIncoming), Deferred: of(mail.AreaDeferred), Hold: of(mail.AreaHold), Corrupt: of(mail.AreaCorrupt)}
	oldest := sum.Oldest[mail.AreaIncoming]
	if at := sum.Oldest[mail.AreaDeferred]; oldest == 0 || at != 0 && at < oldest {
		oldest = at
	}
	if oldest != 0 {
		at := time.Unix(0, int64(oldest)).UTC()
		s.Oldest = &at
	}
	return s
}
