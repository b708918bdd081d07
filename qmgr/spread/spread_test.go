package spread

import (
	"testing"
	"time"
)

// What deliveries have taken so far is their mean, in which a new one counts an eighth, and the
// latest. The credit for slots that wait is half a delivery for each slot when it is used first,
// one part in 250 of each delivery, and half a delivery for each slot at most.
func TestSpreadingLearns(t *testing.T) {
	var s Spreading
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
		s.Ended(end.took, end.busy)
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
		s := Spreading{mean: tc.mean, latest: tc.latest}
		if got := s.Gap(tc.busy); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// A pause costs a slot that is free the whole of it, and one that comes free meanwhile the
// rest of it. It is paid from the credit, or there is none.
func TestSpreadingCosts(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		what         string
		busy, room   int
		pausing      time.Duration // the rest of a pause under way
		credit, left time.Duration // before and after
		want         time.Duration // the rest of the pause
		spare        bool          // a delivery ends, instead of one that starts
	}{
		{what: "a start", busy: 4, room: 5, credit: 100 * ms, left: 50 * ms, want: 10 * ms},
		{what: "a start for which there is just enough credit", busy: 4, room: 5, credit: 50 * ms, want: 10 * ms},
		{what: "too little credit", busy: 4, room: 5, credit: 49 * ms, left: 49 * ms},
		{what: "no slot is free", busy: 4, credit: 3 * ms, left: 3 * ms, want: 10 * ms},
		{what: "too many deliveries", busy: 400, room: 5, credit: 100 * ms, left: 100 * ms},
		{what: "a pause is under way", busy: 4, room: 5, pausing: 3 * ms, credit: 100 * ms, left: 100 * ms, want: 3 * ms},
		{what: "a slot comes free", busy: 4, spare: true, pausing: 8 * ms, credit: 20 * ms, left: 12 * ms, want: 8 * ms},
		{what: "a slot comes free, just enough credit", busy: 4, spare: true, pausing: 8 * ms, credit: 8 * ms, want: 8 * ms},
		{what: "a slot comes free, too little credit", busy: 4, spare: true, pausing: 8 * ms, credit: 7 * ms, left: -1 * ms},
	} {
		s := Spreading{mean: 80 * ms, latest: 80 * ms, credit: tc.credit, pausing: tc.pausing > 0}
		rest := tc.pausing
		switch {
		case !tc.spare:
			if gap := s.Begin(tc.busy, tc.room); gap > 0 {
				rest = gap
			}
		case !s.Spare(rest):
			s.Over()
		}
		if s.credit != tc.left || s.Pausing() != (tc.want > 0) || s.Pausing() && rest != tc.want {
			t.Errorf("%s: credit %v, a pause of %v: %t; want %v, %v", tc.what, s.credit, rest, s.Pausing(), tc.left, tc.want)
		}
	}
}
