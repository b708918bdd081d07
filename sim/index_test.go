package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// The index answers like a sorted list, whatever was put in and taken out.
func TestIndexAgainstSortedList(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var x index
	var naive []mail.Cursor
	for step := range 60000 {
		c := mail.Cursor{Due: mail.Instant(rng.IntN(300)), ID: mail.QueueID(rng.IntN(50) + 1)}
		i, found := slices.BinarySearchFunc(naive, c, compareCursors)
		switch {
		case rng.IntN(3) == 0 && found:
			x.remove(c)
			naive = slices.Delete(naive, i, i+1)
		case !found:
			x.insert(c)
			naive = slices.Insert(naive, i, c)
		default:
			x.remove(mail.Cursor{Due: c.Due, ID: 99}) // is not in it
		}
		if step%50 == 0 {
			compareFind(t, seed, &x, naive, rng)
		}
	}
	for _, c := range slices.Clone(naive) {
		x.remove(c)
	}
	if f := x.find(mail.Cursor{}, mail.Never, 10, nil); len(f.Cursors) != 0 || f.NextDue != mail.Never {
		t.Errorf("seed %d: the emptied index has %v", seed, f)
	}
}

func compareFind(t *testing.T, seed uint64, x *index, naive []mail.Cursor, rng *rand.Rand) {
	t.Helper()
	from := mail.Cursor{Due: mail.Instant(rng.IntN(310)), ID: mail.QueueID(rng.IntN(50))}
	latest, count := mail.Instant(rng.IntN(320)), 1+rng.IntN(700)
	want := mail.Found{Next: from, NextDue: mail.Never}
	for _, c := range naive {
		if c.Before(from) {
			continue
		}
		if c.Due > latest {
			want.NextDue = c.Due
			break
		}
		if len(want.Cursors) == count {
			want.More = true
			break
		}
		want.Cursors = append(want.Cursors, c)
		want.Next = mail.Cursor{Due: c.Due, ID: c.ID + 1}
	}
	got := x.find(from, latest, count, nil)
	if !slices.Equal(got.Cursors, want.Cursors) || got.Next != want.Next || got.More != want.More || got.NextDue != want.NextDue {
		t.Fatalf("seed %d: from %v to %v, %d of them: got %v, want %v", seed, from, latest, count, got, want)
	}
}

// What comes in order leaves full lists behind, or a million messages would
// take twice the memory.
func TestIndexInOrderIsDense(t *testing.T) {
	var x index
	const n = 100 * chunkMax
	for i := range n {
		x.insert(mail.Cursor{ID: mail.QueueID(i + 1)})
	}
	if len(x.chunks) != 100 {
		t.Errorf("%d messages are in %d lists, want 100", n, len(x.chunks))
	}
}
