package qmgr_test

import (
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
		t.Errorf("%d are kept and %d were answered, with %d look-ups under way; want %d, %d and 10", open, answered, underway, kept, asked-kept)
	}
	q.Check()
	wake, ok := q.NextWake()
	if !ok || wake > now.Add(qmgr.Config{}.WithDefaults().VerifyDeadline) {
		t.Errorf("the core wants to be woken at %v, %t", wake, ok)
	}
	now = wake
	step(qmgr.Wake{})
	if l := q.View(0).Lookups; l.Verifying != 0 || answered != asked || l.Busy != 10 || l.Waiting != 0 {
		t.Errorf("after the deadline: %+v, %d answered", l, answered)
	}
	q.Check()
}

// A client that names one recipient again and again, whose standing is known and old,
// is answered out of what is known. That the receiver is to be asked once more takes
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
				if answered == 0 { // later nobody answers
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
