package admin_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
)

// An operator sees a healthy host without connections and asks why. The text must say
// that it is in a later tier, and must not say "every host" of a few of them.
func TestHostsThatAreFull(t *testing.T) {
	mx1, literal := mail.Host{Name: "mx1"}, mail.Host{Addr: netip.MustParseAddrPort("192.0.2.1:25")}
	for _, c := range []struct {
		waitReason qmgr.WaitReason
		want       string
	}{
		{qmgr.WaitReason{Kind: qmgr.WaitHostBusy, Hosts: conns.TierView{Hosts: 2, Full: 1, First: mx1, Count: 2, Later: 2, Next: mail.Host{Name: "mx3"}}},
			"mx1, the only usable host of tier 1, refuses more than its 2 connections; tier 2 (mx3) is used only if no host of tier 1 answers"},
		{qmgr.WaitReason{Kind: qmgr.WaitHostBusy, Hosts: conns.TierView{Hosts: 1, Full: 1, First: literal, Count: 3}},
			"[192.0.2.1]:25, the only host, refuses more than its 3 connections"},
		{qmgr.WaitReason{Kind: qmgr.WaitHostBusy, Hosts: conns.TierView{Tier: 1, Hosts: 3, Full: 2, First: mx1}},
			"the 2 usable hosts of tier 2 refuse more connections or are at their limits"},
		{qmgr.WaitReason{Kind: qmgr.WaitHostBusy, Hosts: conns.TierView{Hosts: 2, Full: 2, First: mx1}},
			"every host refuses more connections or is at its limit"},
		{qmgr.WaitReason{Kind: qmgr.WaitHostBusy, Callouts: true},
			"a host recently ended a connection during a call-out, and only call-outs wait"},
		{qmgr.WaitReason{Kind: qmgr.WaitHostLimit, Limit: 2, Hosts: conns.TierView{Hosts: 1, Full: 1, First: mx1, Later: 1, Next: literal, More: 2}},
			"at the limit of 2 connections to each host; tier 2 ([192.0.2.1]:25 and 2 more) is used only if no host of tier 1 answers"},
		{qmgr.WaitReason{Kind: qmgr.WaitHostLimit, Hosts: conns.TierView{Hosts: 2, Full: 1, First: mx1}},
			"mx1, the only usable host, is being probed or at its connection limit"},
		{qmgr.WaitReason{Kind: qmgr.WaitHostLimit, Hosts: conns.TierView{Hosts: 2, Full: 2, Tier: 1}},
			"every usable host of tier 2 is being probed or at its connection limit"},
	} {
		q := admintest.New()
		q.SetDestinations(summaryOf("smtp", "example.net", 1, qmgr.ConditionFull, c.waitReason))
		page := get[admin.DestinationPage](serve(t, q, admin.Config{}), "GET", "/v1/destinations", "")
		if got := page.Destinations[0].WaitReason.Text; got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// Every reason for which we close a connection has a text of its own; that of a
// probe gives its result.
func TestDrainReasonsInWords(t *testing.T) {
	v := summaryOf("smtp", "example.net", 1, qmgr.ConditionReady, qmgr.WaitReason{Kind: qmgr.WaitTurn})
	for p := conns.DrainIdle; p <= conns.DrainOutdated; p++ {
		v.Ended = append(v.Ended, conns.Ending{Drained: p, Closing: mail.Closing{Proof: mail.ProofPassed}})
	}
	for _, proof := range []mail.Proof{mail.ProofNone, mail.ProofFailed, mail.ProofExecutes} {
		v.Ended = append(v.Ended, conns.Ending{Drained: conns.DrainProbe, Closing: mail.Closing{Proof: proof}})
	}
	q := admintest.New()
	q.SetDestinations(v)
	seen := map[string]bool{}
	for _, e := range get[admin.DestinationDetail](serve(t, q, admin.Config{}), "GET", "/v1/destinations/example.net", "").Ended {
		if seen[e.Text] {
			t.Errorf("twice: %s", e.Text)
		}
		if seen[e.Text] = true; e.DrainReason == "probe" && !strings.HasPrefix(e.Text, "ended with the streaming probe, which ") ||
			e.DrainReason == "outdated" && e.Text != "opened before the host was known to support streaming" {
			t.Errorf("%s: %s", e.DrainReason, e.Text)
		}
	}
	if !seen["ended with the streaming probe, which the host passed"] {
		t.Errorf("%v", seen)
	}
}
