package qmgr

import "github.com/posthaste-mta/posthaste/qmgr/saved"

// HostFeed returns what has to be saved of what the core knows (package saved).
type HostFeed = saved.Feed

// learned takes what was known of hosts before the last stop, or is known elsewhere.
func (q *Qmgr) learned(ev Learned) {
	known := saved.Read(ev.Hosts)
	q.db.Load(known.Hosts, q.now)
	q.warmup.Load(known.Warmups, q.now)
	q.learnedOrders(known.Orders)
	q.learnedMeasures(known.Measures)
}

// NewHostFeed returns a feed of what changes from now on.
func (q *Qmgr) NewHostFeed() *HostFeed {
	f := saved.NewFeed(q.db.NewFeed())
	if !q.fed {
		q.fed = true
		f.Add(q.warmup, q.measured, q.suspended.Orders())
	}
	return f
}
