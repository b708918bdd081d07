package main

import (
	"encoding/json"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// due is an instant from now on, so that "in 12m" stays that for half a minute.
func due(in time.Duration) mail.Instant {
	return mail.Instant(time.Now().Add(in + 30*time.Second).UnixNano())
}

// destinationQueue has destinations in every state, and messages that wait for them.
func destinationQueue() *admintest.Queue {
	refused := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connect to mx2.example.net[192.0.2.2]:25: connection \x1b[31mrefused"}
	host := func(n byte) mail.Host {
		return mail.Host{Name: "mx" + string('0'+n) + ".example.net", Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 25)}
	}
	limited := qmgr.DestinationView{
		DestinationSummary: qmgr.DestinationSummary{Transport: "smtp", Condition: qmgr.ConditionLimited, Messages: 1200, Recipients: 1300, Oldest: arrived(2 * time.Hour),
			Hosts: conns.Health{Up: 2, Busy: 1, Retry: 1, Failure: refused, FailedAt: arrived(5 * time.Minute)},
			Queue: qmgr.QueueView{Nexthop: "example.net", Window: 12, Busy: 3, Todo: 1250, Connections: conns.SiteView{Ready: 2, Connecting: 1},
				WaitReason: qmgr.WaitReason{Kind: qmgr.WaitDestinationRate, Rate: rate.Limit{N: 600, Per: time.Hour}, Until: due(12 * time.Minute), Table: "strict"}}},
		Ceiling: 20, Tables: []string{"strict", "all"}, Rate: []rate.Use{{Limit: rate.Limit{N: 600, Per: time.Hour}, Used: 600}},
	}
	limited.Hosts = []conns.HostView{
		{Host: host(1), Connections: 2, Idle: 1, Limit: 20, Level: mail.LevelGroup, Configured: mail.LevelOverlap, BusyUntil: due(time.Minute),
			Known: destdb.View{State: destdb.InUse, RTT: 31 * time.Millisecond, Service: 8 * time.Millisecond, MessagesMax: 50, HeldUntil: due(20 * time.Hour), Slow: true,
				Caps: destdb.Caps{Extensions: mail.ExtPipelining | mail.ExtChunking, SizeMax: 1000}},
			Fell: conns.Ending{Conn: 3, Host: host(1), At: arrived(time.Hour), Closing: mail.Closing{Why: mail.CloseStep, Level: mail.LevelOverlap, Reply: mail.Reply{Code: 503, Text: "out of order"}}}},
		{Host: host(2), Tier: 1, Limit: 20, Level: mail.LevelOverlap, Configured: mail.LevelOverlap,
			Known: destdb.View{State: destdb.RetryLater, At: due(2 * time.Minute), RetryAt: due(2 * time.Minute), Failures: 3, FailedAt: arrived(5 * time.Minute), Reason: refused}},
		{Host: host(3), Tier: 1, Limit: 20, Level: mail.LevelOverlap, Configured: mail.LevelOverlap},
	}
	limited.Connections = []conns.ConnView{{ID: 5, Host: host(1), State: conns.Ready, Level: mail.LevelOverlap, Entries: 2, Carried: 7, Limit: 50, Made: arrived(3 * time.Minute)},
		{ID: 6, Host: host(1), State: conns.Ready, Level: mail.LevelOverlap, Carried: 1, Made: arrived(3 * time.Minute), IdleFrom: arrived(2 * time.Minute)}}
	limited.Ended = []conns.Ending{{Conn: 4, Host: host(1), Drained: conns.DrainAge, Carried: 900, Made: arrived(15 * time.Minute), At: arrived(10 * time.Minute)},
		{Conn: 3, Host: host(1), Carried: 2, Made: arrived(16 * time.Minute), At: arrived(15 * time.Minute), Closing: mail.Closing{Why: mail.CloseLost, Reply: mail.Reply{Code: 451, Text: "connection reset"}}}}
	dead := qmgr.DestinationView{DestinationSummary: qmgr.DestinationSummary{Transport: "smtp", Condition: qmgr.ConditionDead,
		Hosts: conns.Health{Retry: 1, Failure: refused, FailedAt: arrived(time.Minute)},
		Queue: qmgr.QueueView{Nexthop: "dead.example", Reason: refused, Until: due(5 * time.Minute)}}}
	paused := qmgr.DestinationView{DestinationSummary: qmgr.DestinationSummary{Transport: "fax", Condition: qmgr.ConditionPaused, Messages: 1, Recipients: 1, Oldest: arrived(time.Minute),
		Queue: qmgr.QueueView{Nexthop: "+49", Window: 1, Todo: 1, WaitReason: qmgr.WaitReason{Kind: qmgr.WaitTransportDelay, Pause: 10 * time.Minute, Until: due(3 * time.Minute)}}}}

	waits := newMessage(1, mail.AreaIncoming, 5*time.Minute, "alice@example.com", "jane@example.net", "joe@dead.example")
	waits.InCore, waits.Places = true, []qmgr.PlaceView{{Transport: "smtp", Nexthop: "example.net", Waiting: 1, WaitReason: limited.Queue.WaitReason, Sharing: qmgr.Sharing{Flows: 3, Share: 333, Turns: 2}},
		{Transport: "retry", Nexthop: "451 refused", Instead: mail.Origin{Transport: "smtp", Nexthop: "dead.example"}, Waiting: 1}}
	goes := newMessage(2, mail.AreaIncoming, 5*time.Minute, "alice@example.com", "jane@example.net")
	goes.InCore, goes.Places = true, []qmgr.PlaceView{{Transport: "smtp", Nexthop: "example.net", Busy: 1}}
	doubtful := newMessage(3, mail.AreaHold, 5*time.Minute, "alice@example.com", "jane@example.net")
	doubtful.Reason = qmgr.UnknownReason
	doubtful.Recipients[0].Outcome = mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 451, Text: "message sent, but it is not known whether it was taken"}, Unknown: true, At: arrived(4 * time.Minute)}

	q := admintest.New(waits, goes, doubtful)
	q.SetDestinations(limited, paused, dead)
	q.SetFlows(qmgr.FlowView{Flow: mail.Flow{Class: "bulk", Tenant: "shop", Flow: "news@example.com"}, Messages: 8000, Waiting: 7980, Busy: 20, Started: 1234,
		Half: 8192 * time.Millisecond, NinetyNine: 512 * time.Millisecond, More: 1,
		Places: []qmgr.FlowPlace{{Transport: "smtp", Nexthop: "example.net", Waiting: 7000, Busy: 20, Sharing: qmgr.Sharing{Flows: 3, Share: 333, Turns: 2}},
			{Transport: "smtp", Nexthop: "alone.example", Waiting: 980, Sharing: qmgr.Sharing{Flows: 1}}}},
		qmgr.FlowView{Flow: mail.Flow{Class: "normal", Tenant: "shop", Flow: "otp@example.com"}, Messages: 1, Waiting: 1,
			Places: []qmgr.FlowPlace{{Transport: "smtp", Nexthop: "example.net", Waiting: 1, Sharing: qmgr.Sharing{Flows: 3, Share: 667}}}})
	view := qmgr.View{Messages: 2, Busy: 3, Halted: true, Offline: arrived(10 * time.Minute), Transports: []qmgr.TransportView{
		{Name: "fax", Jobs: 1, Queues: []qmgr.QueueView{paused.Queue}}, {Name: "smtp", Jobs: 2, Busy: 3, Queues: []qmgr.QueueView{limited.Queue}}}}
	view.Counts.Unknown = 1
	view.Mixed = conns.Ending{Conn: 9, Host: host(1), At: arrived(20 * time.Minute), Closing: mail.Closing{Why: mail.CloseMixed, Reply: mail.Reply{Code: 250, Text: "Ok"}}}
	q.SetCore(view)
	return q
}

// An operator copies the parameter that a view names into the configuration file, so
// it must be one that this file may have.
func TestWaitReasonsNameParameters(t *testing.T) {
	known := map[string]bool{}
	for _, p := range config.Parameters() {
		name := p.Name
		if p.Table != "" {
			name = p.Table + ".NAME." + name
		}
		known[name] = true
	}
	named := 0
	for _, kind := range qmgr.WaitKinds()[1:] {
		o := qmgr.WaitReason{Kind: kind, Limit: 20, Most: 20}
		tables := []string{""}
		switch kind {
		case qmgr.WaitDestinationDelay, qmgr.WaitDestinationRate, qmgr.WaitConnectionRate, qmgr.WaitHostLimit, qmgr.WaitWindow:
			tables = append(tables, "NAME")
		}
		for _, o.Table = range tables {
			q := admintest.New()
			q.SetDestinations(qmgr.DestinationView{DestinationSummary: qmgr.DestinationSummary{Transport: "NAME", Queue: qmgr.QueueView{Nexthop: "example.net", WaitReason: o}}})
			key := waitReasonKeyOf(t, q)
			if key != "" {
				named++
			}
			if key != "" && !known[key] {
				t.Errorf("%v: there is no parameter %s", kind, key)
			}
		}
	}
	if named != 17 {
		t.Errorf("%d wait reasons name a parameter, want 17", named)
	}
}

// waitReasonKeyOf asks the server for the parameter that its only destination waits for.
func waitReasonKeyOf(t *testing.T, q *admintest.Queue) string {
	t.Helper()
	s, err := admin.New(admin.Config{}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/destinations", nil))
	var page admin.DestinationPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Destinations) != 1 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return page.Destinations[0].WaitReason.Key
}
