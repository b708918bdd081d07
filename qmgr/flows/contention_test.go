package flows

import (
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// How the room of a destination stands follows from how many claims have mail waiting, how
// much room there is, and how it stood.
func TestContention(t *testing.T) {
	const none, ample, scarce = contentionNone, contentionAmple, contentionScarce
	for _, tc := range []struct {
		was          contention
		claims, room int
		paced        bool
		want         contention
	}{
		{was: none, claims: 0, room: 3, want: none},
		{was: none, claims: 1, room: 0, want: none},                // all of it is one's
		{was: none, claims: 2, room: 2, want: ample},               // enough for each
		{was: none, claims: 2, room: 1, want: scarce},              // not enough
		{was: ample, claims: 3, room: 3, want: ample},              //
		{was: ample, claims: 3, room: 2, want: scarce},             //
		{was: ample, claims: 2, room: 9, paced: true, want: ample}, // time has not been scarce yet
		{was: ample, claims: 1, room: 0, want: none},
		{was: scarce, claims: 3, room: 5, want: scarce}, // until there is twice as much as is needed
		{was: scarce, claims: 3, room: 6, want: ample},
		{was: scarce, claims: 3, room: 6, paced: true, want: scarce}, // there is always too little time
		{was: scarce, claims: 1, room: 1, want: scarce},              // one that is left keeps the order
		{was: scarce, claims: 1, room: 2, want: none},
		{was: scarce, claims: 1, room: 2, paced: true, want: scarce},
		{was: scarce, claims: 0, room: 0, paced: true, want: none},
	} {
		d := &Destination{Outlet: &outlet{room: tc.room, paced: tc.paced}}
		d.contention = tc.was
		for range tc.claims {
			c := &Claim{}
			d.contenders.PushBack(&c.inContenders, c)
		}
		if got := d.nextContention(); got != tc.want {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
}

// What a destination must put off is taken from the claims with most waiting, evenly, and from
// each what waits last.
func TestNewest(t *testing.T) {
	for _, tc := range []struct {
		waiting []int
		n       int
		left    []int
	}{
		{[]int{0, 5, 3, 3}, 1, []int{0, 4, 3, 3}},
		{[]int{0, 5, 3, 3}, 2, []int{0, 3, 3, 3}},
		{[]int{0, 5, 3, 3}, 4, []int{0, 2, 2, 3}},
		{[]int{3, 0, 5, 3}, 5, []int{2, 0, 2, 2}},
		{[]int{1, 1, 1}, 2, []int{0, 0, 1}},
		{[]int{2}, 0, []int{2}},
	} {
		d := &Destination{}
		var ended []*sched.Entry
		links := make(map[*sched.Entry]*ilist.Link[sched.Entry])
		for _, n := range tc.waiting {
			c := &Claim{}
			d.claims.PushBack(&c.inQueue, c)
			for range n {
				e := &sched.Entry{}
				links[e] = &ilist.Link[sched.Entry]{}
				c.Todo.PushBack(links[e], e)
			}
			c.Waiting = n
		}
		for e := range d.Newest(tc.n) {
			ended = append(ended, e)
			for c := range d.claims.All() {
				if c.Todo.Back() == e {
					c.Todo.Remove(links[e])
					c.Waiting--
					break
				}
			}
		}
		var left []int
		for c := range d.claims.All() {
			left = append(left, c.Waiting)
		}
		if !slices.Equal(left, tc.left) || len(ended) != tc.n {
			t.Errorf("%v, of which %d: %v are left, want %v", tc.waiting, tc.n, left, tc.left)
		}
	}
	d := &Destination{}
	for range 2 {
		c := &Claim{}
		d.claims.PushBack(&c.inQueue, c)
		c.Waiting = 2
	}
	for range d.Newest(3) {
		break // nothing more is asked of it
	}
}
