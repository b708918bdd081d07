package top

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A daemon serves the administration API over a queue in memory. Its samples are made up, of
// the shapes of real ones.
type daemon struct {
	queue  *admintest.Queue
	socket string
	server *http.Server

	mu          sync.Mutex
	sample      live.Sample
	suspensions []qmgr.SuspensionView
	breaks      bool // samples are not JSON
}

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	// The default directory may be too long for the path of a socket.
	directory, err := os.MkdirTemp("", "top")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	d := &daemon{queue: exampleQueue(), socket: filepath.Join(directory, "s"), sample: exampleSample()}
	d.listen(t)
	t.Cleanup(func() { d.stop() })
	return d
}

// listen begins to serve.
func (d *daemon) listen(t *testing.T) {
	t.Helper()
	s, err := admin.New(admin.Config{Version: "v1.2.3", Settle: 10 * time.Millisecond, Suspender: d}, d.queue, d.queue, d.queue)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", s.Handler())
	mux.HandleFunc("GET /v1/live", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.breaks {
			fmt.Fprint(w, "<html>")
			return
		}
		d.sample.Number++
		d.sample.At = time.Now()
		d.sample.Totals.Preemptions += 2
		json.NewEncoder(w).Encode(d.sample)
	})
	ln, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	d.server = &http.Server{Handler: mux}
	go d.server.Serve(ln)
}

// stop is the end of the daemon.
func (d *daemon) stop() {
	d.server.Close()
}

func (d *daemon) change(do func(*live.Sample)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do(&d.sample)
}

// Suspend implements admin.Suspender.
func (d *daemon) Suspend(_ context.Context, o qmgr.Suspend) (c admin.SuspensionChange, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := mail.Instant(time.Now().UnixNano())
	until := mail.Never
	if o.For > 0 {
		until = now.Add(o.For)
	}
	c = admin.SuspensionChange{Known: true, Is: qmgr.SuspensionView{Scope: o.Scope, Value: o.Value, Order: measure.Order{By: o.By, Reason: o.Reason, Since: now, Until: until}}}
	d.suspensions = append(d.suspensions, c.Is)
	return c, nil
}

// Resume implements admin.Suspender.
func (d *daemon) Resume(_ context.Context, o qmgr.Resume) (c admin.SuspensionChange, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.suspensions = slices.DeleteFunc(d.suspensions, func(v qmgr.SuspensionView) bool {
		if v.Scope == o.Scope && v.Value == o.Value {
			c.Was = v
			return true
		}
		return false
	})
	return c, nil
}

// Suspensions implements admin.Suspender.
func (d *daemon) Suspensions(context.Context) ([]qmgr.SuspensionView, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.suspensions), nil
}

// exampleQueue has the destinations and flows of exampleSample, and some messages.
func exampleQueue() *admintest.Queue {
	q := admintest.New()
	for i := range 30 {
		m := admintest.Message{Content: "Subject: x\r\n\r\n"}
		m.Envelope = mail.Envelope{ID: mail.NewQueueID(mail.Instant(i+1)*1e15, uint16(i)), Sender: "news@shop.example",
			Arrived: mail.Instant(time.Now().Add(-time.Hour).UnixNano()), Flow: mail.Flow{Class: "bulk", Tenant: "shop", Flow: "news@shop.example"}}
		m.Place = mail.Place{Area: mail.AreaDeferred, Due: mail.Instant(time.Now().Add(20 * time.Minute).UnixNano())}
		m.Recipients = []mail.RecipientOutcome{{Recipient: mail.Recipient{Address: mail.Address(fmt.Sprintf("user%d@example.net", i))},
			Outcome: mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 451, Text: "try later"}}}}
		q.Add(m)
	}
	limited := qmgr.DestinationView{DestinationSummary: qmgr.DestinationSummary{Transport: "smtp", Condition: qmgr.ConditionFull, Messages: 400, Recipients: 420,
		Queue: qmgr.QueueView{Nexthop: "example.net", Window: 20, Busy: 20, Todo: 400, WaitReason: qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 20, Most: 20}}}}
	dead := qmgr.DestinationView{DestinationSummary: qmgr.DestinationSummary{Transport: "smtp", Condition: qmgr.ConditionDead, Messages: 7,
		Queue: qmgr.QueueView{Nexthop: "dead.example", State: window.Dead, Todo: 7, Reason: mail.Reply{Code: 421, Text: "too busy"}}}}
	q.SetDestinations(limited, dead)
	q.SetFlows(qmgr.FlowView{Flow: mail.Flow{Class: "bulk", Tenant: "shop", Flow: "news@shop.example"}, Messages: 380, Waiting: 380, Busy: 18, Started: 1234,
		Places: []qmgr.FlowPlace{{Transport: "smtp", Nexthop: "example.net", Waiting: 380, Busy: 18, Sharing: qmgr.Sharing{Flows: 2, Share: 333, Turns: 2}}}})
	return q
}

func exampleSample() live.Sample {
	now := time.Now()
	oldest, until := now.Add(-3*time.Hour), now.Add(5*time.Minute)
	return live.Sample{At: now, Number: 1, SitesAt: now,
		Totals: live.Totals{Arrived: 5000, Sent: 4000, Deferred: 60, Bounced: 12, Preemptions: 77, ArrivedRate: 12.3, Rates: live.Rates{Sent: 120.4, Deferred: 3.2, Bounced: 0.1},
			CoreMessages: 411, CoreRecipients: 440, Busy: 21, Waiting: 409, Connections: 22, Connecting: 3, Sessions: 4,
			Spool: &live.SpoolTotals{Incoming: 12, Deferred: 3456, Hold: 2, Oldest: &oldest}, Free: 12e9, Headroom: 11e9},
		Transports: []live.TransportSample{{Name: "retry", State: "alive"}, {Name: "smtp", State: "alive", Jobs: 411, Busy: 21, Waiting: 409, Destinations: 3, Dead: 1, Window: 25, Connections: 22, Connecting: 3,
			Sent: 4000, Deferred: 60, Bounced: 12, Rates: live.Rates{Sent: 120.4, Deferred: 3.2, Bounced: 0.1}}},
		Sites: []live.SiteSample{
			{Name: "smtp:example.net", Transport: "smtp", Nexthop: "example.net", State: "full", Window: 20, Busy: 20, Waiting: 400, Messages: 400, Recipients: 420, Oldest: &oldest, Connections: 20,
				Rates: live.Rates{Sent: 118.2}, Moved: &live.Move{At: now.Add(-40 * time.Second), From: 21, To: 20, Cause: live.CauseShrank, Text: "421 too many connections"}, Trend: []int{5, 10, 20, 21, 20}},
			{Name: "smtp:dead.example", Transport: "smtp", Nexthop: "dead.example", State: "dead", Reason: "421 too busy", Until: &until, Waiting: 7, Messages: 7, Recipients: 7, Oldest: &oldest},
			{Name: "smtp:{mx1.quick.example;mx2.quick.example}", Transport: "smtp", Nexthop: "{mx1.quick.example;mx2.quick.example}", State: "opening", Window: 5, Busy: 1, Waiting: 2, Messages: 2, Recipients: 2,
				Connections: 2, Connecting: 3, Rates: live.Rates{Sent: 2.2, Deferred: 3.2, Bounced: 0.1}},
		},
		SitesKnown: 3, States: map[string]int{"full": 1, "dead": 1, "opening": 1},
		Flows: []live.FlowSample{{Class: "bulk", Tenant: "shop", Flow: "news@shop.example", Messages: 380, Waiting: 380, Busy: 18, Started: 1234, Rate: 99.5},
			{Class: "normal", Tenant: "app", Flow: "otp@app.example", Messages: 1, Waiting: 1, Rate: 2}},
		FlowsKnown: 2}
}
