package qmgr

import (
	"testing"
	"time"
)

// What deliveries have taken so far is their mean, in which a new one counts an eighth, and the
// latest. The credit for slots that wait is half a delivery for each slot when it is used first,
// one part in 250 of each delivery, and half a delivery for each slot at most.
func TestSpreadingLearns(t *testing.T) {
	var s spreading
	for i, end := range []struct {
		took   time.Duration
		busy   int
		mean   time.Duration
		credit time.Duration
		slots  int
	}{
		{1000 * time.Millisecond, 2, 1000 * time.Millisecond, 1000 * time.Millisecond, 2}, // two halves; 4 ms more are above the limit
		{1000 * time.Millisecond, 1, 1000 * time.Millisecond, 1000 * time.Millisecond, 2}, // fewer slots change nothing
		{200 * time.Millisecond, 2, 900 * time.Millisecond, 200 * time.Millisecond, 2},    // shorter ones cost less to spread
		{500 * time.Millisecond, 2, 850 * time.Millisecond, 202 * time.Millisecond, 2},
		{500 * time.Millisecond, 3, 806250 * time.Microsecond, 454 * time.Millisecond, 3}, // one slot more
	} {
		s.ended(end.took, end.busy)
		if s.latest != end.took || s.mean != end.mean || s.credit != end.credit || s.slots != end.slots {
			t.Errorf("delivery %d: %+v, want %+v", i, s, end)
		}
	}
}

// A pause is half of the mean distance of the ends of deliveries, that of the latest one if this
// was shorter: from 1 ms, below which there is none, to 50 ms.
func TestGap(t *testing.T) {
	for _, tc := range []struct {
		mean, latest time.Duration
		busy         int
		want         time.Duration
	}{
		{80 * time.Millisecond, 120 * time.Millisecond, 4, 10 * time.Millisecond},
		{120 * time.Millisecond, 80 * time.Millisecond, 4, 10 * time.Millisecond},
		{40 * time.Millisecond, 40 * time.Millisecond, 0, 20 * time.Millisecond},
		{40 * time.Millisecond, 40 * time.Millisecond, 20, time.Millisecond},
		{40 * time.Millisecond, 40 * time.Millisecond, 21, 0},
		{time.Hour, time.Hour, 20, 50 * time.Millisecond},
		{0, 0, 1, 0},
	} {
		s := spreading{mean: tc.mean, latest: tc.latest}
		if got := s.gap(tc.busy); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
