package source

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// order is a rotation as text.
func (r *rotation) order() string {
	var text strings.Builder
	for _, i := range r.slots {
		text.WriteByte('a' + byte(i))
	}
	return text.String()
}

func TestRotation(t *testing.T) {
	for _, c := range []struct {
		weights []int
		want    string
	}{
		{[]int{1}, "a"},
		{[]int{7}, "a"},
		{[]int{1, 1, 1}, "abc"},
		{[]int{500, 500}, "ab"},
		{[]int{3, 1}, "aaba"},
		{[]int{30, 10}, "aaba"},
		{[]int{1, 3}, "babb"},
		{[]int{2, 1, 1}, "abca"},
		{[]int{5, 2}, "abaaaba"},
	} {
		if got := newRotation(poolOf(c.weights...).Members).order(); got != c.want {
			t.Errorf("weights %v: %s, want %s", c.weights, got, c.want)
		}
	}
}

// A pick asks about the source whose turn it is, and about no other if that can be used.
func TestPickAsksNoMoreThanItMust(t *testing.T) {
	p := poolOf(slices.Repeat([]int{1}, 100)...)
	var turns Turns
	for pick := range 300 {
		asked := 0
		turns.Next(p, "smtp", fmt.Sprint(pick%3), 0, func(int) bool { asked++; return true })
		if asked != 1 {
			t.Fatalf("pick %d asks about %d sources", pick, asked)
		}
	}
}

// The largest pool that there may be has a rotation of bounded length.
func TestRotationIsBounded(t *testing.T) {
	if golden.Runs(0) == 0 {
		t.Skip("it sorts a million turns: set POSTHASTE_RUNS")
	}
	weights := slices.Repeat([]int{WeightMax}, MembersMax)
	weights[0]-- // or all have a common divisor
	if n := len(newRotation(poolOf(weights...).Members).slots); n != MembersMax*WeightMax-1 {
		t.Errorf("%d turns", n)
	}
}

// A reload adds and removes sources and changes weights. At each destination it is the turn
// of the source whose turn it was, or of the next one that remains; and what comes behind it
// are the proportions of the new weights.
func TestTurnsAfterReload(t *testing.T) {
	for run := range golden.Runs(200) {
		r := rand.New(rand.NewPCG(uint64(run), 3))
		draw := func() (p Pool) {
			p.Name = "p"
			for _, i := range r.Perm(6)[:1+r.IntN(5)] {
				p.Members = append(p.Members, Member{Source: fmt.Sprint("s", i), Weight: 1 + r.IntN(4)})
			}
			return p
		}
		before, after := draw(), draw()
		var turns Turns
		var names []string
		for i := range 1 + r.IntN(10) {
			names = append(names, fmt.Sprint("d", i))
			for range 1 + r.IntN(10) {
				turns.Next(&before, "smtp", names[i], 0, all)
			}
		}
		remains := func(member int) bool {
			return slices.ContainsFunc(after.Members, func(m Member) bool { return m.Source == before.Members[member].Source })
		}
		// What would be next, of those that remain. It is asked of a copy of the destination.
		var want []string
		for _, name := range names {
			next := turns.of[place{"p", "smtp", name}].next
			source := after.Members[turns.rotationOf(&after).slots[0]].Source
			if i, ok := turns.pools["p"].pick(&next, remains); ok {
				source = before.Members[i].Source
			}
			want = append(want, source)
		}
		turns.Configure([]Pool{after, {Name: "other", Members: after.Members}})
		for i, name := range names {
			got := make(map[string]int)
			sum := 0
			for _, m := range after.Members {
				sum += m.Weight
			}
			for pick := range sum {
				member, _ := turns.Next(&after, "smtp", name, 0, all)
				s := after.Members[member].Source
				if got[s]++; pick == 0 && s != want[i] {
					t.Fatalf("run %d: %v becomes %v: the first turn at %s is that of %s, want %s", run, before.Members, after.Members, name, s, want[i])
				}
			}
			for _, m := range after.Members {
				if got[m.Source] != m.Weight {
					t.Fatalf("run %d: %v becomes %v: %s got %v", run, before.Members, after.Members, name, got)
				}
			}
		}
	}
}

// rotationOf is the rotation that a pool would have.
func (*Turns) rotationOf(p *Pool) *rotation { return newRotation(p.Members) }

// Without Configure's care each reload would begin with the first source again: a source
// behind it would get nothing at destinations with fewer messages than reloads. A message of
// which a recipient was bound before the reload stays with its source.
func TestReloadsDoNotFavorTheFirstSource(t *testing.T) {
	p := *poolOf(1, 1, 1)
	var turns Turns
	got := make([]int, 3)
	for reload := range 30 {
		i, _ := turns.Next(&p, "smtp", "d", 0, all)
		got[i]++
		weights := []int{1, 1, 1, 1 + reload%2}
		p = *poolOf(weights[:3+reload%2]...) // a source comes and goes
		turns.Configure([]Pool{p})
	}
	if slices.Min(got[:3]) < 9 {
		t.Errorf("of 30 picks with a reload behind each: %v", got)
	}
	one, _ := turns.Next(&p, "smtp", "d", 7, all)
	turns.Configure([]Pool{p})
	if again, _ := turns.Next(&p, "smtp", "d", 7, all); again != one {
		t.Error("the recipients of one message leave from different sources after a reload")
	}
	p.Members = slices.Delete(slices.Clone(p.Members), one, one+1)
	turns.Configure([]Pool{p})
	if _, ok := turns.Last(&p, "smtp", "d", 7); ok {
		t.Error("a message has got a source that was removed")
	}
	turns.Configure(nil)
	if len(turns.of) != 0 || turns.recent.Len() != 0 || len(turns.pools) != 0 {
		t.Error("pools that were removed have turns")
	}
}
