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

// An operator sees a healthy host that has no connection, and asks why. That it is of
// a later tier has to be said, and "every host" must not be said of a few of them.
func TestHostsThatAreFull(t *testing.T) {
	mx1, literal := mail.Host{Name: "mx1"}, mail.Host{Addr: netip.MustParseAddrPort("192.0.2.1:25")}
	for _, c := range []struct {
		obstacle qmgr.Obstacle
		want     string
	}{
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostBusy, Hosts: conns.TierView{Hosts: 2, Full: 1, First: mx1, Count: 2, Later: 2, Next: mail.Host{Name: "mx3"}}},
			"mx1, the only usable host of tier 1, takes no more connections than its 2; tier 2 (mx3) is for when none of tier 1 answers"},
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostBusy, Hosts: conns.TierView{Hosts: 1, Full: 1, First: literal, Count: 3}},
			"[192.0.2.1]:25, the only host, takes no more connections than its 3"},
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostBusy, Hosts: conns.TierView{Tier: 1, Hosts: 3, Full: 2, First: mx1}},
			"the 2 usable hosts of tier 2 take no more connections, or have as many as they may"},
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostBusy, Hosts: conns.TierView{Hosts: 2, Full: 2, First: mx1}},
			"every host has said that it takes no more connections, or has as many as it may"},
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostBusy, Callouts: true},
			"a host has lately ended a connection over a question about a recipient, and nothing but such questions waits"},
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostLimit, Limit: 2, Hosts: conns.TierView{Hosts: 1, Full: 1, First: mx1, Later: 1, Next: literal, More: 2}},
			"host limit: 2 connections to each; tier 2 ([192.0.2.1]:25 and 2 more) is for when none of tier 1 answers"},
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostLimit, Hosts: conns.TierView{Hosts: 2, Full: 1, First: mx1}},
			"mx1, the only usable host, is being tried, or has as many connections as it may"},
		{qmgr.Obstacle{Kind: qmgr.ObstacleHostLimit, Hosts: conns.TierView{Hosts: 2, Full: 2, Tier: 1}},
			"every usable host of tier 2 is being tried, or has as many connections as it may"},
	} {
		q := admintest.New()
		q.SetDestinations(summaryOf("smtp", "example.net", 1, qmgr.ConditionFull, c.obstacle))
		page := get[admin.DestinationPage](serve(t, q, admin.Config{}), "GET", "/v1/destinations", "")
		if got := page.Destinations[0].Obstacle.Text; got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// Every reason for which we end a connection has words of its own; those of a probe
// say what it has shown.
func TestPartingsInWords(t *testing.T) {
	v := summaryOf("smtp", "example.net", 1, qmgr.ConditionReady, qmgr.Obstacle{Kind: qmgr.ObstacleTurn})
	for p := conns.PartIdle; p <= conns.PartOutdated; p++ {
		v.Ended = append(v.Ended, conns.Ending{Parting: p, Closing: mail.Closing{Proof: mail.ProofPassed}})
	}
	for _, proof := range []mail.Proof{mail.ProofNone, mail.ProofFailed, mail.ProofExecutes} {
		v.Ended = append(v.Ended, conns.Ending{Parting: conns.PartProbe, Closing: mail.Closing{Proof: proof}})
	}
	q := admintest.New()
	q.SetDestinations(v)
	seen := map[string]bool{}
	for _, e := range get[admin.DestinationDetail](serve(t, q, admin.Config{}), "GET", "/v1/destinations/example.net", "").Ended {
		if seen[e.Text] {
			t.Errorf("twice: %s", e.Text)
		}
		if seen[e.Text] = true; e.Parting == "probe" && !strings.HasPrefix(e.Text, "it ended with the probe for streaming, which ") ||
			e.Parting == "outdated" && e.Text != "it was opened before the host could be streamed to" {
			t.Errorf("%s: %s", e.Parting, e.Text)
		}
	}
	if !seen["it ended with the probe for streaming, which the host passed"] {
		t.Errorf("%v", seen)
	}
}
