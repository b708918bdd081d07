package driver_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Lookups delay only the mail that waits for them: mail with a known route goes out
// at once, and lookups run concurrently up to their limit.
func TestLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		start := time.Now()
		near := make(chan time.Duration, 1)
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult {
			if d.Nexthop == "near.test" {
				near <- time.Since(start)
			} else if d.Nexthop != "{mx.far.test}" {
				t.Errorf("a delivery to %q, want the site's", d.Nexthop)
			}
			return all(d, mail.Delivered)
		}
		d, stop := w.start(t, driver.Config{Qmgr: qmgr.Config{LookupLimit: 10, MessageConcurrency: 10}})
		var far []mail.Address
		for i := range 50 {
			far = append(far, mail.Address(fmt.Sprintf("u@far%d.test", i)))
		}
		d.Arrived(w.store(1, far...))
		d.Arrived(w.store(2, "u@near.test"))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if took := <-near; took != 0 {
			t.Errorf("mail with a known route waited for %v", took)
		}
		if most := w.lookingMost.Load(); most != 10 {
			t.Errorf("%d lookups were under way at once, want 10", most)
		}
		if w.count() != 0 {
			t.Errorf("%d messages are left after the time that 50 lookups take, ten at once", w.count())
		}
		stop()
	})
}

// A lookup is for the credential of the mail's sender and for what the mail asks of its way, which are in the demand that it
// returns: otherwise mail would use a connection of another login, or one without.
func TestLookupsByDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.logins = map[mail.Address]string{"mia@x.test": "mia~1", "ben@x.test": "ben~2"}
		demands := make(chan string, 4)
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult {
			demands <- string(d.Envelope.Sender) + " " + d.Security
			return all(d, mail.Delivered)
		}
		d, stop := w.start(t, driver.Config{Qmgr: qmgr.Config{RoutesBySender: true}})
		for i, from := range []mail.Address{"mia@x.test", "ben@x.test", "", "mia@x.test"} {
			a := w.store(mail.QueueID(i+1), "u@far.test")
			a.Envelope.Sender = from
			if i == 3 {
				a.Envelope.TLS = mail.TLSRequired
			}
			d.Arrived(a)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		close(demands)
		got := slices.Sorted(func(yield func(string) bool) {
			for s := range demands {
				yield(s)
			}
		})
		if want := []string{" ", "ben@x.test ben~2", "mia@x.test mia~1", "mia@x.test mia~1required"}; !slices.Equal(got, want) {
			t.Errorf("deliveries are %q, want %q", got, want)
		}
		stop()
	})
}

// Clients who ask whether a recipient can be reached get the lookup's answer or,
// within the deadline, the answer that it is not known or that the daemon has stopped.
func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d, stop := w.start(t, driver.Config{Qmgr: qmgr.Config{VerifyLimit: 1, VerifyDeadline: 1070 * time.Millisecond}})
		ask := func(nexthop string) <-chan string {
			heard, start := make(chan string, 1), time.Now()
			go func() {
				r := d.Verify(t.Context(), netip.MustParseAddr("192.0.2.1"), mail.Route{Transport: "smtp", Nexthop: nexthop})
				heard <- fmt.Sprint(time.Since(start), " ", r.Status)
			}()
			return heard
		}
		// One lookup begins at once, each takes a second, and gives its place back after
		// 50 ms: the third does not end in time.
		var heard []<-chan string
		for _, nexthop := range []string{"far1.test", "far2.test", "far3.test"} {
			heard = append(heard, ask(nexthop))
			synctest.Wait()
		}
		for i, want := range []string{"1s ", "1.05s ", "1.07s 4.4.3"} {
			if got := <-heard[i]; got != want {
				t.Errorf("client %d heard after %q, want %q", i, got, want)
			}
		}
		waits := ask("far4.test")
		synctest.Wait()
		stop()
		if got := <-waits; got != "0s 4.3.2" {
			t.Errorf("at the stop a client heard after %q", got)
		}
		if got := <-ask("far5.test"); got != "0s 4.3.2" {
			t.Errorf("after the stop a client heard after %q", got)
		}
	})
}

// A stop does not wait for lookups, and their mail stays in the spool unchanged.
func TestStopDuringLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d, stop := w.start(t, driver.Config{})
		d.Arrived(w.store(1, "u@far.test"))
		synctest.Wait()
		start := time.Now()
		stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("the stop took %v", took)
		}
		if m := w.messages[1]; m == nil || m.envelope.Attempts != 0 || m.place.Area != mail.AreaIncoming {
			t.Errorf("the message is now %+v", m)
		}
	})
}

// A call-out uses connections of the login that mail of the sender would use, whether or not the route is known.
func TestCallOutByDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, x := newWorld(), newTown([]string{"mx1"})
		d, err := driver.New(driver.Config{Seed: 1, Qmgr: qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {Agents: qmgr.AgentsConnections}}}},
			driver.Ports{Spool: w, Router: w, Finder: w, Reporter: w, Connector: x, Agent: func(string) driver.Agent { return w }})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, d)
		for _, to := range []mail.Route{{Transport: "smtp", Nexthop: "far.test", NeedsLookup: true, Credential: "mia~1"}, {Transport: "smtp", Nexthop: "near.test", Security: "ben~2"}} {
			if r := d.CallOut(t.Context(), netip.MustParseAddr("192.0.2.1"), mail.Address("u@"+to.Nexthop), to); !r.IsZero() {
				t.Errorf("%+v: %v", to, r)
			}
		}
		if want := []string{"mia~1", "ben~2"}; !slices.Equal(x.asked, want) {
			t.Errorf("the connections demand %q, want %q", x.asked, want)
		}
		stop()
	})
}

// A client who asks whether a receiver accepts mail for a recipient gets the
// receiver's answer, and the next client the same without delay; the log has one
// call-out and no delivery.
func TestCallOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, x, log := newWorld(), newTown([]string{"mx1"}), new(logBook)
		d, err := driver.New(driver.Config{Seed: 1, Log: event.NewStrict(log, nil, nil),
			Qmgr: qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {Agents: qmgr.AgentsConnections}}}},
			driver.Ports{Spool: w, Router: w, Reporter: w, Connector: x, Agent: func(string) driver.Agent { return w }})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, d)
		for _, want := range []time.Duration{time.Second, 0} {
			start := time.Now()
			r := d.CallOut(t.Context(), netip.MustParseAddr("192.0.2.1"), "u@near.test", mail.Route{Transport: "smtp", Nexthop: "near.test"})
			if took := time.Since(start); took != want || !r.IsZero() {
				t.Errorf("after %v: %v, want %v", took, r, want)
			}
		}
		stop()
		text := log.String()
		if strings.Count(text, "msg=callout") != 1 || strings.Contains(text, "msg=delivery") || !strings.Contains(text, "to=u@near.test") || !strings.Contains(text, "status=deliverable") {
			t.Errorf("the log:\n%s", text)
		}
		if got := x.accepted("mx1"); len(got) != 1 {
			t.Errorf("the receiver was asked about %v", got)
		}
	})
}
