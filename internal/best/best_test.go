package best

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever the order in which values come, those that are kept are the first of all when
// they are sorted, and More says whether there are others.
func TestFirstOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := Of[int]{Most: r.IntN(6), Compare: cmp.Compare[int]}
		all := make([]int, r.IntN(100))
		for i := range all {
			all[i] = r.IntN(50)
			b.Add(all[i])
		}
		slices.Sort(all)
		want := all[:min(b.Most, len(all))]
		if got := b.Sorted(); !slices.Equal(got, want) || b.More() != (len(all) > b.Most) {
			t.Fatalf("of %v the first %d are %v, more: %t", all, b.Most, got, b.More())
		}
	}
}
