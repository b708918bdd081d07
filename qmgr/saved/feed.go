package saved

import (
	"math"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A Feed returns what changes of what is known of hosts to one consumer, in the form
// that Read takes. Consumers do not disturb each other. It decides nothing, so a host
// may use it when it likes between two Steps; the oldest changes are dropped for a
// consumer that does not fetch in time. The first feed of a core also returns what changes
// of warm-ups and of measures, which concern our own addresses, and so no other node, and
// operators' orders (Orders).
type Feed struct {
	hosts    *destdb.Feed
	warmups  *warmup.Table  // nil but for the first
	measures *measure.Table // likewise
	orders   *measure.Table // likewise
}

// NewFeed returns a feed of hosts alone.
func NewFeed(hosts *destdb.Feed) *Feed { return &Feed{hosts: hosts} }

// Add has the feed return what changes in further tables, which have no other consumer.
func (f *Feed) Add(warmups *warmup.Table, measures, orders *measure.Table) {
	f.warmups, f.measures, f.orders = warmups, measures, orders
}

// Changes appends to dst what has changed since the feed was asked last, at most max
// records.
func (f *Feed) Changes(dst []mail.HostRecord, max int) []mail.HostRecord {
	if f.measures != nil {
		for _, c := range f.measures.Changed(nil, max) {
			max--
			dst = appendMeasure(dst, c)
		}
	}
	if f.warmups != nil {
		for _, c := range f.warmups.Changed(nil, max) {
			r := mail.HostRecord{Key: warmup.AppendKey(nil, c.Key)}
			if !c.Gone {
				r.Value = warmup.AppendRecord(nil, c.Record)
			}
			dst = append(dst, r)
			max--
		}
	}
	for _, c := range f.hosts.Changed(nil, max) {
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

// Orders appends to dst what has changed of suspensions, by operators and rules, since it was asked last. A
// host saves them in the order in which they are returned, and before it answers an operator.
func (f *Feed) Orders(dst []mail.HostRecord) []mail.HostRecord {
	if f.orders == nil {
		return dst
	}
	for _, c := range f.orders.Changed(nil, math.MaxInt) {
		dst = appendMeasure(dst, c)
	}
	return dst
}

// OrdersChanged reports whether Orders would append something.
func (f *Feed) OrdersChanged() bool { return f.orders != nil && f.orders.HasChanged() }

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
