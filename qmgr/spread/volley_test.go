package spread

import (
	"fmt"
	"testing"
)

// Of a volley of five the first two are whole, and then each carries a fifth more than the one before, in turns as long as the window is
// wide. When a delivery has ended, entries are whole again.
func TestVolley(t *testing.T) {
	var v Volley
	var kept []int
	for range 9 {
		kept = append(kept, v.Start(50, 50, 5, 6))
	}
	if want := "[50 50 20 30 40 50 10 20 30]"; fmt.Sprint(kept) != want {
		t.Errorf("kept are %v, want %s", kept, want)
	}
	if v.Ended(); v.Start(50, 50, 5, 6) != 50 {
		t.Error("an entry is cut after the volley")
	}
}

// Entries stay whole where nothing more waits than the window takes, where transactions are small, and where they have fewer recipients than
// their part. Without a limit the entry is the measure.
func TestVolleyKeepsWhole(t *testing.T) {
	for _, c := range []struct{ n, full, width, waiting, want int }{
		{50, 50, 5, 5, 50}, {9, 9, 5, 6, 9}, {15, 50, 5, 6, 15}, {100, 0, 5, 6, 40}, {50, 50, 2, 6, 50}, {30, 10, 100, 101, 1},
	} {
		v := Volley(2)
		if got := v.Start(c.n, c.full, c.width, c.waiting); got != c.want {
			t.Errorf("%+v: %d are kept", c, got)
		}
	}
}
