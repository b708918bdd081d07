package qmgr

import (
	"fmt"
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Where the core decides on connections (AgentsConnections), Postfix's scheduler
// says which entry goes next, and Finch's which connection carries it (package
// conns). What joins the two is the room of a destination: elsewhere it is what
// the window leaves beside the deliveries that are under way, here it is what the
// connections that are ready take. A destination without room blocks jobs as one
// whose window is full does, and whatever makes room unblocks them.
//
// The window counts connections: those that are ready and those that are being
// opened. A connection that cannot be made, or breaks, costs no message anything:
// what waits for it waits on, and what was not sent yet goes elsewhere. Only when
// no host of any tier can be reached is mail deferred.

// A ConnID names one connection, from Dial to Closed. IDs count up from 1 and
// are never used again within one run.
type ConnID = conns.ID

// A dialling is what the queue manager knows of a connection that is not ready yet.
type dialling struct {
	attempt window.Attempt // the concurrency at which it is opened
	message uint64         // the serial of the message for which it is
}

// openSite gives a new queue its site.
func (q *Qmgr) openSite(d *queue) {
	t := d.transport
	assert.That(d.name == d.nexthop, "%s has connections, but is found as %s", d.nexthop, d.name)
	d.site = conns.NewSite(t.group, d.nexthop, conns.Way{Source: d.source.String(), Security: d.security})
	d.site.Configure(d.limits.rateDelay > 0, d.limits.dials, q.now)
	q.sites[d.site] = d
}

// closeSite ends it with the queue.
func (q *Qmgr) closeSite(d *queue) {
	q.conns.Forget(d.site)
	delete(q.sites, d.site)
	d.site = nil
	switch {
	case d.inWanting.On(&q.wanting):
		q.wanting.Remove(&d.inWanting)
	case d.inWanting.Listed():
		d.transport.resting.Remove(&d.inWanting)
	}
}

// inUse reports whether a queue without entries has to stay because of its site or its detours.
func (d *queue) inUse() bool {
	return d.pinned || d.detours != nil || d.site != nil && (d.resolving || !d.site.Empty())
}

// pin keeps a queue from being freed by what is done next, until unpin.
func (d *queue) pin() { d.pinned = true }

func (q *Qmgr) unpin(d *queue) {
	d.pinned = false
	q.freeIfIdle(d)
}

func (q *Qmgr) hangup(c *conns.Conn) {
	q.roomChanged(c.Site())
	q.emit(Hangup{Conn: c.ID})
}

func (q *Qmgr) hangupAll(surplus []*conns.Conn) {
	for _, c := range surplus {
		q.hangup(c)
	}
}

// roomChanged brings a queue up to date whose connections take more or fewer
// entries than before.
func (q *Qmgr) roomChanged(s *conns.Site) {
	d := q.sites[s]
	d.touch()
}

// hosts takes the hosts of a nexthop.
func (q *Qmgr) hosts(ev Hosts) {
	found := false
	for d := range q.resolving(ev.Transport, ev.Nexthop) {
		found = true
		q.hostsOf(d, ev)
	}
	if !found {
		q.duplicate(0, "hosts")
	}
}

// hostsOf takes the hosts of one source's destination.
func (q *Qmgr) hostsOf(d *queue, ev Hosts) {
	d.pin()
	d.resolving = false
	set := d.source.Reachable(ev.Set)
	if ev.Reply.IsZero() && len(ev.Set.Tiers) == 0 {
		ev.Reply = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 4}, Text: "no hosts are known for " + ev.Nexthop}
	}
	switch {
	case ev.Reply.IsZero() && len(set.Tiers) == 0:
		q.outOfReach(d, set.Until)
	case ev.Reply.IsZero():
		q.reshape(d, set.Tiers[0])
		q.hangupAll(q.conns.SetHosts(d.site, set, q.hostLimits(d)))
		d.touch()
		q.planDetours(d, set)
	case ev.Reply.Permanent():
		q.rejoinAll(d)
		q.forgetHosts(d)
		q.putOffAll(d, TransportError, ev.Reply)
	case d.site.Known():
		for _, one := range d.withDetours() {
			q.conns.KeepHosts(one.site, ev.Set.Until)
		}
	case d.ready():
		d.window.Close()
		d.touch()
		q.die(d, ev.Reply, ev.Set.Until)
	}
	q.unpin(d)
}

// forgetHosts has the hosts of a destination not be known any more.
func (q *Qmgr) forgetHosts(d *queue) {
	for _, one := range d.withDetours() {
		q.hangupAll(q.conns.SetHosts(one.site, mail.HostSet{}, nil))
	}
}

// resolving are the queues for which the hosts of a nexthop are looked up: one lookup
// serves all sources and demands of security.
func (q *Qmgr) resolving(transport, nexthop string) iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		t := q.transports[transport]
		if t == nil {
			return
		}
		for d := range t.queues.Named(nexthop) {
			if d.resolving && !yield(d) {
				return
			}
		}
	}
}

// exhausted deals with a site of which no host can be reached: its mail is
// deferred until the first of them may be tried again. Where none can be secured as the mail demands,
// for good, it fails.
func (q *Qmgr) exhausted(d *queue, dec conns.Decision) {
	if d.main != nil { // which finds the same out, or does not
		q.rejoin(d)
		return
	}
	if dec.Hopeless {
		q.putOffAll(d, TransportError, dec.Reply)
		return
	}
	d.window.Close()
	d.touch()
	q.die(d, dec.Reply, dec.Until)
}

// dialed takes a connection that is ready, or the reason why it is not.
func (q *Qmgr) dialed(ev Dialed) {
	c := q.conns.Dialing(ev.Conn)
	if c == nil {
		q.duplicate(0, "dialed")
		return
	}
	l := q.dialling[ev.Conn]
	delete(q.dialling, ev.Conn)
	t := q.sites[c.Site()].transport
	defer q.dialsNext(t)
	defer q.judgeAddress(q.sites[c.Site()].source, c.Host(), &ev.Opened)
	if m := q.messages[c.Message()]; m != nil && m.serial == l.message { // it may have left and come back
		q.ease(m)
	}
	d := q.sites[c.Site()]
	d.pin()
	defer q.unpin(d)
	ready, surplus, f := q.conns.Dialed(ev.Conn, ev.Opened, q.now)
	q.hangupAll(surplus)
	q.connFeedback(d, f, l.attempt, ev.Opened.Reply)
	q.measure(d, ev.Opened.Measure)
	d.touch()
	if q.halt && ready != nil {
		q.hangupAll(q.conns.Halt())
	}
}

// closed takes the end of a connection. Everything that was sent to it has been
// answered.
func (q *Qmgr) closed(ev Closed) {
	c := q.conns.Established(ev.Conn)
	if c == nil {
		q.duplicate(0, "closed")
		return
	}
	d := q.sites[c.Site()]
	d.pin()
	defer q.unpin(d)
	q.untry(c)
	if ev.Closing.Why == mail.CloseMixed {
		q.emit(Note{Kind: NoteMixed, Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.String(), Security: d.security, Text: mixedText(c.Host(), ev.Closing.Reply)})
	}
	measure := ev.Closing.Measure
	ev.Closing.Measure = nil // what is remembered of the connection does not have it
	f := q.conns.Closed(ev.Conn, ev.Closing, q.now)
	d.touch()
	q.connFeedback(d, f, window.Attempt{}, ev.Closing.Reply)
	q.measure(d, measure)
	q.db.Collect(q.now, collectSome)
}

// mixedText names a server that has mixed messages up, and what showed it.
func mixedText(h mail.Host, why mail.Reply) string {
	return fmt.Sprintf("%s[%s]: %s", h.Name, h.Addr.Addr(), why)
}

// collectSome is the number of records of hosts that are looked at for old ones whenever a
// connection ends.
const collectSome = 16
