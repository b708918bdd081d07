package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// fixedStyles are what "level" is measured against, by the source's rule.
var fixedStyles = []string{"1/concurrency", "1/sqrt_concurrency", "1", "1/4"}

const (
	styleLevel = "level"
	styleIdeal = "ideal" // a window that never moves, chosen with knowledge of the receiver
)

// A feedbackCell is what one style makes of one world: means over the seeds.
type feedbackCell struct {
	goodput  float64       // recipients delivered in a second
	deferred float64       // share of the attempts
	found    time.Duration // after which the window had followed a doubled limit
}

// A feedbackRow is what all of them make of it.
type feedbackRow struct {
	world *feedbackWorld
	cells map[string]feedbackCell
}

// measure simulates a world with each of the styles.
func (f *feedbackWorld) measure(t testing.TB, seed uint64, seeds int, styles ...string) feedbackRow {
	row := feedbackRow{f, make(map[string]feedbackCell)}
	s := f.scenario(f.receiver, f.changes, f.length)
	for _, style := range styles {
		g, err := window.ParseFeedback(style)
		if err != nil {
			t.Fatal(err)
		}
		s.Runs = append(s.Runs, f.run(style, window.Config{Initial: f.initial, Limit: f.limit, Positive: g, Negative: g}))
	}
	f.add(t, s, seed, seeds, 1, row.cells)
	for _, segment := range f.segments() {
		s := f.scenario(segment.behaviour, nil, min(segment.length, f.length/2))
		if len(f.changes) == 0 {
			s.Duration = f.length
		}
		none, _ := window.Constant(0)
		size := f.idealWindow(segment.behaviour)
		s.Runs = []Run{f.run(styleIdeal, window.Config{Initial: size, Limit: size, Positive: none, Negative: none})}
		f.add(t, s, seed, seeds, segment.length.Seconds()/f.length.Seconds(), row.cells)
	}
	return row
}

// add simulates a scenario, and adds its share to the cells.
func (f *feedbackWorld) add(t testing.TB, s *Scenario, seed uint64, seeds int, share float64, cells map[string]feedbackCell) {
	for n := range seeds {
		r, err := Simulate(s, Options{Seed: seed + uint64(n), Parallel: 2})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict() != VerdictOK {
			t.Errorf("%s: %v", f.name, r.Runs[0].Checks)
		}
		for i := range r.Runs {
			run := &r.Runs[i]
			c := cells[run.Name]
			c.goodput += float64(run.Delivered) / s.Duration.Seconds() * share / float64(seeds)
			c.deferred += float64(run.Failures) / float64(max(run.Deliveries, 1)) * share / float64(seeds)
			c.found += f.foundAfter(&run.Pictures.Series) / time.Duration(seeds)
			cells[run.Name] = c
		}
	}
}

func (f *feedbackWorld) scenario(b Behaviour, changes []Change, length time.Duration) *Scenario {
	arrivals := f.arrivals
	if arrivals == nil {
		arrivals = []Arrivals{{Class: "bulk", Messages: 300, Min: 1000, Max: 1000, To: []string{"site"}}}
	}
	return &Scenario{Name: f.name, Seed: 1, Duration: length, Arrivals: arrivals, Sites: []Site{{Name: "site", Behaviour: b, Changes: changes}}}
}

func (f *feedbackWorld) run(name string, w window.Config) Run {
	w.FailedCohortLimit = 10
	return Run{Name: name, Clients: map[string]Client{"smtp": f.client},
		Core: qmgr.Config{DefaultTransport: qmgr.TransportConfig{RecipientLimit: 1, ProcessLimit: 1000, Agents: qmgr.AgentsOwn, Window: w}}}
}

// foundAfter returns how long it took the window to come within a tenth of twice
// the limit.
func (f *feedbackWorld) foundAfter(s *Series) time.Duration {
	if f.doubled == 0 {
		return 0
	}
	for i := range s.Points {
		at := time.Duration(i) * s.Step
		if p := &s.Points[i]; at >= f.doubled && p.Windows > 0 && p.WindowSum/float64(p.Windows) >= 1.8*float64(f.receiver.ConnectionLimit) {
			return at - f.doubled + s.Step
		}
	}
	return f.length - f.doubled
}

// best is the goodput of the best fixed style.
func (r *feedbackRow) best() float64 {
	best := 0.0
	for _, s := range fixedStyles {
		best = max(best, r.cells[s].goodput)
	}
	return best
}

// share is the goodput of "level", of the best fixed style's. Against a limit a
// fixed style always has a connection at the door, which takes a place as soon as
// it is free; who defers nothing cannot have that, and to deliver as much as the
// ideal window does is as good.
func (r *feedbackRow) share() float64 {
	return r.cells[styleLevel].goodput / min(r.best(), r.cells[styleIdeal].goodput)
}

// excess is what "level" defers beyond what is inevitable: what fails whatever
// the concurrency, or what the ideal window defers if that is more.
func (r *feedbackRow) excess() float64 {
	return r.cells[styleLevel].deferred - max(r.world.chance, r.cells[styleIdeal].deferred)
}

// The aim, in every world: 98 % of the goodput, and one point of deferrals.
func (r *feedbackRow) holds() bool { return r.share() >= 0.98 && r.excess() <= 0.01 }

// In a world of each kind the aim is reached. The whole matrix takes minutes:
//
//	MATRIX=5 go test ./sim -run TestFeedbackMatrix -v
//
// prints it, with five seeds, as it is in docs/scheduler.md. It fails if the aim
// is missed in a world where that document does not explain it.
func TestFeedbackMatrix(t *testing.T) {
	seeds, _ := strconv.Atoi(os.Getenv("MATRIX"))
	whole := seeds > 0
	var rows []feedbackRow
	for _, f := range feedbackWorlds() {
		if !whole {
			if !f.sample {
				continue
			}
			f.length /= 2
		}
		row := f.measure(t, 1, max(seeds, 1), append(fixedStyles, styleLevel)...)
		if !row.holds() && f.bound == "" {
			t.Errorf("%s: %.1f %% of the goodput, %.2f points deferred beyond what is inevitable", f.name, 100*row.share(), 100*row.excess())
		}
		rows = append(rows, row)
	}
	if whole {
		t.Log("\n" + tableOf(rows))
	}
}

// Random worlds, for which nothing was tuned:
//
//	MATRIX=2 go test ./sim -run TestFeedbackInRandomWorlds -v
//
// draws forty of them; SEED=n draws others. In these forty the aim is reached in 18 worlds
// with two seeds and in 19 with one, which the stage random of .ci/run tries.
func TestFeedbackInRandomWorlds(t *testing.T) {
	seeds, _ := strconv.Atoi(os.Getenv("MATRIX"))
	if seeds == 0 {
		t.Skip("it takes minutes: set MATRIX to the number of seeds")
	}
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	least := 0
	if seed == 0 {
		seed, least = 77, 18
	}
	r := rand.New(rand.NewPCG(seed, 7))
	var rows []feedbackRow
	count := 0
	for range 40 {
		f := randomFeedbackWorld(r)
		rows = append(rows, f.measure(t, seed, seeds, append(fixedStyles, styleLevel)...))
		if rows[len(rows)-1].holds() {
			count++
		}
	}
	t.Logf("seed %d: the aim is reached in %d of %d\n%s", seed, count, len(rows), tableOf(rows))
	if count < least {
		t.Errorf("the aim is reached in %d worlds, want %d", count, least)
	}
}

func tableOf(rows []feedbackRow) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "world\t1/N\t1/√N\t1\t1/4\tideal\tlevel\tgoodput\texcess\tfound\t")
	for i := range rows {
		r := &rows[i]
		fmt.Fprint(w, r.world.name)
		for _, s := range append(fixedStyles, styleIdeal, styleLevel) {
			c := r.cells[s]
			fmt.Fprintf(w, "\t%.2f/s %.2f %%", c.goodput, 100*c.deferred)
		}
		found, verdict := "", ""
		if r.world.doubled > 0 {
			found = r.cells[styleLevel].found.Round(time.Second).String()
		}
		if !r.holds() {
			verdict = "missed"
			if r.world.bound != "" {
				verdict = r.world.bound
			}
		}
		fmt.Fprintf(w, "\t%.1f %%\t%+.2f\t%s\t%s\n", 100*r.share(), 100*r.excess(), found, verdict)
	}
	w.Flush()
	return b.String()
}
