package qmgr_test

import (
	"net/netip"
	"testing"

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
