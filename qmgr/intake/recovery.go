package intake

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Recovery is the scan that our network's return makes necessary, or that of a source's
// address: what was put off meanwhile would wait for its time, for no fault of its own nor of its destination's.
type Recovery struct {
	since mail.Instant // what was tried last then or later will be tried again; 0: nothing
	next  mail.Instant // not before this
}

// recoveryPause is the shortest time between two such scans. Each reads all deferred
// mail to find what was put off, and a network may come and go.
const recoveryPause = 10 * time.Minute

// Want has what was tried last at an instant or later tried again, besides what is wanted
// already.
func (r *Recovery) Want(since mail.Instant) {
	if r.since == 0 || since < r.since {
		r.since = since
	}
}

// Wake returns when the next scan may begin; Never if nothing is wanted.
func (r *Recovery) Wake() mail.Instant {
	if r.since == 0 {
		return mail.Never
	}
	return r.next
}

// Begin notes that a scan begins, and returns what it is for: what was tried last at an instant or later.
func (r *Recovery) Begin(now mail.Instant) (since mail.Instant) {
	since = r.since
	*r = Recovery{next: now.Add(recoveryPause)}
	return since
}
