package qmgr_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// relayOverConnections is relay where the core decides on connections, each of which
// carries two messages at a time. One operation is one message.
func relayOverConnections(b *testing.B, destinations, inFlight int) {
	cfg := qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {Agents: qmgr.AgentsConnections, ProcessLimit: inFlight}}}
	t := cfg.Transports["smtp"]
	t.Window.Initial, t.Window.Limit = inFlight, -1
	t.Connections.Level, t.Connections.HostLimit, t.Connections.Initial = mail.LevelOverlap, -1, inFlight
	cfg.Transports["smtp"] = t
	q, now := started(b, cfg)
	nexthops := make([]string, destinations)
	zone := make(map[string][][]mail.Host)
	for i := range nexthops {
		nexthops[i] = fmt.Sprintf("d%d.test", i)
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		zone[nexthops[i]] = [][]mail.Host{{{Name: "mx." + nexthops[i], Addr: netip.AddrPortFrom(addr, 25)}}}
	}
	var pending []qmgr.Action
	step := func(ev qmgr.Event) {
		now += 1000
		for _, a := range q.Step(now, ev) {
			switch a.(type) {
			case qmgr.Route, qmgr.Resolve, qmgr.Dial, qmgr.Send, qmgr.Hangup, qmgr.Change:
				pending = append(pending, a)
			}
		}
	}
	outcomes := []mail.Outcome{{Result: mail.Delivered, Reply: mail.Reply{Code: 250}}}
	answer := func(a qmgr.Action) {
		switch a := a.(type) {
		case qmgr.Route:
			step(qmgr.Routed{ID: a.ID, Routes: []mail.Route{{Transport: "smtp", Nexthop: nexthops[int(a.ID)%destinations]}}})
		case qmgr.Resolve:
			step(qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Set: mail.HostSet{Tiers: zone[a.Nexthop], Until: mail.Never}})
		case qmgr.Dial:
			step(qmgr.Dialed{Conn: a.Conn, Opened: mail.OpenedConnection{Level: mail.LevelOverlap, RTT: 1000}})
		case qmgr.Send:
			step(qmgr.Delivered{Entry: a.Entry, Result: mail.DeliveryResult{Outcomes: outcomes, Send: 1000}})
		case qmgr.Hangup:
			step(qmgr.Closed{Conn: a.Conn})
		case qmgr.Change:
			step(qmgr.Changed{Changed: mail.Changed{ID: a.Change.ID}})
		}
	}
	rcpts := []mail.Recipient{{Address: "somebody@d1.test"}}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: mail.QueueID(n + 1), Sender: "s@x.test", Arrived: now},
			Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: rcpts, Next: 1}}})
		for len(pending) > inFlight/2 {
			a := pending[0]
			pending = pending[1:]
			answer(a)
		}
	}
}

// With few destinations connections carry many messages; with many, nearly each
// message has to have one opened, for which an idle one is hung up.
func BenchmarkRelayOverConnections(b *testing.B) {
	for _, destinations := range []int{1, 100, 10000} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) { relayOverConnections(b, destinations, 100) })
	}
}
