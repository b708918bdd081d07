package conns

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// allowed adds the changes of a table.
func allowed[S enum](all map[string]bool, next [][]bool) {
	for from, row := range next {
		for to, may := range row {
			if may {
				all[changeText(S(from), S(to))] = true
			}
		}
	}
}

func changeText(from, to any) string { return fmt.Sprintf("%T: %v to %v", from, from, to) }

// Every change that a table allows is made by some script or random run. A change that
// none of them makes is either impossible, and the table says too much, or not tested.
// Changes that a table does not allow are assertions everywhere.
func TestEveryChangeIsMade(t *testing.T) {
	want := make(map[string]bool)
	allowed[State](want, stateTransitions)
	allowed[Wait](want, waitTransitions)
	allowed[cause](want, causeTransitions)
	allowed[trust](want, trustTransitions)
	allowed[pace](want, paceTransitions)
	allowed[doubt](want, doubtTransitions)
	allowed[inquiry](want, inquiryTransitions)
	allowed[refusal](want, refusalTransitions)
	observe := func(from, to any) { delete(want, changeText(from, to)) }
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 || os.Getenv("UPDATE") == "1" {
		t.Skip("no scripts, or they are being recorded")
	}
	for _, path := range scripts {
		s := &script{observe: observe}
		golden.Run(t, path, s.handle)
	}
	for seed := uint64(1); seed <= 6 && len(want) > 0; seed++ {
		r := prng.New(seed)
		w := newTwins(&r, t.Fatalf)
		w.p.observe = observe
		for step := 0; step < 2000 && len(want) > 0; step++ {
			w.step()
		}
	}
	for _, text := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("no script or run makes the change of %s", text)
	}
}

// A change that its table does not allow panics.
func TestOtherChangesPanic(t *testing.T) {
	p := New(Config{Limit: 1}, destdb.New(destdb.Config{}, 1), 1)
	try := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		f()
	}
	for from := Connecting; from <= gone; from++ {
		for to := Connecting; to <= gone; to++ {
			if c := (&Conn{pool: p, state: from}); !stateAllows(from, to) {
				try(changeText(from, to), func() { c.become(to) })
			}
		}
	}
}

func stateAllows(from, to State) bool {
	return from == Connecting && (to == Ready || to == gone) || from == Ready && to == Draining || from == Draining && to == gone
}
