package qmgr

import (
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// connect asks for connections where entries wait and none has room. It stops when
// an idle one was taken over, and reports that: it must be used before another takes
// it away again.
func (q *Qmgr) connect() (taken bool) {
	q.wakeSites()
	for !taken {
		q.arrangeDetours()
		q.stale.Refresh()
		q.askForRuns()
		d := q.wanting.Front()
		if d == nil {
			break
		}
		d.pin()
		taken = q.reach(d)
		if q.leftover {
			q.unpin(d)
			return taken
		}
		q.wanting.Remove(&d.inWanting)
		if d.transport.paused || d.transport.taken() {
			d.want() // when it goes on
		}
		q.conns.PassOn(d.site)
		q.unpin(d)
		q.wakeSites()
	}
	return taken
}

// askForRuns has runs ask for connections that have come to another message.
func (q *Qmgr) askForRuns() {
	for t := range q.ring.All() {
		if t.cfg.Scheduler == sched.Runner && t.group != nil {
			t.First().AskForRun()
		}
	}
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

// eager reports whether a queue could start an entry now if a connection had room.
// One that may not would keep a connection from others, or open it for nothing.
func (d *queue) eager() bool {
	return d.ready() && d.Waiting > 0 && d.inTurn() && !d.waits() && !d.transport.paused && !d.transport.taken() && d.Runs()
}

// reach asks for as many connections as a queue has use for and may have now. It
// reports whether an idle one was taken over, which is there to be used at once.
func (q *Qmgr) reach(d *queue) (taken bool) {
	s := d.site
	for d.eager() && s.Wants(d.Waiting) {
		if s.Stale(q.now) {
			q.resolve(d)
		}
		if !s.Known() || !q.mayStart() {
			return taken
		}
		if d.reset != 0 {
			q.conns.ApplyReset(s, d.reset, q.now)
			d.reset = 0
		}
		if d.main != nil && !q.othersWork(d.main, d.avoided) { // since it was bound, other mail has found out
			q.rejoin(d)
			return taken
		}
		ask, ok := q.ask(d)
		if !ok {
			return taken
		}
		switch dec := q.conns.Open(s, ask, q.now); dec.Kind {
		case conns.Waiting:
			if dec.Evict != nil { // then there will be a place
				q.hangup(dec.Evict)
			}
			return taken
		case conns.Exhausted:
			// What an earlier run has found to be dead is tried before mail is put off
			// because of it: often that is why there is a new run.
			if !q.conns.ApplyReset(s, destdb.RetryResetStart, q.now) {
				q.exhausted(d, dec)
				return taken
			}
		case conns.Adopted:
			from := q.sites[dec.From]
			q.roomChanged(dec.From)
			q.roomChanged(s)
			q.freeIfIdle(from)
			d.checkShare()
			taken = true
		case conns.Dialing:
			if dec.Evict != nil {
				q.hangup(dec.Evict)
			}
			q.dial(d, dec.Conn)
			d.checkShare()
		}
	}
	return taken
}

// lookAhead is among how many waiting entries the message is chosen on whose
// behalf a connection is opened.
const lookAhead = 16

// ask says on behalf of which message a connection is wanted: the first of those
// near the head that hold fewest. So a message that may hold no more does not keep
// those behind it from having some. Call-outs take connections that exist, as long as there is
// mail that has use for more: they are passed by and do not count, and are never more
// than Config.VerifyLimit. It reports whether there is one; call-outs may have to do
// without.
func (q *Qmgr) ask(d *queue) (a conns.Ask, ok bool) {
	var head, rest *sched.Entry
	n := 0
	for e := range d.entries() {
		best := &rest
		if messageOf(e.Message).mayUse() {
			best = &head
		}
		if *best == nil || messageOf(e.Message).held < messageOf((*best).Message).held {
			*best = e
		}
		if messageOf(e.Message).callout == nil {
			n++
		}
		if n == lookAhead {
			break
		}
	}
	if head == nil {
		head = rest
	}
	m := messageOf(head.Message)
	if m.callout != nil && !d.mayCall(q.now) {
		return conns.Ask{}, false
	}
	return conns.Ask{Message: m.ID, Used: m.held, Window: d.mostConnections(), Callout: m.callout != nil, Flow: m.flow.Path()}, true
}

// mayUse reports whether a message is mail that has use for one more connection.
func (m *message) mayUse() bool { return m.callout == nil && m.held < m.Entries }

// resolve has the hosts of a destination looked up.
func (q *Qmgr) resolve(d *queue) {
	if d = d.whole(); d.resolving {
		return
	}
	asked := false
	for range q.resolving(d.transport.Name, d.nexthop) {
		asked = true
	}
	if d.resolving = true; asked {
		return
	}
	q.emit(Resolve{Transport: d.transport.Name, Nexthop: d.nexthop})
}

func (q *Qmgr) dial(d *queue, c *conns.Conn) {
	m := q.messages[c.Message()]
	m.held++
	q.dials(d.transport)
	q.dialling[c.ID] = dialling{attempt: d.window.Begin(d.site.Count()), message: m.serial}
	q.emit(Dial{Conn: c.ID, Opening: c.Opening()})
}

// reconsider has all sites of a transport asked again that wait: limits have
// changed.
func (q *Qmgr) reconsider(t *transport) {
	for d := range t.destinations() {
		q.conns.Reconsider(d.site)
	}
}
