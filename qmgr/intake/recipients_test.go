package intake

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// However messages take and give back recipients, and read others meanwhile, what is
// counted is the sum over them; what one may have is its own part, and of the surplus
// what no other has; so all that is in core stays within the bound. A bound that is
// lowered takes nothing back, and lets no message have more until it is kept again.
func TestBoundOfRecipients(t *testing.T) {
	const own, active = 3, 5
	lowered := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var r Recipients
		pools, limit, granted := rng.IntN(12), rng.IntN(40), 0
		most := func() int { return max(pools, limit-own*active) }
		r.SetBound(pools, limit, own*active)
		messages := make([]*sched.Message, active)
		for i := range messages {
			messages[i] = &sched.Message{ID: mail.QueueID(i + 1), Own: own}
		}
		beyond := func(skip *sched.Message) (n int) {
			for _, m := range messages {
				if m != skip {
					n += max(m.InCore+m.Reserved-own, 0)
				}
			}
			return n
		}
		for step := range 100 {
			m := messages[rng.IntN(active)]
			may := r.MayHave(m)
			if want := own + max(most()-beyond(m), 0); may != want {
				t.Fatalf("seed %d, step %d: a message may have %d recipients, want %d", seed, step, may, want)
			}
			switch {
			case rng.IntN(20) == 0:
				pools, limit = rng.IntN(12), rng.IntN(40)
				granted = beyond(nil)
				r.SetBound(pools, limit, own*active)
				if granted > most() {
					lowered++
				}
			case m.Reserved > 0: // the answer comes, with fewer or as many
				n := rng.IntN(m.Reserved + 1)
				r.Reserve(m, 0)
				r.Hold(m, n)
			case rng.IntN(3) == 0:
				r.Hold(m, -rng.IntN(m.InCore+1))
			case may > m.InCore:
				r.Reserve(m, 1+rng.IntN(may-m.InCore))
			}
			sum, all := 0, 0
			for _, m := range messages {
				sum += m.InCore
				all += m.InCore + m.Reserved
			}
			if r.InCore() != sum || r.Over() != 0 {
				t.Fatalf("seed %d, step %d: %d recipients in core, %d too many, want %d and none", seed, step, r.InCore(), r.Over(), sum)
			}
			if want := max(own*active+pools, limit); r.Bound() != want || granted <= most() && all > want {
				t.Fatalf("seed %d, step %d: %d recipients are in core or being read, the bound is %d, want %d", seed, step, all, r.Bound(), want)
			}
			r.Check(slices.Values(messages))
		}
	}
	if lowered < 100 {
		t.Errorf("the bound was lowered below what was in use %d times only", lowered)
	}
}

// With Config.AsPostfix it is not asked what a message may have: then it can be seen by how
// much the bound is exceeded.
func TestOver(t *testing.T) {
	var r Recipients
	r.SetBound(4, 0, 10)
	m := &sched.Message{Own: 10}
	for _, c := range []struct{ hold, over int }{{14, 0}, {3, 3}, {-1, 2}, {-2, 0}} {
		if r.Hold(m, c.hold); r.Over() != c.over {
			t.Errorf("%d recipients are in core, %d of them too many, want %d", m.InCore, r.Over(), c.over)
		}
	}
	r.Hold(m, 3)
	r.SetBound(0, 0, 10)
	if r.Over() != 0 {
		t.Errorf("%d of what was in use are too many, want none", r.Over())
	}
	r.Hold(m, 1)
	if r.Over() != 1 {
		t.Errorf("%d are too many, want 1", r.Over())
	}
}

func TestMisuseOfRecipients(t *testing.T) {
	var r Recipients
	m := &sched.Message{Own: 10}
	mustPanic(t, "fewer recipients than none", func() { r.Hold(m, -1) })
	mustPanic(t, "a read of fewer than none", func() { r.Reserve(m, -1) })
	other := &sched.Message{Own: 1, InCore: 2}
	mustPanic(t, "a recipient that was not counted", func() { r.Check(slices.Values([]*sched.Message{other})) })
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}
