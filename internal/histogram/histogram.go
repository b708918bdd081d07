// Package histogram counts durations and sizes by magnitude, for metrics. An observation is
// two atomic additions, without an allocation or a lock, so that a delivery can afford several.
//
// Four classes double the value, so a class is 19 % wide: these are the classes of schema 2 of
// Prometheus' native histograms, and a power of two is the upper bound of one. So a classic
// histogram whose bounds are powers of two has exact counts, too.
package histogram

import (
	"math"
	"sync/atomic"
	"time"
)

// Schema is the resolution as Prometheus counts it: 2^Schema classes double the value.
const Schema = 2

const (
	perDoubling = 1 << Schema
	// Values from 2^lowest to 2^highest have classes of their own: a microsecond to six months in
	// seconds, and numbers up to 16 million.
	lowest, highest = -20, 24
	classes         = (highest - lowest) * perDoubling
)

// Threshold is the largest value that counts as zero.
const Threshold = 1.0 / (1 << -lowest)

// A Histogram counts values. The zero Histogram is empty. Its methods may be called from any
// goroutine.
type Histogram struct {
	zero    atomic.Uint64 // values up to Threshold
	classes [classes]atomic.Uint64
	sum     atomic.Uint64 // the bits of a float64
}

// bounds are the upper bounds of the classes from 1/2 to 1; that of the last is 1.
var bounds = [perDoubling]float64{0.5, 0.5946035575013605, 0.7071067811865475, 0.8408964152537145}

// Observe counts a value. Negative values count as zero, and values that are too large in the last
// class.
func (h *Histogram) Observe(v float64) {
	if v > 0 { // it is false for NaN
		h.add(v)
	}
	if !(v > Threshold) {
		h.zero.Add(1)
		return
	}
	h.classes[classOf(v)].Add(1)
}

// Duration counts a duration in seconds.
func (h *Histogram) Duration(d time.Duration) { h.Observe(d.Seconds()) }

// classOf returns the class of a value that is greater than Threshold.
func classOf(v float64) int {
	fraction, exponent := math.Frexp(v) // 1/2 ≤ fraction < 1
	if exponent > highest {             // infinity, too, whose exponent is 0
		return classes - 1
	}
	if math.IsInf(v, 1) {
		return classes - 1
	}
	within := 0
	for within < perDoubling && fraction > bounds[within] {
		within++
	}
	return (exponent-1-lowest)*perDoubling + within - 1
}

// add adds to the sum. Concurrent additions are so rare that it seldom needs a second try.
func (h *Histogram) add(v float64) {
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// Values are what a Histogram has counted. They belong to the caller.
type Values struct {
	Count uint64
	Sum   float64
	Zero  uint64 // values up to Threshold
	// Classes are the numbers of values in each class: the upper bound of class i is
	// Bound(i), and its lower bound that of the class before.
	Classes []uint64
}

// Bound returns the upper bound of a class.
func Bound(class int) float64 {
	return math.Exp2(float64(Index(class)) / perDoubling)
}

// Index returns the number that a class has in Prometheus' native histograms.
func Index(class int) int { return class + 1 + lowest*perDoubling }

// UpTo returns how many values are not greater than 2^power.
func (v *Values) UpTo(power int) uint64 {
	n := v.Zero
	for i, count := range v.Classes {
		if Index(i) > power*perDoubling {
			break
		}
		n += count
	}
	return n
}

// Snapshot returns the present values. Count is the sum of the others, which are not of one moment; an
// observation under way may be in Sum alone.
func (h *Histogram) Snapshot() Values {
	v := Values{Zero: h.zero.Load(), Classes: make([]uint64, classes), Sum: math.Float64frombits(h.sum.Load())}
	v.Count = v.Zero
	for i := range v.Classes {
		v.Classes[i] = h.classes[i].Load()
		v.Count += v.Classes[i]
	}
	return v
}
