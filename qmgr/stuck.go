package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// Mail that waits for a destination of which nothing gets on (conns.Site.Stuck) would
// fill the core, and then no other mail comes in: 200,000 messages for a hundred dead
// hosts did that, until each host had been given up, and again whenever one was tried
// anew. So such a destination may have no more entries waiting than an eighth of the
// messages for which there is still room, and always one. With a hundred such
// destinations a thirteenth of the core is left for others. What is more is deferred
// with the words of the host that failed last.
//
// It is the same dynamic threshold as for connections (package conns). It takes
// nothing from destinations that are slow but get on, nor from any while the core is
// empty enough.

const stuckPart = 8

// StuckPrefix comes before the reason in the replies of recipients that are deferred
// without an attempt because too much other mail waits for their destination, of which
// nothing gets on.
const StuckPrefix = mail.StuckPrefix

// mayWait reports whether one more entry may wait for a destination.
func (q *Qmgr) mayWait(d *queue) bool {
	return d.site == nil || !d.site.Stuck() || d.todo.Len() <= q.unused()/stuckPart
}

// unused is for how many more messages there is room in core.
func (q *Qmgr) unused() int { return max(q.cfg.ActiveLimit-q.mails(), 0) }

// relieve puts off what waits for destinations that have become stuck and is too
// much: the newest of it.
func (q *Qmgr) relieve() {
	for s := q.conns.NextStuck(); s != nil; s = q.conns.NextStuck() {
		d := q.sites[s]
		if !s.Stuck() || !d.ready() {
			continue
		}
		// What leaves makes room, of which the destination has its part again.
		most := 1 + (q.unused()+d.todo.Len())/(stuckPart+1)
		d.pin()
		for n := d.todo.Len(); n > most; n-- {
			q.putOff(d.todo.Back(), TransportRetry, d.stuckReason())
			assert.That(d.todo.Len() == n-1, "%s:%s has %d entries waiting after one of %d was put off", d.transport.name, d.nexthop, d.todo.Len(), n)
		}
		q.unpin(d)
	}
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
