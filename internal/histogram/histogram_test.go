package histogram

import (
	"math"
	"sync"
	"testing"
	"time"
)

// Each value is in the class whose bounds it is between, the upper one included: Prometheus computes
// quantiles from that.
func TestClasses(t *testing.T) {
	for _, v := range []float64{Threshold, 1.5 * Threshold, 0.001, 0.25, 0.5, 0.5946, 0.5947, 0.7, 0.75, 0.84, 0.85, 1, 1.1, 1.19, 1.2, 2, 3, 1000, 1 << 20, 1<<24 - 1, 1 << 24} {
		var h Histogram
		h.Observe(v)
		got := h.Snapshot()
		if got.Count != 1 || got.Sum != v {
			t.Errorf("%v: count %d, sum %v", v, got.Count, got.Sum)
		}
		if v <= Threshold {
			if got.Zero != 1 {
				t.Errorf("%v does not count as zero", v)
			}
			continue
		}
		for i, n := range got.Classes {
			within := v <= Bound(i) && v > Bound(i-1)
			if within != (n == 1) {
				t.Errorf("%v: %d in the class from %v to %v", v, n, Bound(i-1), Bound(i))
			}
		}
	}
	for i := range classes {
		var h Histogram
		h.Observe(math.Nextafter(Bound(i), 2*Bound(i)))
		if got := h.Snapshot().Classes[min(i+1, classes-1)]; got != 1 {
			t.Errorf("a value above the bound of class %d is not in the next one", i)
		}
	}
}

// What cannot be measured must neither be lost nor make an index out of range: a clock that was
// set back gives negative durations.
func TestOddValues(t *testing.T) {
	var h Histogram
	for _, v := range []float64{0, -1, math.Inf(-1), math.NaN(), 5e-324} {
		h.Observe(v)
	}
	h.Duration(-time.Second)
	if got := h.Snapshot(); got.Zero != 6 || got.Count != 6 || got.Sum != 5e-324 {
		t.Errorf("%+v", got)
	}
	h.Observe(math.Inf(1))
	h.Observe(math.MaxFloat64)
	h.Observe(1<<24 + 1)
	if got := h.Snapshot(); got.Classes[classes-1] != 3 || got.Count != 9 {
		t.Errorf("%d of %d in the last class", got.Classes[classes-1], got.Count)
	}
}

// Classic buckets have powers of two as bounds, and count exactly what is not above them.
func TestUpTo(t *testing.T) {
	var h Histogram
	for _, v := range []float64{0, 0.1, 0.125, 0.126, 0.5, 1, 1.01, 2} {
		h.Observe(v)
	}
	v := h.Snapshot()
	for power, want := range map[int]uint64{-30: 1, -4: 1, -3: 3, -2: 4, -1: 5, 0: 6, 1: 8, 40: 8} {
		if got := v.UpTo(power); got != want {
			t.Errorf("%d values up to 2^%d, want %d", got, power, want)
		}
	}
}

// Deliveries end at the same time.
func TestConcurrent(t *testing.T) {
	var h Histogram
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				h.Observe(2)
			}
		})
	}
	all.Wait()
	if got := h.Snapshot(); got.Count != 4000 || got.Sum != 8000 {
		t.Errorf("count %d, sum %v", got.Count, got.Sum)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for i := range b.N {
		h.Duration(time.Duration(i&0xffff) * time.Microsecond)
	}
}
