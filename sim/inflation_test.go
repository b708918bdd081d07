package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// A message that others overtake is slowed down by no more than k/(k-1),
// however deep the overtaking nests: that is what SCHEDULER_README promises for
// the slot cost k, and what makes preemption harmless. Random messages, one
// delivery at a time, every recipient a destination of its own, so that nothing
// but preemption decides. A delivery takes as long as a point of the series, since
// ten thousand series of a hundred empty points for each delivery would take longer
// than the deliveries.
//
// Measured is, for each message, how many deliveries of its lane lie between its first and
// its last, these two included, against its own. A message with n entries can
// be overtaken by at most floor of the bound, so whole entries are compared. Up to four flows
// share the deliveries, with weights: what others do between two deliveries of a lane changes
// nothing within it (bound 4 of docs/fairness.md).
func TestInflation(t *testing.T) {
	t.Parallel()
	workloads := 100 * golden.Runs(5)
	seed := rand.Uint64()
	worst, worstOfBound, interleaved := 0.0, 0.0, 0
	var points []Point // memory of the series, which is not used here
	for n := range workloads {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		s, k := inflationScenario(rng)
		w, err := newWorld(s, &s.Runs[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		w.measure.series.Points = points[:0]
		w.play()
		points = w.measure.series.Points
		first, last, own, lanes := map[int]int{}, map[int]int{}, map[int]int{}, map[mail.Flow]int{}
		var before mail.Flow
		for _, slot := range w.measure.slots {
			lane := s.Arrivals[slot.Class].Flow
			if lanes[lane]++; lane != before {
				before, interleaved = lane, interleaved+1
			}
			if own[slot.Job] == 0 {
				first[slot.Job] = lanes[lane]
			}
			last[slot.Job], own[slot.Job] = lanes[lane], own[slot.Job]+1
		}
		bound := float64(k) / float64(k-1)
		for job, entries := range own {
			inflation := float64(last[job]-first[job]+1) / float64(entries)
			worst = max(worst, inflation)
			worstOfBound = max(worstOfBound, inflation/bound)
			if inflation > bound {
				t.Errorf("seed %d, workload %d, k = %d: message %d of %d entries is spread over %d deliveries of its lane: %.3f times its own, more than %.3f",
					seed, n, k, job, entries, last[job]-first[job]+1, inflation, bound)
			}
		}
	}
	if interleaved < 10*workloads {
		t.Errorf("in %d workloads the deliveries change from one lane to another only %d times", workloads, interleaved)
	}
	t.Logf("%d workloads: no message was slowed down more than %.3f times, or more than %.1f %% of its bound", workloads, worst, 100*worstOfBound)
}

func inflationScenario(rng *rand.Rand) (*Scenario, int) {
	const delivery = seriesFirst
	k := 2 + rng.IntN(6)
	s := &Scenario{Name: "inflation", Seed: 1, Sites: []Site{{Name: "far", Copies: 2, Behaviour: Behaviour{Recipient: Fixed(delivery)}}}}
	lanes := 1 + rng.IntN(4)
	for i := range 2 + rng.IntN(6*lanes) {
		size := 1 + rng.IntN(1<<(1+rng.IntN(5)))
		s.Sites[0].Copies = max(s.Sites[0].Copies, size)
		s.Arrivals = append(s.Arrivals, Arrivals{Class: fmt.Sprint("mail", i), Flow: mail.Flow{Flow: fmt.Sprint("f", rng.IntN(lanes))}, Min: size, Max: size, To: []string{"far"}, Messages: 1,
			From: time.Duration(rng.IntN(60)) * delivery / time.Duration(1+rng.IntN(4))})
	}
	s.Runs = []Run{{Name: "run", Core: qmgr.Config{Shares: fair.Rules{Flows: map[string]int{"f0": 1 + rng.IntN(5)}}, DefaultTransport: qmgr.TransportConfig{ProcessLimit: 1,
		SlotCost: k, SlotLoan: rng.IntN(5) - 1, SlotDiscount: rng.IntN(102) - 1, MinimumSlots: rng.IntN(5) - 1}}}}
	return s, k
}
