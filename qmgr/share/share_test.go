package share_test

import (
	"testing"

	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// settle assigns total workers to messages in rounds, in each to the first message
// in order that may take one, until none may, and returns the number that each
// holds.
func settle(total, limit, scale int, held []int) []int {
	free := total
	for _, n := range held {
		free -= n
	}
	for grown := true; grown && free > 0; {
		grown = false
		for i := range held {
			if share.Allowed(held[i], limit, scale, free) {
				held[i]++
				free--
				grown = true
				break
			}
		}
	}
	return held
}

// The figures that Finch gives for a factor of ten: one message gets about 91 % of
// an otherwise idle system, and two messages 47 % each.
//
// If the first in order is served first, the first of two keeps its 91 % until its
// workers end; so equal parts are reached by letting workers end.
func TestSharesOfTheArticle(t *testing.T) {
	const total = 1100
	if got := settle(total, 20, 10, []int{0})[0]; got != 1000 {
		t.Errorf("one message holds %d of %d workers, want 1000: 10/11, 91 %%", got, total)
	}

	held := settle(total, 20, 10, []int{0, 0})
	if held[0] != 1000 || held[1] != 91 {
		t.Errorf("a second message beside one that came first: %v, want [1000 91]", held)
	}
	for range 100 * total { // workers end, those of the larger message first, as it has the most
		larger := 0
		if held[1] > held[0] {
			larger = 1
		}
		held[larger]--
		held = settle(total, 20, 10, []int{held[1-larger], held[larger]})
		if larger == 0 {
			held[0], held[1] = held[1], held[0]
		}
	}
	for i, n := range held {
		if part := float64(n) / total; part < 0.47 || part > 0.48 {
			t.Errorf("message %d of two holds %d of %d workers, %.1f %%, want 10/21, 47.6 %%", i, n, total, 100*part)
		}
	}
}

// Each part of the rule separately, on both sides of its boundary.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		why                             string
		concurrency, limit, scale, free int
		want                            bool
	}{
		{"below the limit, nothing free", 19, 20, 10, 0, true},
		{"at the limit, nothing free", 20, 20, 10, 0, false},
		{"at the limit, two free", 20, 20, 10, 2, false},
		{"at the limit, three free", 20, 20, 10, 3, true},
		{"at ten times what is free", 1000, 20, 10, 100, false},
		{"just below ten times what is free", 999, 20, 10, 100, true},
		{"scale 0 makes the limit a hard one", 10, 10, 0, 1000, false},
		{"scale 0, below the limit", 9, 10, 0, 0, true},
		{"nothing is allowed with neither", 0, 0, 0, 1000, false},
		{"no limit, scale alone", 9, 0, 10, 1, true},
	} {
		if got := share.Allowed(c.concurrency, c.limit, c.scale, c.free); got != c.want {
			t.Errorf("%s: Allowed(%d, %d, %d, %d) = %v", c.why, c.concurrency, c.limit, c.scale, c.free, got)
		}
	}
}
