package timers

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Timers are due at their time, and among equals in the order in which they were set last, whatever was set anew or stopped.
func TestAgainstList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var ts Timers[int]
	type running struct{ of, set int }
	all := make([]Timer[int], 20)
	want := map[int]running{}
	for i := range all {
		all[i].Of = i
	}
	now, due := mail.Instant(1000), 0
	for step := range 20_000 {
		i := r.IntN(len(all))
		at := now + mail.Instant(1+r.IntN(5))
		switch _, is := want[i]; {
		case r.IntN(4) == 0:
			ts.Stop(&all[i])
			delete(want, i)
		case !is && r.IntN(2) == 0:
			ts.Start(&all[i], at)
			want[i] = running{i, step}
		default:
			ts.Set(&all[i], at)
			want[i] = running{i, step}
		}
		now += mail.Instant(r.IntN(2))
		var list []running
		next := mail.Never
		for i, w := range want {
			if all[i].At() <= now {
				list = append(list, w)
				delete(want, i)
			} else {
				next = min(next, all[i].At())
			}
		}
		slices.SortFunc(list, func(a, b running) int { return cmp.Or(cmp.Compare(all[a.of].At(), all[b.of].At()), a.set-b.set) })
		for _, w := range list {
			if got := ts.Due(now); got == nil || got.Of != w.of || got.Running() {
				t.Fatalf("step %d: %v is due, want %d", step, got, w.of)
			}
			due++
		}
		if got := ts.Due(now); got != nil || ts.Next() != next || ts.Len() != len(want) {
			t.Fatalf("step %d: %v is due, the next at %v, want none, and %v", step, got, ts.Next(), next)
		}
		ts.Check()
	}
	if due == 0 {
		t.Error("nothing was ever due")
	}
}

// A timer that runs is not started again by mistake.
func TestStartTwice(t *testing.T) {
	var ts Timers[int]
	var one Timer[int]
	ts.Start(&one, 5)
	defer func() {
		if recover() == nil {
			t.Error("it was started twice")
		}
	}()
	ts.Start(&one, 6)
}
