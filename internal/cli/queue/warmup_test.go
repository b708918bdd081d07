package queue

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
)

// The lines about a warm-up say where each site is, and what comes next.
func TestWarmupLines(t *testing.T) {
	got := strings.Join(warmupLines(&admin.SourceWarmup{Plan: "conservative", Start: "2026-03-02", Paused: true, Known: 3, Warm: 1, Spent: 1, Today: 160, Sites: []admin.WarmupSite{
		{Site: "a.test", State: "warm", Today: 100},
		{Site: "b.test", State: "warming", Day: 2, Allowance: 65, Today: 50, Accepted: 90, Deferred: 9, Bounced: 1, Last: "advanced", Tomorrow: 84},
		{Site: "c.test", State: "warming", Day: 30, Allowance: 98564, Today: 10, Last: "not judged"},
		{Site: "d.test", State: "warming", Day: 1, Allowance: 50, Last: "stayed: too many bounces", Paused: true, Tomorrow: 50},
	}}), "\n")
	want := `warm-up by plan conservative: 160 messages today; 3 sites known, 1 warm, 1 with today's allowance used up, from 2026-03-02, paused
to a.test: warm, 100 messages today
to b.test: day 2, 50 of 65 today, 9 % deferred, 1 % bounced; last: advanced; tomorrow 84
to c.test: day 30, 10 of 98,564 today, 0 % deferred, 0 % bounced; last: not judged; tomorrow warm
to d.test: day 1, 0 of 50 today, 0 % deferred, 0 % bounced; last: stayed: too many bounces; paused`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if lines := warmupLines(nil); lines != nil {
		t.Errorf("without a warm-up: %q", lines)
	}
}
