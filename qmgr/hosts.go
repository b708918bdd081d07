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

// HostChanges appends to dst what has changed of what is known of hosts since it
// was asked last, at most max records, in the form that Learned takes. It decides
// nothing, so a host may call it when it likes between two Steps; what no host
// asks for in time is forgotten.
func (q *Qmgr) HostChanges(dst []mail.HostRecord, max int) []mail.HostRecord {
	for _, c := range q.db.Changed(nil, max) {
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
