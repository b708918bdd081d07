package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Every quantile is at least the true one and at most 1/64 above it, whatever
// the values; several histograms together are as good as one.
func TestHistogramAgainstSortedList(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var whole, a, b Histogram
		var all []time.Duration
		for range 1 + rng.IntN(300) {
			d := time.Duration(rng.Int64() >> (1 + rng.IntN(62)))
			all = append(all, d)
			whole.Add(d)
			if rng.IntN(2) == 0 {
				a.Add(d)
			} else {
				b.Add(d)
			}
		}
		a.Merge(&b)
		slices.Sort(all)
		for _, p := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
			rank := int(p * float64(len(all)))
			if float64(rank) < p*float64(len(all)) || rank == 0 {
				rank++
			}
			want, got := all[rank-1], whole.Quantile(p)
			if got < want || got > want+want/64+1 {
				t.Fatalf("seed %d: quantile %v of %d values is %d, want %d", seed, p, len(all), got, want)
			}
			if merged := a.Quantile(p); merged != got {
				t.Fatalf("seed %d: quantile %v is %d in one histogram, %d in two", seed, p, got, merged)
			}
		}
		if whole.Max() != all[len(all)-1] || whole.Count() != uint64(len(all)) {
			t.Fatalf("seed %d: max %v of %d, want %v of %d", seed, whole.Max(), whole.Count(), all[len(all)-1], len(all))
		}
	}
	var empty Histogram
	if empty.Quantile(0.5) != 0 || empty.Max() != 0 {
		t.Error("nothing has a quantile")
	}
	empty.Add(-time.Second)
	if empty.Quantile(1) != 0 || empty.Count() != 1 {
		t.Error("a negative duration does not count as 0")
	}
}

// However long a run is, its series has a bounded number of points, and nothing
// that happened is lost by joining them.
func TestSeriesKeepsEverything(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var s Series
	var since time.Duration
	attempts, deferred, windows, most, least := 0, 0, 0, 0, 1<<30
	for range 50000 {
		since += time.Duration(rng.Int64N(int64(3 * time.Second)))
		p := s.at(since, Point{Connections: rng.IntN(10)})
		p.Attempts++
		p.Deferred += 2
		size := 1 + rng.IntN(50)
		p.window(size)
		attempts, deferred, windows = attempts+1, deferred+2, windows+size
		most, least = max(most, size), min(least, size)
	}
	var sum Point
	for i := range s.Points {
		sum.Join(&s.Points[i])
	}
	if sum.Attempts != attempts || sum.Deferred != deferred || sum.WindowSum != float64(windows) || sum.Windows != attempts ||
		sum.WindowMax != most || sum.WindowMin != least {
		t.Errorf("seed %d: the points add up to %+v", seed, sum)
	}
	if n := len(s.Points); n > seriesMax || n < seriesMax/2 {
		t.Errorf("seed %d: %d points of %v", seed, n, s.Step)
	}
	if span := s.Step * time.Duration(len(s.Points)); span < since || span > 2*since+s.Step {
		t.Errorf("seed %d: %d points of %v for %v", seed, len(s.Points), s.Step, since)
	}
}
