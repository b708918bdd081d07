package window

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// The scripts are the manual of the window: read them before the code. This
// file is the manual of their language.
func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler {
		s := &script{}
		return s.handle
	})
}

// A script has one window at a time.
type script struct {
	cfg Config
	w   Window
	out strings.Builder

	running     []Attempt // of serve, oldest first
	connections int
}

func (s *script) handle(tb testing.TB, b *golden.Block) string {
	s.out.Reset()
	for _, l := range b.Lines {
		s.command(tb, l)
	}
	return s.out.String()
}

func (s *script) command(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	// new [initial=N] [limit=N] [positive=F] [negative=F] [both=F] [cohorts=N]
	// [rule=R] makes a window.
	case "new":
		s.cfg = s.config(tb, l)
		s.w = New(&s.cfg)
		s.running, s.connections = nil, 0
		s.draw("new")
	// success [busy=N] [times=N]: N successes. Without busy the window is saturated
	// each time.
	case "success":
		for range l.Int(tb, "times", 1) {
			s.success(l.Int(tb, "busy", 0))
			s.draw("success")
		}
	// drain busy=N: N running deliveries succeed one after another, and are not
	// replaced.
	case "drain":
		for busy := l.Int(tb, "busy", 0); busy > 0; busy-- {
			s.success(busy)
			s.draw(fmt.Sprintf("success of %d", busy))
		}
	// fail [times=N]: N failures.
	case "fail":
		for range l.Int(tb, "times", 1) {
			s.w.Failure(&s.cfg, Attempt{})
			s.draw("failure")
		}
	case "revive": // revive [busy=N]
		s.w.Revive(&s.cfg, l.Int(tb, "busy", 0))
		s.draw("revive")
	case "suspend":
		s.w.Suspend()
		s.draw("suspend")
	case "resume":
		s.w.Resume()
		s.draw("resume")
	// steps of=success|failure events=N, and the options of new: the numbers
	// of the events at which a new window steps.
	case "steps":
		s.steps(tb, l)
	// deaths windows=N,N… table=F,F…, and the options of new: the number of
	// consecutive failures after which a window of each size is dead, for each
	// negative feedback.
	case "deaths":
		s.deaths(tb, l)
	// limiter at=N deliveries=N, and the options of new: see limit.
	case "limiter":
		s.limiter(tb, l)
	// serve places=N deliveries=N [bad=N]: see serve. It continues with the window
	// of new.
	case "serve":
		s.serve(l.Int(tb, "places", 5), l.Int(tb, "deliveries", 10), l.Int(tb, "bad", 0))
	// parse TEXT…: each as the configuration and as Postfix reads it.
	case "parse":
		for _, text := range l.Words {
			s.parse(text)
		}
	default:
		tb.Fatalf("%s: no such command: %s", l.Pos, l.Name)
	}
}

func (s *script) config(tb testing.TB, l *golden.Line) Config {
	tb.Helper()
	read := func(key, standard string) Feedback {
		f, err := ParseFeedback(l.Str(key, standard))
		if err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		return f
	}
	both := l.Str("both", "1")
	cfg := Config{
		Initial:           l.Int(tb, "initial", 0),
		Limit:             l.Int(tb, "limit", 0),
		Positive:          read("positive", both),
		Negative:          read("negative", both),
		FailedCohortLimit: l.Int(tb, "cohorts", 0),
	}
	if err := cfg.Rule.UnmarshalText([]byte(l.Str("rule", "source"))); err != nil {
		tb.Fatalf("%s: %v", l.Pos, err)
	}
	if err := cfg.Validate(); err != nil {
		tb.Fatalf("%s: %v", l.Pos, err)
	}
	return cfg.WithDefaults()
}

func (s *script) success(busy int) {
	if busy == 0 {
		busy = max(s.w.Size(), 1)
	}
	s.w.Success(&s.cfg, Attempt{}, busy)
}

// draw prints one line: what happened, the window as a row of open (o) and
// the nearest closed places (.), and the three sums.
func (s *script) draw(what string) {
	success, failure, cohorts := s.w.Counters()
	size := s.w.Size()
	picture := strings.Repeat("o", size) + strings.Repeat(".", max(0, 12-size))
	fmt.Fprintf(&s.out, "%-13s %-9s %2d %s  success %.6g, failure %.6g, cohorts %.6g\n",
		what, s.w.State(), size, picture, success, failure, cohorts)
}

func (s *script) steps(tb testing.TB, l *golden.Line) {
	cfg := s.config(tb, l)
	w := New(&cfg)
	fmt.Fprintf(&s.out, "from %d:", w.Size())
	for event := 1; event <= l.Int(tb, "events", 20); event++ {
		before := w.Size()
		if l.Str("of", "success") == "success" {
			w.Success(&cfg, Attempt{}, before)
		} else {
			w.Failure(&cfg, Attempt{})
		}
		if by := w.Size() - before; by == 1 || by == -1 {
			fmt.Fprintf(&s.out, " %d", event)
		} else if by != 0 {
			fmt.Fprintf(&s.out, " %d(%+d)", event, by)
		}
	}
	fmt.Fprintf(&s.out, "; then %d\n", w.Size())
}

func (s *script) deaths(tb testing.TB, l *golden.Line) {
	columns := strings.Split(l.Str("table", "1"), ",")
	cfg := s.config(tb, l)
	s.out.WriteString("window")
	for _, c := range columns {
		fmt.Fprintf(&s.out, " %14s", c)
	}
	s.out.WriteString("\n")
	for _, row := range strings.Split(l.Str("windows", "1"), ",") {
		fmt.Fprintf(&s.out, "%6s", row)
		for _, c := range columns {
			var err error
			if cfg.Negative, err = ParseFeedback(c); err != nil {
				tb.Fatalf("%s: %v", l.Pos, err)
			}
			if cfg.Initial, err = strconv.Atoi(row); err != nil {
				tb.Fatalf("%s: %v", l.Pos, err)
			}
			fmt.Fprintf(&s.out, " %14d", failuresUntilDead(tb, &cfg))
		}
		s.out.WriteString("\n")
	}
}

func failuresUntilDead(tb testing.TB, cfg *Config) int {
	w := New(cfg)
	for n := 1; n < 10_000; n++ {
		if w.Failure(cfg, Attempt{}) {
			return n
		}
	}
	tb.Fatal("it does not die")
	return 0
}

// limiter delivers to a server that accepts a number of connections at once and
// refuses further ones with 421, all slots always in use: a delivery fails when the
// window is wider than the server, and succeeds otherwise.
func (s *script) limiter(tb testing.TB, l *golden.Line) {
	cfg := s.config(tb, l)
	w := New(&cfg)
	at, total := l.Int(tb, "at", 5), l.Int(tb, "deliveries", 10_000)
	refused := 0
	for range total {
		if w.Size() > at {
			w.Failure(&cfg, Attempt{})
			refused++
		} else {
			w.Success(&cfg, Attempt{}, w.Size())
		}
	}
	fmt.Fprintf(&s.out, "%-20s %5.1f %% deferred\n", cfg.Positive, 100*float64(refused)/float64(total))
}

func (s *script) parse(text string) {
	strict := ""
	if f, err := ParseFeedback(text); err != nil {
		strict = err.Error()
	} else {
		strict = f.String()
	}
	f, warning := ParsePostfixFeedback(text)
	fmt.Fprintf(&s.out, "%q\n  configuration: %s\n  Postfix:       %s\n", text, strict, f)
	if warning != "" {
		fmt.Fprintf(&s.out, "                 %s\n", warning)
	}
}

// serve delivers to a server with a number of places, all slots always in use: a
// connection that finds no place is refused at once, and so is every bad-th
// connection if bad is given. The oldest delivery ends first. It prints the window
// whenever it changes, with the closed levels.
func (s *script) serve(places, deliveries, bad int) {
	before := s.w.Size()
	show := func(what string) {
		if now := s.w.Size(); now != before {
			open := ""
			if l := s.w.levels; l != nil && l.ceiling > 0 {
				open = fmt.Sprintf(", closed from %d on", l.ceiling)
				if l.trial != noTrial {
					open = fmt.Sprintf(", trying %d", l.ceiling)
				}
			}
			fmt.Fprintf(&s.out, "%-7s at connection %4d: from %2d to %2d%s\n", what, s.connections, before, now, open)
			before = now
		}
	}
	refused := 0
	for done := 0; done < deliveries; done++ {
		for len(s.running) < s.w.Size() {
			s.connections++
			a := s.w.Begin(len(s.running) + 1)
			if len(s.running) >= places || bad > 0 && s.connections%bad == 0 {
				refused++
				s.w.Failure(&s.cfg, a)
				show("refusal")
				continue
			}
			s.running = append(s.running, a)
		}
		a := s.running[0]
		s.w.Success(&s.cfg, a, len(s.running))
		s.running = s.running[1:]
		show("success")
	}
	fmt.Fprintf(&s.out, "%d delivered, %d refused\n", deliveries, refused)
}
