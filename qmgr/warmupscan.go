package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// Mail that waits for nothing but the next day of a warm-up is due at the first instant of
// that day, to the nanosecond, and hardly anything else is: so the spool's index has it in
// one place. When an allowance is raised before, by an order or a reload, a scan reads what
// is due then (intake.ScanWarmup), and what a receiver deferred keeps its time. The
// same scan is made after a start, since the configuration may have changed meanwhile.
//
// A message that still finds no source stays as it is: nothing of it is changed, so that a
// pass over a million of them costs a million reads and no write, and the rest of the
// recipients of a message of which some can go waits as before. A scan for single sites ends
// when these have no more left for the day. When it may begin is decided by warmup.Scan.

// scanWarmups begins and ends the scan.
func (q *Qmgr) scanWarmups() {
	w, a := &q.warmups, q.admission
	if due, of := w.UnderWay(); due != 0 && (!a.UnderWay(ScanWarmup) || due != q.warmupDue() || q.usedUp(of)) {
		a.EndWarmup()
		w.End(q.now)
	}
	if !q.halt && q.warmupWake() <= q.now {
		a.BeginWarmup(w.Begin(q.now))
	}
}

// warmupWake returns when the next scan is to begin. It waits for the survey of buckets that
// have deferred mail, and for what the last one has begun to read.
func (q *Qmgr) warmupWake() mail.Instant {
	if at := q.warmups.WakeAt(); at != mail.Never && q.admission.MayBeginWarmup() {
		return at
	}
	return mail.Never
}

// warmupDue is when mail is due that is deferred today because of a warm-up.
func (q *Qmgr) warmupDue() mail.Instant { return warmup.DayOf(q.now).End() }

// usedUp reports whether none of some sources may send more to its site than waits already.
func (q *Qmgr) usedUp(keys []warmup.Key) bool {
	return keys != nil && !slices.ContainsFunc(keys, func(k warmup.Key) bool {
		left := q.warmup.Allowance(k, q.now).Left()
		for t := range q.ring.All() {
			left -= t.waitingFrom(k.Site, k.Source)
		}
		return left > 0
	})
}

// leaveAside leaves a recipient as it is that has no source today, of a message that was
// looked at again because some allowance was raised. It reports false for any other.
func (q *Qmgr) leaveAside(m *message, why mail.Reply) bool {
	if m.from != intake.FromWarmup || !isWarmup(why.Text) {
		return false
	}
	m.deferring(why.Text)
	m.retry, m.aside = true, true
	q.hold(m, -1)
	return true
}

// untouched reports whether nothing has become of a message at the end of its round: it
// waits as before.
func (q *Qmgr) untouched(m *message) bool {
	if !m.aside || m.unreported || m.changed || len(m.outcomes) > 0 || m.order != orders.None || m.place.Area != mail.AreaDeferred {
		return false
	}
	return m.warming && (m.place.Due == q.warmupDue() || m.place.Due <= q.now) ||
		m.suspended && m.place.Due == q.beforeDeadline(m, q.suspendedDue(m))
}

// rest takes a message out of core that stays where it is.
func (q *Qmgr) rest(m *message) {
	q.admission.Appeared(m.ID, m.place)
	q.forget(m)
}
