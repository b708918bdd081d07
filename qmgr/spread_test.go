package qmgr

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/window"
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

// A pause costs a slot that is free the whole of it, and one that comes free meanwhile the
// rest of it. It is paid from the credit, or there is none.
func TestSpreadingCosts(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		what                string
		waiting, busy, room int
		pausing             time.Duration // the rest of a pause under way
		credit, left        time.Duration // before and after
		want                time.Duration // the rest of the pause
		spare               bool          // a delivery ends, instead of one that starts
	}{
		{what: "a start", waiting: 1, busy: 4, room: 5, credit: 100 * ms, left: 50 * ms, want: 10 * ms},
		{what: "a start for which there is just enough credit", waiting: 1, busy: 4, room: 5, credit: 50 * ms, want: 10 * ms},
		{what: "too little credit", waiting: 1, busy: 4, room: 5, credit: 49 * ms, left: 49 * ms},
		{what: "no slot is free", waiting: 1, busy: 4, credit: 3 * ms, left: 3 * ms, want: 10 * ms},
		{what: "too many deliveries", waiting: 1, busy: 400, room: 5, credit: 100 * ms, left: 100 * ms},
		{what: "nothing else waits", busy: 4, room: 5, credit: 100 * ms, left: 100 * ms},
		{what: "a pause is under way", waiting: 1, busy: 4, room: 5, pausing: 3 * ms, credit: 100 * ms, left: 100 * ms, want: 3 * ms},
		{what: "a slot comes free", busy: 4, spare: true, pausing: 8 * ms, credit: 20 * ms, left: 12 * ms, want: 8 * ms},
		{what: "a slot comes free, just enough credit", busy: 4, spare: true, pausing: 8 * ms, credit: 8 * ms, want: 8 * ms},
		{what: "a slot comes free, too little credit", busy: 4, spare: true, pausing: 8 * ms, credit: 7 * ms, left: -1 * ms},
		{what: "a slot comes free without a pause", busy: 4, spare: true, credit: 7 * ms, left: 7 * ms},
	} {
		q, err := New(Config{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		q.now = 1e18
		d := newQueue(q.transport("smtp"), "a.test", "a.test", nil, "")
		cfg := window.Config{Initial: tc.busy + tc.room, Limit: tc.busy + tc.room}.WithDefaults()
		d.window = window.New(&cfg)
		d.Waiting, d.Busy = tc.waiting, tc.busy
		s := &d.spreading
		s.mean, s.latest, s.credit = 80*ms, 80*ms, tc.credit
		if s.pausing = tc.pausing > 0; s.pausing {
			q.arm(&s.pause, q.now.Add(tc.pausing))
		}
		if tc.spare {
			q.spare(d)
		} else {
			q.spread(d)
		}
		if s.credit != tc.left || s.pausing != (tc.want > 0) || s.pausing != s.pause.slot.Heaped() {
			t.Errorf("%s: credit %v, pausing %t; want %v, %v", tc.what, s.credit, s.pausing, tc.left, tc.want)
		}
		if rest := s.pause.at.Sub(q.now); s.pausing && rest != tc.want {
			t.Errorf("%s: a pause of %v, want %v", tc.what, rest, tc.want)
		}
	}
}

// Room that is there may still be scarce: starts of a destination are limited by time where it has a rate, or
// where starts are spread.
func TestPaced(t *testing.T) {
	d := &queue{}
	if d.Paced() {
		t.Error("a destination without limits is paced")
	}
	d.spreading.mean, d.spreading.latest = time.Second, time.Second
	if !d.Paced() {
		t.Error("starts are spread")
	}
	limits, err := rate.Parse("1/1s")
	if err != nil {
		t.Fatal(err)
	}
	d = &queue{}
	d.rate.Configure(limits, 0)
	if !d.Paced() {
		t.Error("there is a rate")
	}
}
