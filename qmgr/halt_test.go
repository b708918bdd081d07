package qmgr_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// While a connection is being opened its host leaves the plan, and the program stops. When
// the connection is ready it must be hung up, once: it was drained for both reasons, which
// panicked.
func TestHaltAfterHostsHaveChanged(t *testing.T) {
	cfg := qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {Agents: qmgr.AgentsConnections}}}
	q, now := started(t, cfg)
	dials, hangups, resolves := []qmgr.ConnID(nil), 0, 0
	step := func(ev qmgr.Event) {
		now += 1000
		for _, a := range q.Step(now, ev) {
			switch a := a.(type) {
			case qmgr.Dial:
				dials = append(dials, a.Conn)
			case qmgr.Hangup:
				hangups++
			case qmgr.Resolve:
				resolves++
			}
		}
		q.Check()
	}
	hosts := func(n int) qmgr.Hosts { // which have to be looked up again at once
		h := mail.Host{Name: "mx.test", Addr: netip.MustParseAddrPort(fmt.Sprintf("192.0.2.%d:25", n))}
		return qmgr.Hosts{Transport: "smtp", Nexthop: "d.test", Set: mail.HostSet{Tiers: [][]mail.Host{{h}}, Until: now}}
	}
	for id := mail.QueueID(1); id <= 2; id++ {
		step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Arrived: now}, Place: mail.Place{Area: mail.AreaIncoming},
			Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: "u@d.test"}}, Next: 1}}})
		step(qmgr.Routed{ID: id, Routes: []mail.Route{{Transport: "smtp", Nexthop: "d.test"}}})
		if id == 1 {
			step(hosts(1))
		}
	}
	if len(dials) == 0 || resolves != 2 {
		t.Fatalf("%d connections are dialed after %d lookups", len(dials), resolves)
	}
	step(qmgr.Halt{})
	step(hosts(2))
	step(qmgr.Dialed{Conn: dials[0], Opened: mail.OpenedConnection{Level: mail.LevelOverlap}})
	if hangups != 1 {
		t.Errorf("the connection was hung up %d times", hangups)
	}
}
