package qmgr

import (
	"fmt"
	"slices"

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
	d.site = conns.NewSite(t.group, d.nexthop)
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

// inUse tells whether a queue without entries has to stay because of its site.
func (d *queue) inUse() bool {
	return d.pinned || d.site != nil && (d.resolving || !d.site.Empty())
}

// pin keeps a queue from being freed by what is done next, until unpin.
func (d *queue) pin() { d.pinned = true }

func (q *Qmgr) unpin(d *queue) {
	d.pinned = false
	q.freeIfIdle(d)
}

// connect asks for connections where entries wait and none has room. It stops when
// an idle one was taken over, and tells so: it is to be used before another takes
// it away again.
func (q *Qmgr) connect() (taken bool) {
	q.wakeSites()
	for t := range q.ring.All() {
		if t.cfg.Scheduler == Runner && t.group != nil {
			t.wantForRun()
		}
	}
	for d := q.wanting.Front(); d != nil && !taken; d = q.wanting.Front() {
		d.pin()
		taken = q.reach(d)
		if q.leftover {
			q.unpin(d)
			return taken
		}
		q.wanting.Remove(&d.inWanting)
		if d.transport.paused {
			d.want() // when it goes on
		}
		q.conns.PassOn(d.site)
		q.unpin(d)
		q.wakeSites()
	}
	return taken
}

// wakeSites has those asked again whose wait may be over.
func (q *Qmgr) wakeSites() {
	for s := q.conns.Woken(); s != nil; s = q.conns.Woken() {
		switch d := q.sites[s]; {
		case d.inWanting.On(&d.transport.resting):
			q.conns.PassOn(s)
		case !d.inWanting.Listed():
			q.wanting.PushBack(&d.inWanting, d)
		}
	}
}

// eager tells whether a queue could start an entry now if a connection had room.
// One that may not would keep a connection from others, or open it for nothing.
func (d *queue) eager() bool {
	return d.ready() && !d.todo.Empty() && !d.waits() && !d.transport.paused && d.transport.runsTo(d)
}

// reach asks for as many connections as a queue has use for and may have now. It
// tells whether an idle one was taken over, which is there to be used at once.
func (q *Qmgr) reach(d *queue) (taken bool) {
	s := d.site
	for d.eager() && (s.Room() == 0 && s.Connecting() < d.todo.Len() || s.Upgrades()) {
		if s.Stale(q.now) {
			q.resolve(d)
		}
		if !s.Known() || !q.mayStart() {
			return taken
		}
		if d.pardon != 0 {
			q.conns.Pardon(s, d.pardon, q.now)
			d.pardon = 0
		}
		ask, ok := q.ask(d)
		if !ok {
			return taken
		}
		switch dec := q.conns.Open(s, ask, q.now); dec.Kind {
		case conns.Waiting:
			return taken
		case conns.Exhausted:
			q.exhausted(d, dec)
			return taken
		case conns.Adopted:
			from := q.sites[dec.From]
			q.roomChanged(dec.From)
			q.roomChanged(s)
			q.freeIfIdle(from)
			taken = true
		case conns.Dialing:
			if dec.Evict != nil {
				q.hangup(dec.Evict)
			}
			q.dial(d, dec.Conn)
		}
	}
	return taken
}

// lookAhead is among how many waiting entries the message is chosen on whose
// behalf a connection is opened.
const lookAhead = 16

// ask says on behalf of which message a connection is wanted: the first of those
// near the head that hold fewest. So a message that may hold no more does not keep
// those behind it from having some. Call-outs take what there is, as long as there is
// mail that has use for more: they are passed by and do not count, and are never more
// than Config.VerifyLimit. It tells whether there is one; call-outs may have to do
// without.
func (q *Qmgr) ask(d *queue) (a conns.Ask, ok bool) {
	var head, rest *entry
	n := 0
	for e := range d.todo.All() {
		best := &rest
		if e.message.mayUse() {
			best = &head
		}
		if *best == nil || e.message.held < (*best).message.held {
			*best = e
		}
		if e.message.callout == nil {
			n++
		}
		if n == lookAhead {
			break
		}
	}
	if head == nil {
		head = rest
	}
	m := head.message
	if m.callout != nil && !d.mayCall(q.now) {
		return conns.Ask{}, false
	}
	return conns.Ask{Message: m.id, Held: m.held, Window: d.window.Size(), Callout: m.callout != nil}, true
}

// mayUse tells whether a message is mail that has use for one more connection.
func (m *message) mayUse() bool { return m.callout == nil && m.held < m.entries }

func (q *Qmgr) resolve(d *queue) {
	if d.resolving {
		return
	}
	d.resolving = true
	q.emit(Resolve{Transport: d.transport.name, Nexthop: d.nexthop})
}

func (q *Qmgr) dial(d *queue, c *conns.Conn) {
	m := q.messages[c.Message()]
	m.held++
	q.dialling[c.ID] = dialling{attempt: d.window.Begin(d.site.Count()), message: m.serial}
	q.emit(Dial{Conn: c.ID, Opening: c.Opening()})
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
	d.changed()
	d.unblock()
}

// reconsider has all sites of a transport asked again that wait: limits have
// changed.
func (q *Qmgr) reconsider(t *transport) {
	for d := range t.order.All() {
		q.conns.Reconsider(d.site)
	}
}

// hosts takes the hosts of a nexthop.
func (q *Qmgr) hosts(ev Hosts) {
	t := q.transports[ev.Transport]
	var d *queue
	if t != nil {
		d = t.resolving(ev.Nexthop)
	}
	if d == nil {
		q.duplicate(0, "hosts")
		return
	}
	d.pin()
	d.resolving = false
	if ev.Reply.IsZero() && len(ev.Set.Tiers) == 0 {
		ev.Reply = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 4}, Text: "no hosts are known for " + ev.Nexthop}
	}
	switch {
	case ev.Reply.IsZero():
		q.reshape(d, ev.Set.Tiers[0])
		q.hangupAll(q.conns.SetHosts(d.site, ev.Set, q.hostLimits(d)))
		d.changed()
	case ev.Reply.Permanent():
		q.hangupAll(q.conns.SetHosts(d.site, mail.HostSet{}, nil))
		q.putOffAll(d, TransportError, ev.Reply)
	case d.site.Known():
		q.conns.KeepHosts(d.site, ev.Set.Until)
	case d.ready():
		d.window.Close()
		d.changed()
		q.die(d, ev.Reply, ev.Set.Until)
	}
	q.unpin(d)
}

// resolving returns the queue for which the hosts of a nexthop are looked up.
func (t *transport) resolving(nexthop string) *queue {
	if d := t.queues[nexthop]; d != nil && d.resolving {
		return d
	}
	return nil
}

// exhausted deals with a site of which no host can be reached: its mail is
// deferred until the first of them may be tried again.
func (q *Qmgr) exhausted(d *queue, dec conns.Decision) {
	d.window.Close()
	d.changed()
	q.die(d, dec.Reply, dec.Until)
}

// dialed takes a connection that is ready, or the reason why it is not.
func (q *Qmgr) dialed(ev Dialed) {
	c := q.conns.Conn(ev.Conn)
	if c == nil || c.State() != conns.Connecting {
		q.duplicate(0, "dialed")
		return
	}
	l := q.dialling[ev.Conn]
	delete(q.dialling, ev.Conn)
	if m := q.messages[c.Message()]; m != nil && m.serial == l.message { // it may have left and come back
		q.ease(m)
	}
	d := q.sites[c.Site()]
	d.pin()
	defer q.unpin(d)
	ready, surplus, blame := q.conns.Dialed(ev.Conn, ev.Opened, q.now)
	q.hangupAll(surplus)
	if ready == nil {
		q.blame(d, blame, l.attempt, ev.Opened.Reply)
		d.changed()
		return
	}
	if ready.State() == conns.Ready && (d.dead() || !q.conns.Slow(ready, q.now)) {
		q.praise(d, l.attempt)
	} else {
		d.window.Lost(l.attempt)
	}
	d.changed()
	d.unblock()
	if q.halt {
		q.conns.Drain(c)
		q.hangup(c)
	}
}

// closed takes the end of a connection. Everything that was sent to it has been
// answered.
func (q *Qmgr) closed(ev Closed) {
	c := q.conns.Conn(ev.Conn)
	if c == nil || c.State() == conns.Connecting {
		q.duplicate(0, "closed")
		return
	}
	d := q.sites[c.Site()]
	d.pin()
	defer q.unpin(d)
	q.untry(c)
	if ev.Closing.Why == mail.CloseMixed {
		q.emit(Note{Kind: NoteMixed, Transport: d.transport.name, Nexthop: d.nexthop, Text: mixedText(c.Host(), ev.Closing.Reply)})
	}
	blame := q.conns.Closed(ev.Conn, ev.Closing, q.now)
	d.changed()
	q.blame(d, blame, window.Attempt{}, ev.Closing.Reply)
	q.db.Collect(q.now, collectSome)
}

// mixedText names a server that has mixed messages up, and what showed it.
func mixedText(h mail.Host, why mail.Reply) string {
	return fmt.Sprintf("%s[%s]: %s", h.Name, h.Addr.Addr(), why)
}

// collectSome is how many records of hosts are looked at for old ones whenever a
// connection ends.
const collectSome = 16

// blame tells the window of a failure that is the site's. The window does not die of
// that, as it does without connections: mail is deferred when no host can be tried,
// and until one can be. Mail that would come back here fails.
func (q *Qmgr) blame(d *queue, b conns.Blame, a window.Attempt, why mail.Reply) {
	switch {
	case b == conns.BlameLoop:
		q.putOffAll(d, TransportError, why)
	case b == conns.BlameSite && d.ready():
		cfg := d.limits.window
		cfg.FailedCohortLimit = 0
		d.window.Failure(&cfg, a)
		d.changed()
		q.explain(d, CauseFailure)
		return
	}
	d.window.Lost(a)
}

// praise tells the window that a connection does its work.
func (q *Qmgr) praise(d *queue, a window.Attempt) {
	switch d.window.State() {
	case window.Dead:
		q.revive(d, CauseSuccess)
	default:
		d.window.Success(&d.limits.window, a, max(d.site.Count(), 1))
		d.changed()
		q.explain(d, CauseSuccess)
	}
}

// send hands an entry that was selected to the connection that carries it.
func (q *Qmgr) send(t *transport, e *entry) {
	d, m := e.queue(), e.message
	c := q.conns.Find(d.site)
	if !c.Holds(m.id) {
		m.held++
	}
	e.conn = c
	last := q.conns.Assign(c, conns.Load{Entry: uint64(e.id), Message: m.id,
		Cost: conns.Cost(m.env.Size, len(e.recipients)), Callout: m.callout != nil})
	q.emit(Send{Conn: c.ID, Entry: e.id, Delivery: e.delivery(t)})
	if last {
		q.emit(Hangup{Conn: c.ID})
	}
	d.changed()
}

// carried takes an entry off its connection.
func (q *Qmgr) carried(e *entry, r *mail.DeliveryResult) {
	c, m, d := e.conn, e.message, e.queue()
	end := endOf(r)
	praise := q.conns.Finished(c, uint64(e.id), r.Send, end, q.now)
	q.unhold(c, m)
	e.conn = nil
	if praise || end == conns.EndJudged && d.dead() && m.callout == nil {
		q.praise(d, window.Attempt{}) // at which concurrency has been told when it was dialled
	}
}

// endOf tells how far a transaction came. Only what the server has said itself
// shows that it does its work. Our own words are about a message that cannot be
// read, or about what the server does not offer, unless the connection has ended.
func endOf(r *mail.DeliveryResult) conns.End {
	if !r.Site.IsZero() {
		return conns.EndBroken
	}
	end := conns.EndUntried
	for i := range r.Outcomes {
		switch o := &r.Outcomes[i]; {
		case o.Result == mail.Untried:
		case o.Result == mail.Delivered, o.Reply.By != "":
			return conns.EndJudged
		default:
			end = conns.EndOurs
		}
	}
	return end
}

// untry takes back what a connection never began.
func (q *Qmgr) untry(c *conns.Conn) {
	for len(c.Loads()) > 0 {
		e := q.busy[EntryID(c.Loads()[len(c.Loads())-1].Entry)] // so that the first comes to stand before the others
		delete(q.busy, e.id)
		m := e.message
		q.conns.Finished(c, uint64(e.id), 0, conns.EndUntried, q.now)
		q.unhold(c, m)
		q.putBack(e, slices.Clone(e.recipients))
		e.finish(q)
		q.advance(m)
	}
}

// unhold notes that a message has one entry fewer on a connection.
func (q *Qmgr) unhold(c *conns.Conn, m *message) {
	if !c.Holds(m.id) {
		q.ease(m)
	}
}

// ease notes that a message holds a connection fewer.
func (q *Qmgr) ease(m *message) {
	m.held--
	q.conns.Eased(m.id)
}

// putBack makes recipients whose turn did not come wait again, before all that
// wait for the same destination.
func (q *Qmgr) putBack(e *entry, untried []mail.Recipient) {
	m, t := e.message, e.queue().transport
	if m.order != orderNone || m.callout != nil && !m.callout.inBegun.Listed() {
		m.left = true
		return
	}
	j := q.jobFor(m, t)
	back := newEntryInFront(e.peer)
	back.domain = e.domain
	back.recipients = untried
	q.hold(m, len(untried))
	j.slots.count += len(untried)
	t.refile(j)
	t.attend(j)
	switch d := e.queue(); {
	case d.dead():
		q.putOff(back, TransportRetry, d.reason)
	case t.dead():
		q.putOff(back, TransportRetry, t.outage.reason)
	}
}

// endConnections ends all of them, as soon as what is under way there has ended:
// nothing more is to be started.
func (q *Qmgr) endConnections() {
	q.conns.Halt()
	for c := range q.conns.All() {
		if c.State() == conns.Ready {
			q.conns.Drain(c)
			q.hangup(c)
		}
	}
}
