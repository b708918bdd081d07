package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/saved"
)

// HostFeed returns what has to be saved of what the core knows (package saved).
type HostFeed = saved.Feed

// learned takes what was known of hosts before the last stop.
func (q *Qmgr) learned(ev Learned) {
	known := saved.Read(ev.Hosts)
	q.db.Load(known.Hosts, q.now)
	q.warmup.Load(known.Warmups, q.now)
	q.learnedOrders(known.Orders)
	q.learnedMeasures(known.Measures)
}

// heard takes what other nodes have learned of hosts.
func (q *Qmgr) heard(ev Heard) {
	var works []destdb.Key
	for _, k := range saved.Read(ev.Hosts).Hosts {
		if q.db.Hear(k.Key, k.Record, q.now) == destdb.NewsWorks {
			works = append(works, k.Key)
		}
	}
	if len(works) > 0 {
		q.tryAgain(works)
	}
}

// tryAgain has mail tried that waits for hosts which work again.
func (q *Qmgr) tryAgain(works []destdb.Key) {
	for t := range q.ring.All() {
		for d := range t.destinations() {
			if d.site == nil || !slices.ContainsFunc(works, d.site.Uses) {
				continue
			}
			d.pin()
			if d.dead() && !d.resting(q.now) {
				q.revive(d, CauseSuccess)
			}
			q.conns.Reconsider(d.site)
			d.touch()
			q.unpin(d)
		}
	}
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
