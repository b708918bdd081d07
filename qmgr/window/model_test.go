package window

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// A twin is the naive window: it remembers all events and computes each answer from
// scratch by the definition, in rational numbers, without rounding. It knows
// nothing of states: a size of 0 is death.
type twin struct {
	readme           bool
	initial, limit   int64
	positive         func(size int64) *big.Rat
	negative         func(size int64) *big.Rat
	cohorts          int64
	history          []event
	nearest          *big.Rat // the smallest nonzero difference in any comparison
	exactFeedback    bool     // feedback is exact in binary, so equality is equality
	size             int64
	success, failure *big.Rat
	failed           *big.Rat
}

type event struct {
	kind string // success, failure, revive
	busy int64
}

func rat(a, b int64) *big.Rat { return big.NewRat(a, b) }

// compare returns the sign of a-b and records how close they were.
func (n *twin) compare(a, b *big.Rat) int {
	d := new(big.Rat).Sub(a, b)
	sign := d.Sign()
	if d.Abs(d).Cmp(n.nearest) < 0 && !(sign == 0 && n.exactFeedback) {
		n.nearest = d
	}
	return sign
}

func (n *twin) replay() {
	n.size, n.success, n.failure, n.failed = n.start(), rat(0, 1), rat(0, 1), rat(0, 1)
	n.nearest = rat(1, 1)
	for _, e := range n.history {
		switch {
		case e.kind == "failure":
			n.lose()
		case n.size == 0: // success or revival of a dead one
			n.size = n.start()
			if e.busy > 0 {
				n.size = e.busy
			}
			n.success, n.failure, n.failed = rat(0, 1), rat(0, 1), rat(0, 1)
		default:
			n.failed = rat(0, 1)
			n.win(e.busy)
		}
	}
}

func (n *twin) start() int64 {
	if n.limit > 0 && n.initial > n.limit {
		return n.limit
	}
	return n.initial
}

func (n *twin) win(busy int64) {
	if n.size >= busy+n.start() || !n.readme && n.limit > 0 && n.size >= n.limit {
		return
	}
	g := n.positive(n.size)
	step := rat(1, 1)
	if !n.readme {
		step.Sub(step, new(big.Rat).Mul(g, rat(1, 2)))
	}
	n.success = new(big.Rat).Add(n.success, g)
	for n.compare(n.success, step) >= 0 {
		n.size, n.failure = n.size+1, rat(0, 1)
		n.success = new(big.Rat).Sub(n.success, rat(1, 1))
	}
	if n.limit > 0 && n.size > n.limit {
		n.size = n.limit
	}
}

func (n *twin) lose() {
	n.failed = new(big.Rat).Add(n.failed, rat(1, n.size))
	if n.cohorts > 0 {
		exact := n.exactFeedback
		n.exactFeedback = false // 1/size is not exact
		sign := n.compare(n.failed, rat(n.cohorts, 1))
		n.exactFeedback = exact
		if sign > 0 || sign == 0 && !n.readme {
			n.size = 0
			return
		}
	}
	f := n.negative(n.size)
	step := rat(0, 1)
	if !n.readme {
		step = new(big.Rat).Mul(f, rat(1, 2))
	}
	n.failure = new(big.Rat).Sub(n.failure, f)
	for n.compare(n.failure, step) < 0 {
		n.size, n.success = n.size-1, rat(0, 1)
		n.failure = new(big.Rat).Add(n.failure, rat(1, 1))
	}
	if n.size < 1 {
		n.size = 1
	}
}

// For any events in any order, the window and its twin agree, except where rational
// numbers come closer to a threshold than rounding can resolve: those histories are
// cut short there.
func TestAgainstTwin(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	checked, cut := 0, 0
	runs := 40 * golden.Runs(1)
	for range runs {
		n, cfg := randomTwin(r)
		w := New(&cfg)
		for range 30 {
			e := randomEvent(r, &w)
			n.history = append(n.history, e)
			apply(&w, &cfg, e)
			n.replay()
			if n.nearest.Cmp(rat(1, 1_000_000_000)) < 0 {
				cut++
				break
			}
			checked++
			if int64(w.Size()) != n.size {
				t.Fatalf("seed %d: %+v: size %d, the twin has %d, after %v", seed, cfg, w.Size(), n.size, n.history)
			}
			if !near(w.success, n.success) || !near(w.failure, n.failure) {
				t.Fatalf("seed %d: %+v: sums %v %v, the twin has %v %v, after %v",
					seed, cfg, w.success, w.failure, n.success, n.failure, n.history)
			}
		}
	}
	if checked < 7*runs {
		t.Errorf("only %d events were compared, %d histories cut short", checked, cut)
	}
}

func near(a float64, b *big.Rat) bool {
	exact, _ := b.Float64()
	return a-exact < 1e-9 && exact-a < 1e-9
}

func randomTwin(r *rand.Rand) (*twin, Config) {
	n := &twin{readme: r.IntN(2) == 0, initial: 1 + r.Int64N(8), limit: r.Int64N(12), cohorts: r.Int64N(4)}
	texts := []string{"1", "0", "1/2", "1/4", "1/3", "0.3", "3/4", "1/concurrency", "0.5/concurrency"}
	values := []func(int64) *big.Rat{
		func(int64) *big.Rat { return rat(1, 1) }, func(int64) *big.Rat { return rat(0, 1) },
		func(int64) *big.Rat { return rat(1, 2) }, func(int64) *big.Rat { return rat(1, 4) },
		func(int64) *big.Rat { return rat(1, 3) }, func(int64) *big.Rat { return rat(3, 10) },
		func(int64) *big.Rat { return rat(3, 4) }, func(s int64) *big.Rat { return rat(1, s) },
		func(s int64) *big.Rat { return rat(1, 2*s) },
	}
	p, q := r.IntN(len(texts)), r.IntN(len(texts))
	exact := func(text string) bool {
		return !strings.Contains(text, "3") && !strings.Contains(text, "c") || text == "3/4"
	}
	n.positive, n.negative, n.exactFeedback = values[p], values[q], exact(texts[p]) && exact(texts[q])
	cfg := Config{Initial: int(n.initial), Limit: int(n.limit), FailedCohortLimit: int(n.cohorts)}
	cfg.Positive, _ = ParseFeedback(texts[p])
	cfg.Negative, _ = ParseFeedback(texts[q])
	if n.readme {
		cfg.Rule = RuleReadme
	}
	return n, cfg
}

func randomEvent(r *rand.Rand, w *Window) event {
	if w.State() == Dead {
		if r.IntN(2) == 0 {
			return event{kind: "revive"}
		}
		return event{kind: "success", busy: 1}
	}
	if r.IntN(5) < 2 {
		return event{kind: "failure"}
	}
	return event{kind: "success", busy: 1 + r.Int64N(int64(w.Size()))}
}

func apply(w *Window, cfg *Config, e event) {
	switch e.kind {
	case "success":
		w.Success(cfg, Attempt{}, int(e.busy))
	case "failure":
		w.Failure(cfg, Attempt{})
	case "revive":
		w.Revive(cfg, int(e.busy))
	}
}

// Every method in every state: the resulting state, or a panic. The table of
// transitions has exactly these.
func TestTransitions(t *testing.T) {
	cfg := Config{Initial: 3, FailedCohortLimit: 1}
	states := map[State]func() Window{
		Ready:     func() Window { return New(&cfg) },
		Dead:      func() Window { w := New(&cfg); die(&w, &cfg); return w },
		Suspended: func() Window { w := New(&cfg); w.Suspend(); return w },
	}
	methods := map[string]func(*Window){
		"Success": func(w *Window) { w.Success(&cfg, Attempt{}, 1) },
		"Failure": func(w *Window) { w.Failure(&cfg, Attempt{}) },
		"die":     func(w *Window) { die(w, &cfg) },
		"Revive":  func(w *Window) { w.Revive(&cfg, 0) },
		"Suspend": func(w *Window) { w.Suspend() },
		"Resume":  func(w *Window) { w.Resume() },
	}
	legal := map[string]string{
		"ready Success": "ready 4", "ready Failure": "ready 1", "ready die": "dead 0", "ready Suspend": "suspended 0",
		"dead Success": "ready 1", "dead Revive": "ready 3",
		"suspended Success": "suspended 0", "suspended Resume": "ready 1",
	}
	var seen [3][3]bool
	for state, reach := range states {
		for name, call := range methods {
			w := reach()
			if w.State() != state {
				t.Fatalf("cannot reach %v", state)
			}
			key := fmt.Sprintf("%v %s", state, name)
			got := outcome(&w, call)
			if got != legal[key] {
				t.Errorf("%s: %q, want %q (empty: it panics)", key, got, legal[key])
			}
			if got != "" && w.State() != state {
				seen[state][w.State()] = true
			}
		}
	}
	if seen != transitions {
		t.Errorf("transitions seen %v, the table has %v", seen, transitions)
	}
}

func die(w *Window, cfg *Config) {
	for !w.Failure(cfg, Attempt{}) {
	}
}

func outcome(w *Window, call func(*Window)) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	call(w)
	return fmt.Sprintf("%v %d", w.State(), w.Size())
}
