package rate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A bucket that was saved and restored decides like one that was not, except for limits
// that were not saved.
func TestSaved(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		limits := of(Limit{N: 3 + rng.IntN(20), Per: time.Hour}, Limit{N: 20 + rng.IntN(30), Per: 24 * time.Hour})
		short := Limit{N: 5, Per: time.Minute}
		now := mail.Instant(rng.Int64N(int64(1000 * time.Hour)))
		b, all := New(limits), New(of(append(limits.All(), short)...))
		for range 60 {
			now = now.Add(time.Duration(rng.Int64N(int64(time.Hour / 2))))
			n := 1 + rng.IntN(3)
			b.TakeMany(n, now)
			all.TakeMany(n, now)
		}
		now = now.Add(time.Duration(rng.Int64N(int64(20 * time.Hour))))
		saved := all.Save(time.Hour, now)
		restored := New(limits)
		restored.Restore(saved, now)
		if restored.Idle(now) != (len(saved) == 0) || b.Idle(now) != restored.Idle(now) {
			t.Fatalf("idle is %v, of the other %v, with %d saved", restored.Idle(now), b.Idle(now), len(saved))
		}
		for range 50 {
			if got, want := restored.Uses(now), b.Uses(now); !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			for n := range 30 {
				l, at := b.BindingFor(n, now)
				if l2, at2 := restored.BindingFor(n, now); l != l2 || at != at2 {
					t.Fatalf("%d are bound by %v until %v, want %v %v", n, l2, at2, l, at)
				}
			}
			now = now.Add(time.Duration(rng.Int64N(int64(time.Hour))))
		}
	}
	// A clock that was in the future cannot close a limit for longer than its time.
	b := New(of(Limit{N: 1, Per: time.Hour}))
	b.Take(mail.Instant(1000 * time.Hour))
	now := mail.Instant(10 * time.Hour)
	restored := New(of(Limit{N: 1, Per: time.Hour}))
	restored.Restore(b.Save(time.Hour, now), now)
	if ready, _ := restored.Ready(now); !ready {
		t.Error("it is closed by what the future has sent")
	}
}

// Several events go at once when all of them may, one by one, and never if the limit is
// less.
func TestManyAtOnce(t *testing.T) {
	b := New(of(Limit{N: 5, Per: time.Hour}, Limit{N: 8, Per: 24 * time.Hour}))
	now := mail.Instant(1000 * time.Hour)
	b.TakeMany(3, now)
	for n, want := range []bool{true, true, true, false} {
		l, until := b.BindingFor(n, now)
		if (until == now) != want || (l == Limit{}) != want {
			t.Errorf("%d may go at %v, bound by %v", n, until, l)
		}
	}
	if l, until := b.BindingFor(6, now); until != mail.Never || l.N != 5 {
		t.Errorf("6 may go at %v, bound by %v", until, l)
	}
	_, until := b.BindingFor(3, now)
	if l, at := b.BindingFor(3, until); at != until {
		t.Errorf("3 may not go when they may: %v", l)
	}
	if _, at := b.BindingFor(3, until-1); at != until {
		t.Error("3 may go earlier")
	}
}
