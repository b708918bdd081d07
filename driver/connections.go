package driver

import (
	"context"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A link is a connection requested by the core, with the transactions sent over it.
type link struct {
	id   qmgr.ConnID
	conn Connection

	mu   sync.Mutex
	sent []sent // not answered, oldest first
}

// sent is a transaction that was given to a connection.
type sent struct {
	delivery mail.Delivery
	at       time.Time
}

// A dialTask is a request for a connection.
type dialTask struct {
	action qmgr.Dial
	ctx    context.Context
}

// resolve looks up the hosts of a nexthop on a goroutine of the pool.
func (d *Driver) resolve(a qmgr.Resolve) {
	set, reply := d.ports.Connector.Hosts(d.workCtx, a.Transport, a.Nexthop)
	d.inbox.event(qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Set: set, Reply: reply})
}

// dial opens a connection and runs it until it ends, on a goroutine of the pool.
func (d *Driver) dial(t dialTask) {
	id := t.action.Conn
	conn, opened := d.ports.Connector.Dial(t.ctx, t.action.Opening)
	if conn == nil {
		d.book().Opened(&t.action.Opening, &opened)
		d.refused(t.action, opened)
		return
	}
	l := &link{id: id, conn: conn}
	d.inbox.put(item{event: qmgr.Dialed{Conn: id, Opened: opened}, link: l})
	closing := conn.Run(d.deliverCtx, func(entry uint64, r mail.DeliveryResult) {
		s := l.answered()
		noteDoubts(&s.delivery, r.Outcomes, t.action.Opening.Host)
		d.book().Delivered(&s.delivery, &r)
		d.noteDelivered(&s.delivery, &r)
		d.ended(&s.delivery, &r, s.at)
		d.inbox.event(qmgr.Delivered{Entry: qmgr.EntryID(entry), Result: r})
	})
	d.book().Closed(t.action.Opening.Transport, &closing)
	d.inbox.put(item{event: qmgr.Closed{Conn: id, Closing: closing}, ends: true})
}

// noteDoubts counts the attempt for recipients of whom it is unknown whether the host has the message. A
// program's socket is the only host of its destination.
func noteDoubts(a *mail.Delivery, outcomes []mail.Outcome, host mail.Host) {
	if _, socket := mail.SocketPath(host.Addr); socket || a.Callout {
		return
	}
	for i := range outcomes {
		if outcomes[i].Unknown {
			outcomes[i].Doubts = a.Recipients[i].Doubts.With(host.Addr)
		}
	}
}

// refused reports a connection that could not be made. If the transport can make
// none at all it reports that first, since the core would otherwise request the
// next one at once.
func (d *Driver) refused(a qmgr.Dial, opened mail.OpenedConnection) {
	answer := item{event: qmgr.Dialed{Conn: a.Conn, Opened: opened}, ends: true}
	if !opened.Unavailable {
		d.inbox.put(answer)
		return
	}
	d.inbox.put(item{event: qmgr.AgentUnavailable{Transport: a.Opening.Transport, Reply: opened.Reply}}, answer)
}

// send gives an entry to a connection. A connection that has ended takes no more,
// and its Closed event follows.
func (d *Driver) send(a qmgr.Send) {
	l := d.links[a.Conn]
	l.mu.Lock()
	l.sent = append(l.sent, sent{delivery: a.Delivery, at: time.Now()})
	l.mu.Unlock()
	l.conn.Send(uint64(a.Entry), a.Delivery)
}

// answered removes and returns the oldest transaction, whose result has arrived.
func (l *link) answered() sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sent[0]
	n := copy(l.sent, l.sent[1:])
	l.sent[n] = sent{}
	l.sent = l.sent[:n]
	return s
}
