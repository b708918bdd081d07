package qmgr_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Whatever number of clients ask for whatever number of domains, no more questions
// are kept than there is room for, and what is beyond is answered at once; and when
// all have been answered, nothing is left of them.
func TestVerificationsAreBounded(t *testing.T) {
	q, err := qmgr.New(qmgr.Config{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	const asked, kept = 20_000, 10_000
	now, answered, underway := mail.Instant(1e18), 0, 0
	step := func(ev qmgr.Event) {
		for _, a := range q.Step(now, ev) {
			switch a.(type) {
			case qmgr.Verified:
				answered++
			case qmgr.Lookup:
				underway++
			}
		}
	}
	for i := range asked {
		client := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
		step(qmgr.Verify{Verification: qmgr.VerificationID(i), Client: client, Transport: "smtp", Nexthop: "d" + string(rune('a'+i%26)) + client.String()})
	}
	if open := q.View(0).Lookups.Verifying; open != kept || answered != asked-kept || underway != 10 {
		t.Errorf("%d are kept and %d were answered, with %d lookups under way; want %d, %d and 10", open, answered, underway, kept, asked-kept)
	}
	q.Check()
	deadline := now.Add(qmgr.Config{}.WithDefaults().VerifyDeadline)
	for now < deadline {
		wake, ok := q.NextWake()
		if !ok || wake > deadline {
			t.Fatalf("the core wants to be woken at %v, %t", wake, ok)
		}
		now = wake
		step(qmgr.Wake{})
	}
	// None of these has an answer: half of the room for slow lookups is taken, and
	// what was begun just before.
	if l := q.View(0).Lookups; l.Verifying != 0 || answered != asked || l.Busy != underway || underway < 500 || underway > 510 || l.Waiting != 0 {
		t.Errorf("after the deadline: %+v, %d answered, %d under way", l, answered, underway)
	}
	q.Check()
}

// A client that names one recipient again and again, whose status is known and old,
// is answered out of what is known. That the receiver is asked once more takes
// one question's room, and not that of those who know nothing yet.
func TestOldAnswersTakeNoRoom(t *testing.T) {
	q, err := qmgr.New(qmgr.Config{DefaultTransport: qmgr.TransportConfig{Agents: qmgr.AgentsConnections}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	now, answered := mail.Instant(1e18), 0
	hosts := mail.HostSet{Tiers: [][]mail.Host{{{Name: "mx", Addr: netip.MustParseAddrPort("192.0.2.1:25")}}}, Until: now.Add(1000 * time.Hour)}
	var step func(ev qmgr.Event)
	step = func(ev qmgr.Event) {
		for _, a := range append([]qmgr.Action(nil), q.Step(now, ev)...) {
			switch a := a.(type) {
			case qmgr.Verified:
				answered++
			case qmgr.Resolve:
				step(qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Set: hosts})
			case qmgr.Dial:
				if answered == 0 { // later no host answers
					step(qmgr.Dialed{Conn: a.Conn})
				}
			case qmgr.Send:
				step(qmgr.Delivered{Entry: a.Entry, Result: mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Delivered}}}})
			case qmgr.Hangup:
				step(qmgr.Closed{Conn: a.Conn})
			}
		}
	}
	ask := qmgr.Verify{Client: netip.MustParseAddr("192.0.2.9"), Transport: "smtp", Nexthop: "d.test", Routed: true, Recipient: "u@d.test"}
	step(ask)
	for _, after := range []time.Duration{time.Hour, 8 * 24 * time.Hour} {
		now = now.Add(after)
		step(qmgr.Wake{})
	}
	const times = 1000
	for range times {
		step(ask)
	}
	if open := q.View(0).Lookups.Verifying; open != 1 || answered != 1+times {
		t.Errorf("%d questions wait and %d were answered, want 1 and %d", open, answered, 1+times)
	}
	q.Check()
}

// Questions about domains with silent name servers keep no other question waiting until
// it is answered as "not in time": neither those of the same network, nor those of
// others, however many networks ask for as many of them as each may have places.
func TestSilentVerifications(t *testing.T) {
	each := qmgr.Config{}.WithDefaults().VerifyNetworkLimit
	for _, tt := range []struct{ networks, silent int }{{1, each}, {1, 5 * each}, {2, 300 * each}, {5, each}, {20, 20 * each}} {
		if at, ok := lookUpBeside(t, tt.networks, tt.silent); !ok || at > time.Second {
			t.Errorf("%d networks, %d silent domains of each: another is looked up %t, after %v", tt.networks, tt.silent, ok, at)
		}
	}
}

// lookUpBeside returns after how long a domain is looked up for which a client asks four
// seconds after networks have each asked for silent ones. It is of a network of its own
// if they are several.
func lookUpBeside(t *testing.T, networks, silent int) (after time.Duration, begun bool) {
	q, err := qmgr.New(qmgr.Config{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	const start, asked = mail.Instant(1e18), 4 * time.Second
	now, steps := start, 0
	step := func(ev qmgr.Event) {
		for _, a := range q.Step(now, ev) {
			if l, ok := a.(qmgr.Lookup); ok && l.Nexthop == "good.test" {
				after, begun = now.Sub(start)-asked, true
			}
		}
		if steps++; steps%checkOfMany() == 0 {
			q.Check()
		}
	}
	id := qmgr.VerificationID(0)
	ask := func(network int, nexthop string) {
		id++
		step(qmgr.Verify{Verification: id, Client: netip.AddrFrom4([4]byte{10, 0, byte(network), 1}), Transport: "smtp", Nexthop: nexthop})
	}
	for n := range networks {
		for i := range silent {
			ask(n, fmt.Sprintf("silent%d.zone%d.test", i, n))
		}
	}
	pass := func(until mail.Instant) {
		for !begun && now < until {
			now = until
			if wake, ok := q.NextWake(); ok {
				now = min(wake, until)
			}
			step(qmgr.Wake{})
		}
	}
	pass(start.Add(asked))
	if networks == 1 {
		networks = 0
	}
	ask(networks, "good.test")
	pass(start.Add(asked + 53*time.Second))
	return after, begun
}
