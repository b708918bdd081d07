package driver

import (
	"context"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A link is a connection that the core has asked for, and what was sent over it.
type link struct {
	id   qmgr.ConnID
	conn Connection

	mu   sync.Mutex
	sent []sent // not answered, oldest first
}

// sent is a transaction that a connection was given.
type sent struct {
	delivery mail.Delivery
	at       time.Time
}

// A dialTask asks for a connection.
type dialTask struct {
	action qmgr.Dial
	ctx    context.Context
}

// resolve looks up the hosts of a nexthop on a goroutine of the pool.
func (d *Driver) resolve(a qmgr.Resolve) {
	set, reply := d.ports.Connector.Hosts(d.workCtx, a.Transport, a.Nexthop)
	d.inbox.event(qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Set: set, Reply: reply})
}

// dial opens a connection and runs it until it is over, on a goroutine of the
// pool.
func (d *Driver) dial(t dialTask) {
	id := t.action.Conn
	conn, opened := d.ports.Connector.Dial(t.ctx, t.action.Opening)
	if conn == nil {
		d.refused(t.action, opened)
		return
	}
	l := &link{id: id, conn: conn}
	d.inbox.put(item{event: qmgr.Dialed{Conn: id, Opened: opened}, link: l})
	closing := conn.Run(d.deliverCtx, func(entry uint64, r mail.DeliveryResult) {
		s := l.answered()
		d.logOutcomes(&s.delivery, &r, s.at)
		d.inbox.event(qmgr.Delivered{Entry: qmgr.EntryID(entry), Result: r})
	})
	d.inbox.put(item{event: qmgr.Closed{Conn: id, Closing: closing}, ends: true})
}

// refused tells of a connection that could not be made, and before that of the
// transport if none can be made: the core would ask for the next one at once.
func (d *Driver) refused(a qmgr.Dial, opened mail.OpenedConnection) {
	answer := item{event: qmgr.Dialed{Conn: a.Conn, Opened: opened}, ends: true}
	if !opened.Unavailable {
		d.inbox.put(answer)
		return
	}
	d.inbox.put(item{event: qmgr.AgentUnavailable{Transport: a.Opening.Transport, Reply: opened.Reply}}, answer)
}

// send hands an entry over. A connection that is over takes nothing any more, and
// its Closed is on its way.
func (d *Driver) send(a qmgr.Send) {
	l := d.links[a.Conn]
	l.mu.Lock()
	l.sent = append(l.sent, sent{delivery: a.Delivery, at: time.Now()})
	l.mu.Unlock()
	l.conn.Send(uint64(a.Entry), a.Delivery)
}

// answered returns the oldest transaction, whose result has come.
func (l *link) answered() sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sent[0]
	n := copy(l.sent, l.sent[1:])
	l.sent[n] = sent{}
	l.sent = l.sent[:n]
	return s
}
