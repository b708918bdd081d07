package orders

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

const now = mail.Instant(1e18)

var (
	deferred = mail.Place{Area: mail.AreaDeferred, Due: now}
	held     = mail.Place{Area: mail.AreaHold}
)

// What is ordered while a change is under way happens after it, and the last order counts: hold and drop make void what was to
// happen before them, a release leaves mail where it can be tried.
func TestWishes(t *testing.T) {
	for _, c := range []struct {
		name  string
		given []Order
		want  Wish
	}{
		{"a retry after a release", []Order{Release, Retry}, Wish{Order: Release, Retry: true}},
		{"a release after a retry", []Order{Retry, Release}, Wish{Order: Release, Retry: true}},
		{"a hold after a retry", []Order{Retry, Hold}, Wish{Order: Hold}},
		{"a drop after a hold and a retry", []Order{Hold, Retry, Drop}, Wish{Order: Drop}},
	} {
		b := New()
		b.Begin(1, Wish{})
		for _, o := range c.given {
			if !b.Then(1, func(w *Wish) { w.Add(o, "") }) {
				t.Fatalf("%s: no change is under way", c.name)
			}
		}
		if e := b.Moved(1, deferred); e != EndOrdered || b.Moving(1) || !b.Idle() {
			t.Errorf("%s: the change ends as %d", c.name, e)
		}
		if b.Wishes() != 1 {
			t.Fatalf("%s: %d wishes", c.name, b.Wishes())
		}
		if id, w := b.Next(); id != 1 || w.Order != c.want.Order || w.Retry != c.want.Retry {
			t.Errorf("%s: %+v", c.name, w)
		}
		b.Check(0)
	}
}

// A wish for some recipients outlives a release, is lost with a hold, and is for mail that is tried where it rests. What is in no area
// any more has no wishes.
func TestChosen(t *testing.T) {
	w := Wish{}
	w.Choose(sorted([]uint32{3, 1}))
	w.Choose(sorted([]uint32{2, 3}))
	if w.Add(Release, ""); !slices.Equal(w.Chosen, []uint32{1, 2, 3}) || !w.Chosen.Has(2) || w.Chosen.Has(4) {
		t.Errorf("chosen are %v", w.Chosen)
	}
	other := w
	if other.Add(Hold, ""); other.Chosen != nil {
		t.Errorf("of held mail %v are tried", other.Chosen)
	}
	b := New()
	b.Wish(1, held, Wish{Chosen: w.Chosen})
	b.Begin(2, w)
	b.Moved(2, mail.Place{})
	if b.Wishes() != 0 {
		t.Error("recipients are tried where mail is not, or which are gone")
	}
	b.Wish(1, deferred, Wish{Chosen: w.Chosen})
	if b.Wishes() != 1 {
		t.Error("recipients are not tried")
	}
	first, again := b.Choose(1, w.Chosen, now), b.Choose(1, Indexes{7}, now.Add(time.Second))
	if some, asked := b.TakeChosen(1); first || !again || !slices.Equal(some, []uint32{1, 2, 3, 7}) || asked != now.Add(time.Second) {
		t.Error("what is named is mixed up")
	}
}

// Some recipients are given up after a change is durable, all that were ordered, and nothing of it is lost.
func TestSettling(t *testing.T) {
	var s Settling
	if !s.Empty() || s.Owes() {
		t.Error("nothing is something")
	}
	s.Add(Settling{Outcomes: []mail.Outcome{{Index: 1, Result: mail.Failed}}, Reroutes: []mail.Reroute{{Recipients: []uint32{5, 4}}}})
	s.Add(Settling{Outcomes: []mail.Outcome{{Index: 2, At: now, Report: mail.ReportFailed}}, Splits: []mail.Split{{Into: 9}}, Last: true})
	if s.Empty() || !s.Owes() || !s.Last || len(s.Splits) != 1 || !slices.Equal(s.Rerouted(), []uint32{4, 5}) {
		t.Errorf("%+v", s)
	}
	if dated := s.Dated(now.Add(time.Hour)); dated[0].At != now.Add(time.Hour) || dated[1].At != now || s.Outcomes[0].At != 0 {
		t.Errorf("dated: %+v", dated)
	}
}

// Held mail is looked for an hour after the start, or when it is due. Few removals are under way at once, and each is distinguished from
// what operators have done meanwhile.
func TestLapses(t *testing.T) {
	b := New()
	if b.LookHeld(false, now) || b.LookHeld(false, now.Add(59*time.Minute)) || !b.LookHeld(false, now.Add(time.Hour)) || b.LookHeld(false, now.Add(9*time.Hour)) {
		t.Error("the first look is an hour after the start, and the only one")
	}
	if !b.LookHeld(true, now.Add(9*time.Hour)) {
		t.Error("there is no search when something is due")
	}
	for id := mail.QueueID(1); b.MayLapse(); id++ {
		b.Lapse(id)
	}
	if b.lapsing != lapsingMost {
		t.Errorf("%d removals at once", b.lapsing)
	}
	b.Begin(1000, Wish{})
	b.Then(3, func(w *Wish) { w.Add(Hold, "") })
	for id, c := range map[mail.QueueID]struct {
		to   mail.Place
		want End
	}{1: {mail.Place{}, EndRemoved}, 2: {deferred, EndReleased}, 3: {held, EndOrdered}, 1000: {mail.Place{}, EndOrdered}, 1001: {deferred, EndUnknown}} {
		if e := b.Moved(id, c.to); e != c.want {
			t.Errorf("%d ends as %d, want %d", id, e, c.want)
		}
	}
	if b.Wishes() != 1 {
		t.Fatalf("%d wishes", b.Wishes())
	}
	if id, w := b.Next(); id != 3 || w.Order != Hold {
		t.Errorf("the order that came meanwhile is %+v for %d", w, id)
	}
	b.Check(0)
}

// Whatever happens, each message has one change at a time, and what was wished comes once, in the order in which changes ended.
func TestRandomOrders(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := New()
	under := map[mail.QueueID]bool{}
	wished := map[mail.QueueID]bool{}
	done := 0
	for range 20_000 {
		id := mail.QueueID(1 + r.IntN(20))
		if b.Moving(id) != under[id] {
			t.Fatalf("%d is being changed: %t", id, b.Moving(id))
		}
		switch {
		case !under[id]:
			if r.IntN(2) == 0 || !b.MayLapse() {
				b.Begin(id, Wish{})
			} else {
				b.Lapse(id)
			}
			under[id] = true
		case r.IntN(2) == 0:
			b.Then(id, func(w *Wish) { w.Add(Hold, "") })
			wished[id] = true
		default:
			b.Moved(id, held)
			delete(under, id)
			if b.Wishes() > 0 != wished[id] {
				t.Fatalf("after the change of %d there are %d wishes", id, b.Wishes())
			}
			if wished[id] {
				if got, _ := b.Next(); got != id {
					t.Fatalf("after the change of %d there is a wish for %d", id, got)
				}
				done++
			}
			delete(wished, id)
		}
		b.Check(0)
	}
	if done == 0 {
		t.Error("nothing was wished")
	}
}
