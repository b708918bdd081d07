package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// answerAll answers whatever does not concern transactions.
func answerAll(w *qmgrtest.World) {
	for len(w.Outstanding) > 0 {
		w.Answer(w.Take(0))
	}
}

// shareHost makes two domains have one host.
func shareHost(w *qmgrtest.World) {
	hosts, _ := w.HostsOf("any.test")
	for _, name := range []string{"a.test", "b.test"} {
		w.Zones[name] = qmgrtest.Zone{Tiers: [][]mail.Host{hosts[0][:1]}}
	}
}

// A site whose time has not come has no use for connections. If it took them over
// from another one that waits, too, that one would take them back at once, and so
// on for ever.
func TestPausedSitesLeaveConnectionsAlone(t *testing.T) {
	cfg := qmgr.Config{}
	cfg.DefaultTransport.Agents = qmgr.AgentsConnections
	cfg.DefaultTransport.Rate = limits(t, rate.Limit{N: 1, Per: time.Minute})
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	shareHost(w)
	for range 2 {
		for _, domain := range []string{"a.test", "b.test"} {
			w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address("u@" + domain)}})
			answerAll(w)
		}
	}
	for _, c := range w.Connections() {
		if len(c.Sends) > 0 {
			w.Sent(c, qmgrtest.Accepted)
			answerAll(w)
		}
	}
	for _, c := range w.Connections() {
		if c.Opening.Nexthop == "a.test" {
			w.Close(c, mail.CloseIdle)
			answerAll(w)
		}
	}
	if len(w.Connections()) == 0 {
		t.Fatal("there is no connection to take over")
	}
	if at, waits := w.Core.NextWake(); !waits || at <= w.Now {
		t.Errorf("both sites have had what they may have, and the core wants to go on at once")
	}
}

// A rate delay means one delivery at a time, also when the connection that carries
// it takes no more.
func TestRateDelayAndConnectionsThatEnd(t *testing.T) {
	cfg := qmgr.Config{}
	cfg.DefaultTransport.Agents = qmgr.AgentsConnections
	cfg.DefaultTransport.RateDelay = 10 * time.Second
	cfg.DefaultTransport.Connections.CountLimit = 1
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	shareHost(w)
	for i := range 3 {
		w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u%d@a.test", i))}})
		answerAll(w)
	}
	busy := 0
	for _, c := range w.Connections() {
		busy += len(c.Sends)
	}
	if busy != 1 {
		t.Errorf("%d deliveries at once", busy)
	}
}

// What one transport has to a host is no business of another: idle connections of
// the one, as many as the host may have, used to keep the mail of the other waiting
// for as long as they stayed idle.
func TestTransportsDoNotShareHosts(t *testing.T) {
	limits := qmgr.TransportConfig{Agents: qmgr.AgentsConnections}
	limits.Connections.HostLimit = 1
	w, err := qmgrtest.New(qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": limits, "other": limits}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	shareHost(w)
	w.Routes["b.test"] = mail.Route{Transport: "other", Nexthop: "b.test"}
	for _, domain := range []string{"a.test", "b.test"} {
		w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address("u@" + domain)}})
		answerAll(w)
		for _, c := range w.Connections() {
			if len(c.Sends) > 0 {
				w.Sent(c, qmgrtest.Accepted)
				answerAll(w)
			}
		}
	}
	if len(w.Messages) != 0 {
		t.Errorf("%d messages wait", len(w.Messages))
	}
}
