package qmgr

import (
	"math"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// learned takes what was known of hosts before the last stop, or is known
// elsewhere. What cannot be read is worth no more than a connection, and is
// skipped.
func (q *Qmgr) learned(ev Learned) {
	records := make([]destdb.Known, 0, len(ev.Hosts))
	for _, r := range ev.Hosts {
		if warmup.IsKey(r.Key) { // or measure.IsKey: they begin likewise
			continue
		}
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
	q.learnedWarmups(ev.Hosts)
	q.learnedMeasures(ev.Hosts)
}

// A HostFeed returns what changes of what is known of hosts to one consumer, in the form
// that Learned takes. Consumers do not disturb each other. It decides nothing, so a host
// may use it when it likes between two Steps; the oldest changes are dropped for a
// consumer that does not fetch in time. The first feed of a core also returns what changes
// of warm-ups and of measures, which concern our own addresses, and so no other node, and
// operators' orders (Orders).
type HostFeed struct {
	feed     *destdb.Feed
	warmup   *warmup.Table  // nil but for the first
	measured *measure.Table // likewise
	orders   *measure.Table // likewise
}

// NewHostFeed returns a feed of what changes from now on.
func (q *Qmgr) NewHostFeed() *HostFeed {
	f := &HostFeed{feed: q.db.NewFeed()}
	if !q.fed {
		q.fed, f.warmup, f.measured, f.orders = true, q.warmup, q.measured, q.suspended.Orders()
	}
	return f
}

// Changes appends to dst what has changed since the feed was asked last, at most max
// records.
func (f *HostFeed) Changes(dst []mail.HostRecord, max int) []mail.HostRecord {
	if f.measured != nil {
		for _, c := range f.measured.Changed(nil, max) {
			max--
			dst = appendMeasure(dst, c)
		}
	}
	if f.warmup != nil {
		for _, c := range f.warmup.Changed(nil, max) {
			r := mail.HostRecord{Key: warmup.AppendKey(nil, c.Key)}
			if !c.Gone {
				r.Value = warmup.AppendRecord(nil, c.Record)
			}
			dst = append(dst, r)
			max--
		}
	}
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

// Orders appends to dst what has changed of operators' suspensions since it was asked last. A host saves
// them in the order in which they are returned, and before it answers the operator.
func (f *HostFeed) Orders(dst []mail.HostRecord) []mail.HostRecord {
	if f.orders == nil {
		return dst
	}
	for _, c := range f.orders.Changed(nil, math.MaxInt) {
		dst = appendMeasure(dst, c)
	}
	return dst
}

// OrdersChanged reports whether Orders would append something.
func (f *HostFeed) OrdersChanged() bool { return f.orders != nil && f.orders.HasChanged() }

// appendMeasure appends what has become of a measure. One that cannot be saved is forgotten at the
// next stop, and so is what was saved of it before.
func appendMeasure(dst []mail.HostRecord, c measure.Change) []mail.HostRecord {
	key, ok := measure.AppendKey(nil, c.Key)
	if !ok {
		return dst
	}
	r := mail.HostRecord{Key: key}
	if !c.Gone {
		r.Value, _ = measure.AppendRecord(nil, c.Record)
	}
	return append(dst, r)
}
