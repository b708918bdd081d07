package rate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Of several limits the one that lets the next go last is binding; none is while one may
// go.
func TestBinding(t *testing.T) {
	second, minute, hour := Limit{N: 2, Per: time.Second}, Limit{N: 3, Per: time.Minute}, Limit{N: 4, Per: time.Hour}
	b := New(of(second, minute, hour))
	now := mail.Instant(100 * time.Hour)
	for i, want := range []Limit{{}, {}, second, minute, hour} {
		l, until := b.Binding(now)
		ready, at := b.Ready(now)
		if l != want || until != at || ready != (want == Limit{}) {
			t.Errorf("after %d: %v binds until %v; ready %v at %v; want %v", i, l, until, ready, at, want)
		}
		switch want {
		case second:
			now = now.Add(2 * time.Second)
		case minute:
			now = now.Add(2 * time.Minute)
		}
		b.Take(now)
	}
}

// As many limits as there may be are taken, and all digits.
func TestMostLimits(t *testing.T) {
	var list []Limit
	for i := range listMax {
		list = append(list, Limit{N: 90 + i, Per: time.Duration(i+1) * time.Minute})
	}
	limits, err := Of(list...)
	if err != nil || !slices.Equal(limits.All(), list) {
		t.Errorf("%v: %v", limits, err)
	}
	if back, err := Parse(limits.String()); err != nil || back != limits {
		t.Errorf("%v is read back as %v: %v", limits, back, err)
	}
	if _, err := Of(append(list, Limit{N: 1, Per: time.Hour})...); err == nil {
		t.Errorf("%d limits are taken", listMax+1)
	}
	for n := range 10 {
		text := fmt.Sprintf("1%d/s", n)
		if limits, err := Parse(text); err != nil || limits.String() != text {
			t.Errorf("%s is read as %v: %v", text, limits, err)
		}
	}
}

// What a new limit takes over is counted by the old limit that says most of it: the one
// for the same time exactly, else the shortest that is longer, else the longest.
func TestTakenOver(t *testing.T) {
	per := func(minutes int) time.Duration { return time.Duration(minutes) * time.Minute }
	for _, c := range []struct {
		old  []int // their times in minutes
		new  int
		best int
	}{
		{[]int{1, 10, 100}, 10, 10},
		{[]int{1, 10, 100}, 5, 10},
		{[]int{1, 10, 100}, 50, 100},
		{[]int{1, 10, 100}, 1000, 100},
		{[]int{10}, 5, 10},
		{[]int{10}, 50, 10},
	} {
		now := mail.Instant(1000 * time.Hour)
		var limits []Limit
		for _, m := range c.old {
			limits = append(limits, Limit{N: 1000, Per: per(m)})
		}
		b := New(of(limits...))
		for i := range b.windows { // each knows a number of its own
			b.windows[i].take(now, uint32(c.old[i]))
		}
		b.Configure(of(Limit{N: 1000, Per: per(c.new)}), now)
		if uses := b.Uses(now); uses[0].Used != c.best {
			t.Errorf("from limits for %v minutes one for %d takes over %d, want %d", c.old, c.new, uses[0].Used, c.best)
		}
	}

	// One that stays goes on slice by slice, although its number changes: what went first is
	// forgotten when it would have been.
	now := mail.Instant(1000 * time.Hour)
	b, same := New(of(Limit{N: 5, Per: time.Hour})), New(of(Limit{N: 5, Per: time.Hour}))
	for range 5 {
		b.Take(now)
		same.Take(now)
		now = now.Add(7 * time.Minute)
	}
	b.Configure(of(Limit{N: 4, Per: time.Hour}), now)
	b.Configure(of(Limit{N: 5, Per: time.Hour}), now)
	for ; same.Uses(now)[0].Used > 0; now = now.Add(time.Minute) {
		if got, want := b.Uses(now)[0].Used, same.Uses(now)[0].Used; got != want {
			t.Errorf("at %v: %d used, want %d", now, got, want)
		}
		_, at := b.Ready(now)
		if _, want := same.Ready(now); at != want {
			t.Errorf("at %v: ready at %v, want %v", now, at, want)
		}
	}
}

// What a longer limit has counted counts in a shorter one as if it had gone at the end of
// its slice: neither sooner nor later.
func TestTakenOverAtTheEndOfSlices(t *testing.T) {
	slice := parts * time.Minute // of the old limit
	begin := mail.Instant(parts * 1000 * int64(slice))
	b := New(of(Limit{N: 10, Per: parts * slice}))
	b.Take(begin)
	now := begin.Add(2 * slice)
	b.Configure(of(Limit{N: 1, Per: parts * time.Minute}), now)
	// It went in the last of the minutes of its slice, and counts for sixteen more.
	if _, at := b.Ready(begin.Add(slice)); at != begin.Add(slice+parts*time.Minute) {
		t.Errorf("ready %v after the slice began, want %v", at.Sub(begin), slice+parts*time.Minute)
	}
}
