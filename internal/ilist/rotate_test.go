package ilist_test

import (
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// Round robin turns the list after every choice: the cyclic order must never
// change, and a slice that is cut and joined is the expected result.
func TestRotateAfter(t *testing.T) {
	type node struct {
		name int
		link ilist.Link[node]
	}
	for n := 1; n <= 5; n++ {
		for at := 0; at < n; at++ {
			var l ilist.List[node]
			nodes := make([]node, n)
			var want []int
			for i := range nodes {
				nodes[i].name = i
				l.PushBack(&nodes[i].link, &nodes[i])
				want = append(want, (at+1+i)%n)
			}
			l.RotateAfter(&nodes[at].link)
			l.Check()
			var got []int
			for e := range l.All() {
				got = append(got, e.name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d elements, rotated after %d: %v, want %v", n, at, got, want)
			}
		}
	}
}
