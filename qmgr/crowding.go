package qmgr

import (
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
)

// Mail that waits for a destination of which nothing gets on (conns.Site.Stuck) would
// fill the core, and then no other mail comes in: 200,000 messages for a hundred dead
// hosts did that, until each host had been given up, and again whenever one was tried
// anew. So while less than half of the core is free, such a destination has a part of what is free
// (intake.Room). What is more is deferred with the words of the host that failed last.
//
// It is the same dynamic threshold as for connections (package conns). It takes
// nothing from destinations that are slow but get on, nor from any while half of the
// core is free: a relay that pauses for fifteen seconds, or a server that greets after
// six, is stuck for as long, and nothing but stuck. What is deferred has had no attempt,
// so it comes back as soon as its age allows, from stuckPause on: one that is a minute
// old after a minute, one that is an hour old after an hour. A pause of the receiver then
// costs its mail little more than the pause.
//
// Mail that waits for lookups that take long has the same part of the core, all of it
// together. What is more is parked (package intake). A message that cannot be parked,
// since it has recipients in the spool that have not been read, or some that will be
// tried again, or because it was parked before, or has a deadline, has those deferred that wait for slow
// lookups.

const (
	// stuckPause is the shortest time for which mail is put off because its destination
	// is stuck. Mail for dead hosts that fills the core over and over again is read and
	// written once each time, until the hosts have been given up.
	stuckPause = time.Minute
	// crowdAtOnce bounds how many messages that wait for slow lookups are looked at in
	// one Step.
	crowdAtOnce = 64
)

// StuckPrefix comes before the reason in the replies of recipients that are deferred
// without an attempt because too much other mail waits for their destination, of which
// nothing gets on.
const StuckPrefix = mail.StuckPrefix

// mayWait reports whether one more entry may wait for a destination.
func (q *Qmgr) mayWait(d *queue) bool {
	return d.site == nil || !d.site.Stuck() || q.room.MayWait(d.Waiting)
}

// relieve puts off what waits for destinations that have become stuck and is too
// much: the newest of it.
func (q *Qmgr) relieve() {
	leaving := 0 // what is put off leaves when that is recorded
	for s := q.conns.NextStuck(); s != nil; s = q.conns.NextStuck() {
		d := q.sites[s]
		if !s.Stuck() || !d.ready() {
			continue
		}
		most := q.room.MayStay(d.Waiting, leaving)
		d.pin()
		n := d.Waiting
		for e := range d.Newest(n - most) {
			leaving++
			n--
			q.putOff(e, TransportRetry, d.stuckReason())
			assert.That(d.Waiting == n, "%s:%s has %d entries waiting after one of %d was put off", d.transport.Name, d.nexthop, d.Waiting, n+1)
		}
		q.unpin(d)
	}
}

// deferring notes, before its outcome, that a recipient is put off without an attempt, and
// why; "" if it is after an attempt.
func (m *message) deferring(why string) {
	m.stuck = isStuck(why) && (m.stuck || !m.retry)
	m.warming = isWarmup(why) && (m.warming || !m.retry)
	m.suspended = suspend.IsReason(why) && (m.suspended || !m.retry)
}

// isStuck reports whether a reason, with its status or without, is a stuckReason. That of a dead destination is not, whatever
// its hosts have said.
func isStuck(why string) bool {
	if status, text, found := strings.Cut(why, " "); found && strings.Trim(status, "0123456789.") == "" {
		why = text
	}
	return strings.HasPrefix(why, StuckPrefix)
}

// stuckReason is why mail is put off for a destination that is stuck.
func (d *queue) stuckReason() mail.Reply {
	why := d.site.LastFailure()
	if why.IsZero() {
		why = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "no answer yet"}
	}
	why.Text = StuckPrefix + why.Text
	return why
}

// relieveLookups has mail leave the core that waits for slow lookups and is too much.
func (q *Qmgr) relieveLookups() {
	q.ageLookups()
	leaving := 0 // what is put off leaves when that is recorded
	for n := min(q.lookups.Stalled(), crowdAtOnce); n > 0 && q.room.TooMany(q.lookups.Stalled(), leaving); n-- {
		leaving += q.makeWay(messageOf(q.lookups.RotateStalled().Message()))
	}
}

// makeWay parks a message that waits for a slow lookup, or puts off what of it does. It
// returns how many messages leave for that, but not at once.
func (q *Qmgr) makeWay(m *message) (leaving int) {
	switch {
	case m.stage != stageRunning || m.order != orders.None || m.awaits != 0 || m.Entries > 0:
		return 0
	case m.More || m.retry || m.unreported || m.returned || m.chosen != nil || m.deadline.Heaped() || !q.lookups.HasParking():
		q.putOffStalled(m)
		return 1
	case !m.routing.MayPark():
		return 0
	}
	assert.That(len(m.outcomes) == 0, "message %v is parked with %d outcomes that are not durable", m.ID, len(m.outcomes))
	q.hold(m, -q.lookups.Park(&m.routing, m.from))
	q.forget(m)
	q.leftover = true // there may be more of it, and there is room now
	return 0
}

// putOffStalled defers the recipients of a message that wait for slow lookups.
func (q *Qmgr) putOffStalled(m *message) {
	for j := range q.lookups.TakeStalled(&m.routing) {
		q.bindJob(m, j, j.Lookup().Unanswered("no answer yet, and too much other mail waits for lookups"))
	}
	m.AllRead()
	q.attend(m)
}

// unpark opens parked messages whose lookups have ended.
func (q *Qmgr) unpark() {
	for l, scan := range []Scan{intake.LineNew: ScanIncoming, intake.LineRetries: ScanDeferred} {
		for line := intake.Line(l); q.lookups.Returning(line) && !q.halt && q.room.For(scan, q.admission.Shared()) && q.mayStart(); {
			id, from := q.lookups.Return(line)
			if !q.rests(id) {
				continue // an operator's change of it is under way, after which it is found again
			}
			m := q.open(id, from)
			m.returned = true
		}
	}
}
