package qmgrtest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Connection is a connection requested by the core.
type Connection struct {
	ID      qmgr.ConnID
	Opening mail.Opening
	Ready   bool
	Sends   []qmgr.Send // not answered, oldest first
	Hung    bool        // it must end after these
}

// Connections returns the ready connections, in the order of their numbers.
func (w *World) Connections() []*Connection {
	var list []*Connection
	for _, id := range slices.Sorted(maps.Keys(w.Conns)) {
		if c := w.Conns[id]; c.Ready {
			list = append(list, c)
		}
	}
	return list
}

// connecting records the core's actions about connections, and reports whether an
// action is answered in another way than by World.Take.
func (w *World) connecting(a qmgr.Action) bool {
	switch a := a.(type) {
	case qmgr.Dial:
		w.Conns[a.Conn] = &Connection{ID: a.Conn, Opening: a.Opening}
	case qmgr.Send:
		w.checkDeliver(qmgr.Deliver{Entry: a.Entry, Delivery: a.Delivery})
		c := w.Conns[a.Conn]
		if c == nil || !c.Ready || c.Hung {
			w.violate("entry %d is sent to connection %d, which does not take it", a.Entry, a.Conn)
			return true
		}
		c.Sends = append(c.Sends, a)
		return true
	case qmgr.Hangup:
		c := w.Conns[a.Conn]
		if c == nil || c.Hung {
			w.violate("connection %d is hung up and was before", a.Conn)
			return true
		}
		c.Hung = true
		return true
	}
	return false
}

// HostsOf returns the hosts that serve a nexthop: those of its zone, or two tiers
// of two hosts out of a few, so that sites share some.
func (w *World) HostsOf(nexthop string) ([][]mail.Host, mail.Reply) {
	if reply, ok := w.Zones[nexthop]; ok {
		return reply.Tiers, reply.Reply
	}
	h := fnv.New32a()
	h.Write([]byte(nexthop))
	n := h.Sum32()
	host := func(i uint32) mail.Host {
		i %= 6
		return mail.Host{Name: fmt.Sprintf("mx%d.test", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 25)}
	}
	return [][]mail.Host{{host(n), host(n + 1)}, {host(n + 2), host(n + 3)}}, mail.Reply{}
}

// A Zone is the result of a lookup of hosts.
type Zone struct {
	Tiers [][]mail.Host
	Reply mail.Reply
}

// Resolved answers Resolve.
func (w *World) Resolved(a qmgr.Resolve) {
	tiers, reply := w.HostsOf(a.Nexthop)
	w.Step(qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Reply: reply,
		Set: mail.HostSet{Tiers: tiers, Until: w.Now.Add(300e9)}})
}

// Dialed answers Dial: the connection is ready if there is no reply.
func (w *World) Dialed(a qmgr.Dial, o mail.OpenedConnection) {
	if o.Reply.IsZero() {
		w.Conns[a.Conn].Ready = true
	} else {
		delete(w.Conns, a.Conn)
		o.Measure = w.measure()
	}
	w.Step(qmgr.Dialed{Conn: a.Conn, Opened: o})
}

// measure returns what a rule demands because of a refusal.
func (w *World) measure() *mail.Measure {
	if w.Measure == nil {
		return nil
	}
	return w.Measure()
}

// Sent ends the oldest transaction of a connection.
func (w *World) Sent(c *Connection, how Ending, more ...Ending) {
	a := c.Sends[0]
	c.Sends = slices.Delete(c.Sends, 0, 1)
	w.from = c.Opening.Host.Addr
	w.Deliver(qmgr.Deliver{Entry: a.Entry, Delivery: a.Delivery}, how, more...)
	w.from = netip.AddrPort{}
}

// Close ends a connection, at the level of its first transaction. Its transactions
// end as given, the oldest first; further ones were not begun.
func (w *World) Close(c *Connection, why mail.CloseReason, how ...Ending) {
	for _, h := range how {
		if len(c.Sends) > 0 {
			w.Sent(c, h)
		}
	}
	for _, a := range c.Sends {
		if m := w.Messages[a.Delivery.Envelope.ID]; m != nil {
			m.busy--
		}
	}
	delete(w.Conns, c.ID)
	cl := mail.Closing{Why: why}
	if why == mail.CloseLost || why == mail.CloseStep {
		cl.Level = min(c.Opening.Level, mail.LevelGroup)
	}
	if why != mail.CloseAsked {
		cl.Reply = mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "connection " + why.String()}
		cl.Measure = w.measure()
	}
	w.Step(qmgr.Closed{Conn: c.ID, Closing: cl})
}

// HostAt returns a host for a Zone.
func HostAt(name string, n byte) mail.Host {
	return mail.Host{Name: name, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, n}), 25)}
}
