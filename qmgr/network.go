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

// noticeNetwork has what was put off while our network was down tried again when it
// is back. It would wait for its time, up to an hour, for no fault of its own nor of
// its destination's. What was deferred before, by a receiver, keeps its time.
func (q *Qmgr) noticeNetwork() {
	since := q.conns.Offline()
	if q.offline != 0 && since == 0 && q.now >= q.offline.Add(longOffline) {
		q.recovery.Want(q.offline.Add(-destdb.OutageWindow)) // it took so long to find out
	}
	q.offline = since
	if q.recoveryWake() <= q.now {
		q.retryTriedSince(q.recovery.Begin(q.now))
	}
}

// recoveryWake returns when the next recovery scan is to begin. A scan that is under way
// does not begin anew for it, or it might never end.
func (q *Qmgr) recoveryWake() mail.Instant {
	if q.offline != 0 || q.halt || q.admission.UnderWay(ScanFlush) {
		return mail.Never
	}
	return q.recovery.Wake()
}
