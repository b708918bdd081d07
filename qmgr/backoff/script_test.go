package backoff

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// The scripts show timelines of messages; this is their language. Every
// command takes min=, max=, lifetime=, bounce-lifetime=, warning= and jitter=
// (percent; off where not given).
func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler { return handle })
}

func handle(tb testing.TB, b *golden.Block) string {
	var out strings.Builder
	for _, l := range b.Lines {
		cfg := config(tb, l)
		switch l.Name {
		case "waits": // waits AGE…: how long a message of each age waits
			waits(tb, &out, &cfg, l)
		case "timeline":
			timeline(tb, &out, &cfg, l)
		case "spread": // spread AGE draws=N: how the waits are distributed
			spread(tb, &out, &cfg, l)
		case "over": // over AGE…: what is due at each age
			over(tb, &out, &cfg, l)
		default:
			tb.Fatalf("%s: no such command: %s", l.Pos, l.Name)
		}
	}
	return out.String()
}

func config(tb testing.TB, l *golden.Line) Config {
	cfg := Config{
		MinimalBackoffTime:   l.Duration(tb, "min", 0),
		MaximalBackoffTime:   l.Duration(tb, "max", 0),
		MaximalQueueLifetime: l.Duration(tb, "lifetime", 0),
		BounceQueueLifetime:  l.Duration(tb, "bounce-lifetime", 0),
		DelayWarningTime:     l.Duration(tb, "warning", 0),
		JitterPercent:        l.Int(tb, "jitter", -1),
	}
	if err := cfg.Validate(); err != nil {
		tb.Fatalf("%s: %v", l.Pos, err)
	}
	return cfg
}

const origin = mail.Instant(1_700_000_000 * time.Second)

func waits(tb testing.TB, out *strings.Builder, cfg *Config, l *golden.Line) {
	for i := range l.Words {
		age := duration(tb, l, i)
		now := origin.Add(age)
		fmt.Fprintf(out, " %v", Next(cfg, origin, now, nil).Sub(now))
	}
	out.WriteString("\n")
}

// timeline follows one message whose every attempt fails at once. With
// scan=D,phase=D it is found only at phase, phase+scan, …, as in Postfix; otherwise
// it is tried when it is due. attempts=N limits the output.
func timeline(tb testing.TB, out *strings.Builder, cfg *Config, l *golden.Line) {
	scan, phase := l.Duration(tb, "scan", 0), l.Duration(tb, "phase", 0)
	printed, null := l.Int(tb, "attempts", math.MaxInt), l.Has("null-sender")
	r := prng.New(uint64(l.Int(tb, "seed", 1)))
	now, warned, n := origin, false, 0
	for {
		n++
		if n <= printed {
			fmt.Fprintf(out, " %v", now.Sub(origin))
		}
		if Expired(cfg, origin, now, null) {
			fmt.Fprintf(out, "; given up at %v, attempts: %d\n", now.Sub(origin), n)
			return
		}
		if WarnDue(cfg, origin, now, warned) {
			warned = true
			out.WriteString(" (warning)")
		}
		now = Next(cfg, origin, now, &r)
		if scan > 0 {
			late := (now.Sub(origin) - phase) % scan
			if late > 0 {
				now = now.Add(scan - late)
			}
		}
	}
}

func spread(tb testing.TB, out *strings.Builder, cfg *Config, l *golden.Line) {
	age, draws := duration(tb, l, 0), l.Int(tb, "draws", 20_000)
	r := prng.New(1)
	now := origin.Add(age)
	const parts = 5
	waits := make([]time.Duration, draws)
	for i := range waits {
		waits[i] = Next(cfg, origin, now, &r).Sub(now)
	}
	low, high := slices.Min(waits), slices.Max(waits)
	var counts [parts]int
	for _, w := range waits {
		counts[min(parts-1, int64(w-low)*parts/max(1, int64(high-low)))]++
	}
	fmt.Fprintf(out, "age %v waits %v to %v, fifths", age, low.Round(time.Second), high.Round(time.Second))
	for _, c := range counts {
		fmt.Fprintf(out, " %d%%", (100*c+draws/2)/draws)
	}
	out.WriteString("\n")
}

func over(tb testing.TB, out *strings.Builder, cfg *Config, l *golden.Line) {
	for i := range l.Words {
		age := duration(tb, l, i)
		now := origin.Add(age)
		fmt.Fprintf(out, "%6v: expired %t, from the null sender %t, warning %t\n", age,
			Expired(cfg, origin, now, false), Expired(cfg, origin, now, true), WarnDue(cfg, origin, now, false))
	}
}

func duration(tb testing.TB, l *golden.Line, i int) time.Duration {
	d, err := time.ParseDuration(l.Word(tb, i))
	if err != nil {
		tb.Fatalf("%s: %v", l.Pos, err)
	}
	return d
}
