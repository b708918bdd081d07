package scenario

import (
	"math"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/sim"
)

// fairRuns simulates a shipped scenario about flows and returns its runs by name.
func fairRuns(t *testing.T, name string) map[string]sim.RunReport {
	t.Helper()
	t.Parallel()
	return byName(simulateOnce(t, name, 1))
}

// Single messages pass a mailing of 8,000 messages with one recipient each: they take
// hardly longer than the receiver needs, and the mailing is not slowed down. In one queue
// they wait for seconds.
func TestPersonalBulk(t *testing.T) {
	runs := fairRuns(t, "personal-bulk")
	flows, queue := runs["flows"], runs["one queue"]
	singles := flows.DelayMS["singles"]
	if singles.P50 > 60 || singles.P99 > 150 {
		t.Errorf("single messages take %v ms at the median, %v ms at p99; want 60 and 150 at most", singles.P50, singles.P99)
	}
	if was := queue.DelayMS["singles"].P50; was < 100*singles.P50 {
		t.Errorf("single messages take %v ms in one queue, so that the mailing is not in their way", was)
	}
	if flows.GoodputPerS < 0.98*queue.GoodputPerS {
		t.Errorf("%v messages a second with flows, %v without", flows.GoodputPerS, queue.GoodputPerS)
	}
	if is, was := flows.DelayMS["bulk"].Max, queue.DelayMS["bulk"].Max; is > was/0.98 {
		t.Errorf("the mailing takes %v ms with flows, %v ms without", is, was)
	}
}

// A tenant that sends 95 % of the mail does not slow the others down by more than half.
func TestNoisyNeighbor(t *testing.T) {
	figures(t)
	runs := fairRuns(t, "noisy-neighbor")
	others := func(run string) float64 { return runs[run].DelayMS["others"].P99 }
	if with, without := others("flows"), others("without the noisy one"); with > 1.5*without {
		t.Errorf("the others take %v ms at p99 beside the noisy tenant, %v ms without", with, without)
	}
	if queue, without := others("one queue"), others("without the noisy one"); queue < 10*without {
		t.Errorf("in one queue the others take %v ms at p99, so the noisy sender is not noisy", queue)
	}
}

// A flow that asks for less than its share waits for one connection to come free, 2.5 ms on
// average, however many others have a backlog.
func TestSparseFlow(t *testing.T) {
	runs := fairRuns(t, "sparse-flow")
	if d := runs["flows"].DelayMS["sparse"]; d.P50 > 60 || d.Max > 75 {
		t.Errorf("messages of the sparse flow take %v ms at the median, %v ms at most", d.P50, d.Max)
	}
	if d := runs["one queue"].DelayMS["sparse"]; d.P50 < 1000 {
		t.Errorf("in one queue they take %v ms at the median, so that nothing is in their way", d.P50)
	}
}

// A client that invents senders has one tenant's share: while both have mail, another tenant has
// half of the destination, and single messages of a third are not delayed. Those of an honest
// sender within the flooded tenant wait for 1,279 starts of the tenant at most (bound 5 of
// docs/fairness.md), which has every second one: 6.4 s.
func TestFlowFlood(t *testing.T) {
	figures(t)
	runs := fairRuns(t, "flow-flood")
	flows := runs["flows"]
	honest, invented := starts(&flows, "honest", "honest"), starts(&flows, "invented", "honest")
	if share := float64(honest) / float64(honest+invented); share < 0.45 {
		t.Errorf("the honest tenant has %.1f %% of the destination", 100*share)
	}
	if d := flows.DelayMS["single"]; d.P50 > 60 || d.P99 > 150 {
		t.Errorf("single messages take %v ms at the median, %v ms at p99", d.P50, d.P99)
	}
	if d := flows.DelayMS["beside"]; d.P50 > 100 || d.Max > 6450 {
		t.Errorf("those of an honest sender of the flooded tenant take %v ms at the median, %v ms at most", d.P50, d.Max)
	}
	queue := runs["one queue"]
	if d := queue.DelayMS["beside"]; d.P50 < 10_000 {
		t.Errorf("in one queue they take %v ms at the median, so that nothing is in their way", d.P50)
	}
	if honest, invented := starts(&queue, "honest", "honest"), starts(&queue, "invented", "honest"); honest > invented {
		t.Errorf("in one queue %d honest messages start, and %d invented ones", honest, invented)
	}
}

// Classes share by weight, and so do the tenants of a class.
func TestWeights(t *testing.T) {
	figures(t)
	runs := fairRuns(t, "weights")
	for name, want := range map[string]map[string]float64{
		"weights":       {"normal": 4. / 5, "basic": 1. / 30, "silver": 2. / 30, "gold": 3. / 30},
		"equal weights": {"normal": 1. / 2, "basic": 1. / 6, "silver": 1. / 6, "gold": 1. / 6},
	} {
		run := runs[name]
		all := 0
		for class := range want {
			all += starts(&run, class, "normal")
		}
		for class, share := range want {
			if is := float64(starts(&run, class, "normal")) / float64(all); math.Abs(is-share) > 0.01 {
				t.Errorf("%s: %s has %.1f %% of the destination, want %.1f %%", name, class, 100*is, 100*share)
			}
		}
	}
}

// starts returns how many deliveries of a class begin until the last one of another does.
func starts(r *sim.RunReport, class, until string) (sum int) {
	c, u := slices.Index(r.Pictures.Classes, class), slices.Index(r.Pictures.Classes, until)
	points := r.Pictures.Series.Points
	end := len(points)
	for end > 0 && points[end-1].Starts[u] == 0 {
		end--
	}
	for i := range points[:end] {
		sum += points[i].Starts[c]
	}
	return sum
}
