package qmgr_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// volley admits one message with n recipients of one destination whose window
// is 20 and whose transactions take 50, and returns the sizes of the deliveries
// that start at once.
func volley(t *testing.T, n int) (w *qmgrtest.World, sizes []int) {
	t.Helper()
	cfg := qmgr.Config{}
	cfg.DefaultTransport.Window.Initial = 20
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	rcpts := make([]mail.Recipient, n)
	for i := range rcpts {
		rcpts[i].Address = mail.Address(fmt.Sprintf("u%d@d.test", i))
	}
	w.Arrive("s@x.test", rcpts)
	return w, settle(w)
}

// settle answers everything but deliveries and returns the sizes of those that
// are under way.
func settle(w *qmgrtest.World) []int {
	for i := 0; i < len(w.Outstanding); {
		if _, ok := w.Outstanding[i].(qmgr.Deliver); ok {
			i++
			continue
		}
		w.Answer(w.Take(i))
		i = 0
	}
	var sizes []int
	for _, a := range w.Outstanding {
		sizes = append(sizes, len(a.(qmgr.Deliver).Delivery.Recipients))
	}
	return sizes
}

// A bulk message fills all slots of its destination at once. If all its first
// deliveries were of one size they would end together, again and again, and
// small mail would wait for that moment.
func TestVolleyIsStaggered(t *testing.T) {
	w, sizes := volley(t, 5000)
	if len(sizes) != 20 {
		t.Fatalf("%d deliveries start, want 20: %v", len(sizes), sizes)
	}
	slices.Sort(sizes)
	if different := len(slices.Compact(slices.Clone(sizes))); different < 10 || sizes[19] != 50 {
		t.Errorf("the first volley has sizes %v, want many different ones up to 50", sizes)
	}
	// What follows has its full size, but for what was left of the last cut.
	full := 0
	for range 10 {
		w.Deliver(w.Take(0).(qmgr.Deliver), qmgrtest.Accepted)
		if after := settle(w); after[len(after)-1] == 50 {
			full++
		}
	}
	if full < 9 {
		t.Errorf("of the ten deliveries that follow %d have 50 recipients, want 9 or 10", full)
	}
	if len(w.Violations) > 0 {
		t.Error(w.Violations)
	}
}

// What fits into the slots at once is not cut: nothing waits for it.
func TestSmallMailIsNotStaggered(t *testing.T) {
	if _, sizes := volley(t, 100); !slices.Equal(sizes, []int{50, 50}) {
		t.Errorf("sizes %v, want two of 50", sizes)
	}
}
