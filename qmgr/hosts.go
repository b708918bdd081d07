package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// learned takes what was known of hosts before the last stop, or is known
// elsewhere. What cannot be read is worth no more than a connection, and is
// skipped.
func (q *Qmgr) learned(ev Learned) {
	records := make([]destdb.Known, 0, len(ev.Hosts))
	for _, r := range ev.Hosts {
		key, err := destdb.ParseKey(r.Key)
		if err != nil {
			continue
		}
		record, err := destdb.ParseRecord(r.Value)
		if err != nil {
			continue
		}
		records = append(records, destdb.Known{Key: key, Record: record})
	}
	q.db.Load(records, q.now)
}

// A HostFeed returns what changes of what is known of hosts to one consumer, in the form
// that Learned takes. Consumers do not disturb each other. It decides nothing, so a host
// may use it when it likes between two Steps; the oldest changes are dropped for a
// consumer that does not fetch in time.
type HostFeed struct{ feed *destdb.Feed }

// NewHostFeed returns a feed of what changes from now on.
func (q *Qmgr) NewHostFeed() *HostFeed { return &HostFeed{q.db.NewFeed()} }

// Changes appends to dst what has changed since the feed was asked last, at most max
// records.
func (f *HostFeed) Changes(dst []mail.HostRecord, max int) []mail.HostRecord {
	for _, c := range f.feed.Changed(nil, max) {
		key, ok := destdb.AppendKey(nil, c.Key)
		if !ok {
			continue
		}
		r := mail.HostRecord{Key: key}
		if !c.Gone {
			r.Value = destdb.AppendRecord(nil, c.Record)
		}
		dst = append(dst, r)
	}
	return dst
}
