package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// Offline returns since when our own network is held to be down, because hardly
// any host can be reached; 0 if it is not.
func (q *Qmgr) Offline() mail.Instant { return q.conns.Offline() }

// longOffline is for how long our network must have been down for mail to have been
// deferred because of it; until then it waits in core (package conns).
const longOffline = 5 * time.Minute

// A comeback is what there is to do because our network is back.
type comeback struct {
	since mail.Instant // what was tried last then or later is to be tried again; 0: nothing
	next  mail.Instant // not before this
}

// comebackPause is the shortest time between two scans for what was put off. Each reads
// all deferred mail to find it, and a network may come and go.
const comebackPause = 10 * time.Minute

// noticeNetwork has what was put off while our network was down tried again when it
// is back. It would wait for its time, up to an hour, for no fault of its own nor of
// its destination's. What was deferred before, by a receiver, keeps its time.
func (q *Qmgr) noticeNetwork() {
	since, b := q.conns.Offline(), &q.comeback
	if q.offline != 0 && since == 0 && q.now >= q.offline.Add(longOffline) && b.since == 0 {
		b.since = q.offline.Add(-destdb.OutageWindow) // it took so long to find out
	}
	q.offline = since
	if q.comebackWake() <= q.now {
		q.retryTriedSince(b.since)
		*b = comeback{next: q.now.Add(comebackPause)}
	}
}

// comebackWake is when the next scan is to begin. It does not have one that is under
// way begin anew, which might never end then.
func (q *Qmgr) comebackWake() mail.Instant {
	if q.comeback.since == 0 || q.offline != 0 || q.halt || q.admission.UnderWay(ScanFlush) {
		return mail.Never
	}
	return q.comeback.next
}
