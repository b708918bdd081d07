package scenario

import (
	"testing"
	"time"
)

// For a month a new address sends to receivers of different patience. With a plan it sends
// what they take, although the strictest takes only a tenth more each day; without one,
// mail is deferred from the first day on. All mail arrives in either case, and the checkers
// see to it that the plan is kept and nothing waits for it.
func TestWarmup(t *testing.T) {
	figures(t)
	t.Parallel()
	runs := byName(simulateOnce(t, "warmup-30-days", 1))
	with, without := runs["warm-up"], runs["no plan"]
	if with.DeferredPct > 1 || without.DeferredPct < 8 {
		t.Errorf("%.2f %% of the mail is deferred with the plan, %.2f %% without", with.DeferredPct, without.DeferredPct)
	}
	if s := &with.Pictures.Series; len(s.Points) < 500 {
		t.Fatalf("the series has %d points", len(s.Points))
	}
	// The new address is at work on the first day, and sends half of the mail at the end.
	of := func(from, to float64) (share float64) {
		sent := [2]int{}
		points := with.Pictures.Series.Points
		for _, p := range points[int(from*float64(len(points))):int(to*float64(len(points)))] {
			sent[0] += p.Sources[0]
			sent[1] += p.Sources[1]
		}
		return float64(sent[0]) / float64(sent[0]+sent[1])
	}
	if first, last := of(0, 1.0/30), of(29.0/30, 1); first < 0.01 || first > 0.1 || last < 0.35 {
		t.Errorf("the new address sends %.2f of the mail on the first day, %.2f on the last", first, last)
	}
}

// Mail waits for the next day of a plan. When an operator allows more, it leaves at once: within
// 14 hours of a run of which each day of the plan would take one. The checkers see to it
// that what a receiver has deferred keeps its time.
func TestWarmupRaised(t *testing.T) {
	t.Parallel()
	run := simulateOnce(t, "warmup-raised", 1).Runs[0]
	if run.DeferredPct < 80 || run.Delivered != 2000 || run.DelayMS["all"].Max > 15*float64(time.Hour.Milliseconds()) {
		t.Errorf("%.1f %% of the mail is deferred, %d of 2000 are delivered, the last after %v", run.DeferredPct, run.Delivered, time.Duration(run.DelayMS["all"].Max)*time.Millisecond)
	}
}
