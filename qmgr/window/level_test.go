package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

func levelConfig(limit int) Config {
	return Config{Initial: 5, Limit: limit, Positive: ByLevel(), Negative: ByLevel(), FailedCohortLimit: 10}
}

// The style is one for both directions: half of it would mean nothing.
func TestLevelIsForBothDirections(t *testing.T) {
	cfg := levelConfig(20)
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.Negative = Feedback{}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), `"level"`) {
		t.Errorf("level with feedback 1: %v", err)
	}
	cfg.Positive, cfg.Negative = Feedback{}, ByLevel()
	if err := cfg.Validate(); err == nil {
		t.Error("feedback 1 with level: no complaint")
	}
}

// A ledger is the naive evidence: it keeps a list of all judged attempts, in order
// of judgment, and computes each doubt from scratch.
type ledger struct {
	levels        []int  // of the attempts, as they began
	over          []bool // judged to be good, or failed
	well          []bool // judged to be good
	entries       []entry
	before, round int
}

// An entry is one attempt that was judged: a factor for every doubt about its
// level and those below.
type entry struct {
	level  int
	factor [2]float64
}

func (b *ledger) presume(serial int) {
	for s := range serial {
		if !b.over[s] {
			b.over[s], b.well[s] = true, true
			b.entries = append(b.entries, entry{b.levels[s], [2]float64{1 / effects[0].lost, 1 / effects[1].lost}})
		}
	}
}

func (b *ledger) fail(serial, at int) {
	b.over[serial-1] = true
	if serial > b.round {
		b.presume(b.before)
		b.before, b.round = b.round, len(b.levels)
	}
	f := entry{level: at}
	for n, e := range effects {
		f.factor[n] = e.against(mostRare)
		if b.well[serial-1] {
			f.factor[n] *= e.undone
		}
	}
	b.entries = append(b.entries, f)
}

// doubt returns the largest product of any final run of the entries that concern a
// level.
func (b *ledger) doubt(at, n int) float64 {
	largest, product := 1.0, 1.0
	for _, e := range slices.Backward(b.entries) {
		if e.level >= at {
			product *= e.factor[n]
			largest = max(largest, product)
		}
	}
	return largest
}

// Doubts against their definition. The results of attempts arrive in any order.
func TestDoubtsAgainstDefinition(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	for history := range 20 * golden.Runs(3) {
		e := newEvidence(1<<30, 8, 8, 0) // so many successes that failure rates stay constant
		var b ledger
		var running []int
		newest := 0 // of those that succeeded
		for range 150 {
			if len(running) < 12 && r.IntN(2) == 0 {
				b.levels, b.over, b.well = append(b.levels, 1+r.IntN(8)), append(b.over, false), append(b.well, false)
				e.begin(Attempt{level: b.levels[len(b.levels)-1], serial: uint64(len(b.levels))})
				running = append(running, len(b.levels))
				continue
			}
			if len(running) == 0 {
				continue
			}
			i := r.IntN(len(running))
			serial := running[i]
			running = slices.Delete(running, i, i+1)
			a := Attempt{level: b.levels[serial-1], serial: uint64(serial)}
			if r.IntN(5) > 0 {
				e.succeed(a)
				b.presume(serial)
				newest = max(newest, serial)
			} else {
				// It counts against the highest level that was reached meanwhile,
				// if nothing that began later has succeeded. Attempts that have
				// failed do not count.
				at := a.level
				for s := serial; serial > newest && s < len(b.levels); s++ {
					if !b.over[s] || b.well[s] {
						at = max(at, b.levels[s])
					}
				}
				e.fail(a, 8)
				b.fail(serial, at)
			}
			for at := 2; at <= len(e.at); at++ {
				for n, got := range e.at[at-1].doubt {
					if want := b.doubt(at, n); got/want > 1+1e-9 || want/got > 1+1e-9 {
						t.Fatalf("seed %d, history %d: doubt %d about level %d is %v, by definition %v", seed, history, n, at, got, want)
					}
				}
			}
		}
	}
}

// A receiver with a number of places, in rounds: each attempt fails at once if
// there is no place, or by chance; otherwise it runs until it is the random one
// that ends. If a whole cohort fails by chance, the destination is dead for a round.
type receiver struct {
	w       Window
	cfg     Config
	places  int
	chance  float64
	running []Attempt
	r       *rand.Rand

	failures, successes int
}

func (p *receiver) run(deliveries int) {
	for range deliveries {
		if p.w.State() == Dead && len(p.running) == 0 {
			p.w.Revive(&p.cfg, 0)
			continue
		}
		for p.w.State() == Ready && len(p.running) < p.w.Size() {
			a := p.w.Begin(len(p.running) + 1)
			if len(p.running) >= p.places || p.r.Float64() < p.chance {
				p.failures++
				p.w.Failure(&p.cfg, a)
				continue
			}
			p.running = append(p.running, a)
		}
		if len(p.running) == 0 {
			continue
		}
		i := p.r.IntN(len(p.running))
		a := p.running[i]
		p.successes++
		p.w.Success(&p.cfg, a, len(p.running))
		p.running = append(p.running[:i], p.running[i+1:]...)
	}
}

func newReceiver(seed uint64, limit, places int, chance float64) *receiver {
	cfg := levelConfig(limit)
	return &receiver{w: New(&cfg), cfg: cfg, places: places, chance: chance, r: rand.New(rand.NewPCG(seed, 4))}
}

// Whatever the limit and the failure rate, the window settles at the limit, and
// refusals beyond chance are rare. A window may be small for a moment, by chance, so that its mean
// counts.
func TestLevelFindsTheLimit(t *testing.T) {
	seed := rand.Uint64()
	for _, c := range []struct {
		places int
		chance float64
		beyond float64 // rate of failures beyond chance
	}{{1, 0, 0.03}, {5, 0, 0.02}, {20, 0, 0.02}, {60, 0, 0.02}, {5, 0.1, 0.04}, {20, 0.25, 0.04}} {
		p := newReceiver(seed, 100, c.places, c.chance)
		p.run(15_000)
		const samples = 50
		sum := 0
		for range samples {
			p.run(100)
			sum += p.w.Size()
		}
		all := float64(p.failures + p.successes)
		if beyond := float64(p.failures)/all - c.chance; beyond > c.beyond {
			t.Errorf("seed %d: %+v: %.3f of the attempts fail without need", seed, c, beyond)
		}
		if mean := float64(sum) / samples; mean < float64(c.places*3/4) || mean > float64(c.places+3) {
			t.Errorf("seed %d: %+v: the window is %.1f", seed, c, mean)
		}
	}
}

// A limit that falls far costs few refusals, and one that rises is detected.
func TestLevelFollows(t *testing.T) {
	seed := rand.Uint64()
	p := newReceiver(seed, 40, 20, 0)
	p.run(3000)
	for _, places := range []int{3, 15, 5, 20} {
		p.places = places
		p.failures = 0
		p.run(1500)
		if p.failures > 35+1500/trialAttempts {
			t.Errorf("seed %d: %d refusals after the limit became %d", seed, p.failures, places)
		}
		if s := p.w.Size(); s < places*3/4 || s > places+1 {
			t.Errorf("seed %d: the window is %d, the limit has become %d", seed, s, places)
		}
	}
}

// Failures that have nothing to do with concurrency do not keep the window from
// growing: with feedback 1/N it would stay below ten here.
func TestLevelGrowsThroughNoise(t *testing.T) {
	seed := rand.Uint64()
	for _, chance := range []float64{0.05, 0.25, 0.4} {
		p := newReceiver(seed, 40, 1000, chance)
		p.run(2000)
		sum := 0
		for range 200 {
			p.run(100)
			sum += p.w.Size()
		}
		if mean := float64(sum) / 200; mean < 0.85*40 {
			t.Errorf("seed %d: with %.2f failures the mean window is %.1f of 40", seed, chance, mean)
		}
	}
}

// Nothing fails: the window reaches the limit at least as fast as with 1/N, and
// remembers nothing.
func TestLevelGrowth(t *testing.T) {
	needed := func(cfg Config) int {
		w := New(&cfg)
		n := 0
		for ; w.Size() < 40; n++ {
			w.Success(&cfg, w.Begin(w.Size()), w.Size())
		}
		if w.levels != nil {
			t.Error("there are levels, though nothing failed")
		}
		return n
	}
	perN := Config{Initial: 5, Limit: 40}
	perN.Positive, _ = PerConcurrency(1)
	if by, than := needed(levelConfig(40)), needed(perN); by > than {
		t.Errorf("%d successes needed, by 1/N %d", by, than)
	}
}

// A dead site is detected as fast as with any style: after one cohort if that is
// the limit, and then the window forgets its levels.
func TestLevelDies(t *testing.T) {
	cfg := levelConfig(20)
	cfg.FailedCohortLimit = 1
	w := New(&cfg)
	for range 50 {
		w.Success(&cfg, w.Begin(5), 5)
	}
	size := w.Size()
	failures := 1
	for !w.Failure(&cfg, w.Begin(max(w.Size(), 1))) {
		failures++
	}
	if failures > size {
		t.Errorf("%d failures at a window of %d until it is dead", failures, size)
	}
	if w.Revive(&cfg, 0); w.Size() != 5 || w.levels != nil {
		t.Errorf("revived at %d, levels %v", w.Size(), w.levels)
	}
}

// A trial that is lost without a result does not freeze the window.
func TestLostTrial(t *testing.T) {
	p := newReceiver(1, 40, 5, 0)
	for p.w.levels == nil || p.w.levels.trial != trialOpen {
		p.run(1)
	}
	for len(p.running) < p.w.Size() {
		p.running = append(p.running, p.w.Begin(len(p.running)+1))
	}
	if p.w.levels.trial != trialBegun {
		t.Fatal("the trial has not begun")
	}
	p.w.Lost(p.running[len(p.running)-1])
	if p.w.levels.trial != trialOpen {
		t.Error("the trial is over, though nothing is known")
	}
}

// Attempts of unknown level must not break anything.
func TestUnknownAttempts(t *testing.T) {
	cfg := levelConfig(20)
	w := New(&cfg)
	for range 100 {
		w.Failure(&cfg, Attempt{})
		w.Success(&cfg, Attempt{}, 1)
		w.Lost(Attempt{})
	}
	if w.Size() < 1 {
		t.Error("the window is closed")
	}
}

// The memory of a destination does not grow with the number of events.
func TestLevelMemory(t *testing.T) {
	p := newReceiver(7, 40, 30, 0.2)
	p.run(20_000 * golden.Runs(2))
	if l := p.w.levels; len(l.at) > 41 || len(l.trail) > 2*shortestTrail {
		t.Errorf("%d levels, a trail of %d", len(l.at), len(l.trail))
	}
}

// The cost of an attempt: at a destination that works, and at one where every
// fourth attempt fails, both at a window of 40.
func BenchmarkLevel(b *testing.B) {
	for _, c := range []struct {
		name   string
		chance float64
	}{{"Clean", 0}, {"Noisy", 0.25}} {
		b.Run(c.name, func(b *testing.B) {
			p := newReceiver(1, 40, 1000, c.chance)
			p.run(2000)
			b.ReportAllocs()
			b.ResetTimer()
			p.run(b.N)
		})
	}
}

// Every change of a trial that the table does not allow panics, and the others are made: an attempt that is no
// probe decides nothing, and a trial that was decided does not go on.
func TestTrialTransitions(t *testing.T) {
	try := func(from, to trialState) (made bool) {
		l := levels{trial: from}
		defer func() { made = recover() == nil && l.trial == to }()
		l.enter(to)
		return true
	}
	allowed := ""
	for from := range trialState(trialStates) {
		for to := range trialState(trialStates) {
			if try(from, to) {
				allowed += fmt.Sprintf(" %d-%d", from, to)
			}
		}
	}
	if want := " 0-0 0-1 1-0 1-1 1-2 2-0 2-1 2-3 3-0 3-1"; allowed != want {
		t.Errorf("changes of a trial are%s, want%s", allowed, want)
	}
}
