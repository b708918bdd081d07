package sim

import (
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets that are 1/64 of their size wide, so
// that every quantile is right to 1.6 percent whatever the number of values.
// Its zero value is empty.
type Histogram struct {
	counts []uint64
	total  uint64
	max    time.Duration
}

const (
	histogramBits = 6
	histogramSub  = 1 << histogramBits
)

// bucket returns the bucket of a value: values below 128 ns have one each, and
// each doubling above has 64.
func bucket(v uint64) int {
	if v < 2*histogramSub {
		return int(v)
	}
	e := bits.Len64(v) - histogramBits - 1
	return e<<histogramBits + int(v>>e)
}

// bucketEnd returns the largest value of a bucket.
func bucketEnd(b int) uint64 {
	if b < 2*histogramSub {
		return uint64(b)
	}
	e := b>>histogramBits - 1
	mantissa := uint64(b - e<<histogramBits)
	return (mantissa+1)<<e - 1
}

// Add counts a duration; negative ones count as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	b := bucket(uint64(d))
	if b >= len(h.counts) {
		h.counts = append(h.counts, make([]uint64, b+1-len(h.counts))...)
	}
	h.counts[b]++
	h.total++
	h.max = max(h.max, d)
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(o *Histogram) {
	if len(o.counts) > len(h.counts) {
		h.counts = append(h.counts, make([]uint64, len(o.counts)-len(h.counts))...)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// Count returns how many durations were counted.
func (h *Histogram) Count() uint64 { return h.total }

// Max returns the largest; 0 if there is none.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that a part of all of them does not exceed; p
// is from 0 to 1. 0 if there is none.
func (h *Histogram) Quantile(p float64) time.Duration {
	rank := uint64(p * float64(h.total))
	if float64(rank) < p*float64(h.total) || rank == 0 {
		rank++
	}
	var sum uint64
	for b, n := range h.counts {
		if sum += n; sum >= rank && n > 0 {
			return min(time.Duration(bucketEnd(b)), h.max)
		}
	}
	return h.max
}
