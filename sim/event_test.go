package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Events happen in the order of their instants, those of one instant in the
// order in which they were set, whatever was cancelled in between: as in a list
// that is kept sorted.
func TestCalendarAgainstSortedList(t *testing.T) {
	type entry struct {
		at mail.Instant
		e  *event
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var c calendar
	var list []entry
	for step := range 100000 {
		switch n := rng.IntN(5); {
		case n < 2 || len(list) == 0:
			e := &event{}
			at := mail.Instant(rng.IntN(1000))
			c.push(e, at)
			i, _ := slices.BinarySearchFunc(list, at+1, func(x entry, at mail.Instant) int { return int(x.at - at) })
			list = slices.Insert(list, i, entry{at, e})
		case n == 2:
			i := rng.IntN(len(list))
			c.remove(list[i].e)
			list = slices.Delete(list, i, i+1)
		case n == 3 || step%7 == 0:
			at, found := c.next()
			if e := c.pop(); !found || at != list[0].at || e != list[0].e {
				t.Fatalf("seed %d, step %d: the next event is at %v, want %v", seed, step, at, list[0].at)
			}
			list = list[1:]
		}
		for _, x := range list[:min(3, len(list))] {
			if !x.e.waits() {
				t.Fatalf("seed %d, step %d: an event does not know that it waits", seed, step)
			}
		}
	}
	for range list {
		if c.pop().waits() {
			t.Fatalf("seed %d: an event that has happened waits", seed)
		}
	}
	if _, found := c.next(); found {
		t.Errorf("seed %d: the calendar is not empty", seed)
	}
}
