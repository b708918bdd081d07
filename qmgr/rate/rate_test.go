package rate

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// Limits are written by hand; an error has a position.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"  ":                       "",
		"100/s":                    "100/s",
		"600/min":                  "600/min",
		"5000/h":                   "5000/h",
		"50000/d":                  "50000/d",
		"1/ms":                     "1/ms",
		"5/10s":                    "5/10s",
		"5/60s":                    "5/min",
		"5/24 hours":               "5/d",
		"5/25h":                    "5/25h",
		" 50000 / day ,10/second ": "10/s, 50000/d",
		"1000000000/31d":           "1000000000/31d",

		"x":                                  `"x": at 1: want a number`,
		"0/s":                                `"0/s": at 1: want a number from 1 to 1000000000`,
		"-1/s":                               `"-1/s": at 1: want a number`,
		"1000000001/s":                       `"1000000001/s": at 1: want a number from 1 to 1000000000`,
		"10":                                 `"10": at 3: want a slash and a time, as in 100/s`,
		"10 s":                               `"10 s": at 4: want a slash and a time, as in 100/s`,
		"10/":                                `"10/": at 4: want a unit of time: s, min, h or d`,
		"10/fortnight":                       `"10/fortnight": at 4: want a unit of time: s, min, h or d`,
		"10/m":                               `"10/m": at 4: want a unit of time: min for minutes`,
		"10/0s":                              `"10/0s": at 4: want a number from 1 to 1000000000`,
		"10/32d":                             `"10/32d": at 4: want at most 31 days`,
		"10/s 5/h":                           `"10/s 5/h": at 6: want a comma, or nothing more`,
		"10/s,":                              `"10/s,": at 6: want a number`,
		"10/s, 600/60s":                      "10/s, 600/min",
		"10/s, 6/1s":                         `"10/s, 6/1s": at 7: there is another limit for the same time`,
		"1/1s,1/2s,1/3s,1/4s,1/5s,1/6s,1/7s": `"1/1s,1/2s,1/3s,1/4s,1/5s,1/6s,1/7s": at 31: want at most 6 limits`,
	} {
		limits, err := Parse(text)
		got := limits.String()
		if err != nil {
			got = err.Error()
			if e := (*ParseError)(nil); !errors.As(err, &e) || e.Text != text || e.At > len(text) {
				t.Errorf("%q: the error is %#v", text, err)
			}
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
		if err == nil && (limits == Limits{}) != (strings.TrimSpace(text) == "") {
			t.Errorf("%q is no limit: %v", text, limits == Limits{})
		}
	}
}

// A configuration is read and shown through these.
func TestText(t *testing.T) {
	var l Limits
	if err := l.UnmarshalText([]byte("5/h,1/s")); err != nil || l.String() != "1/s, 5/h" {
		t.Errorf("%v, %v", l, err)
	}
	if err := l.UnmarshalText([]byte("5")); err == nil || l.String() != "1/s, 5/h" {
		t.Errorf("%v, %v", l, err)
	}
	if text, _ := l.MarshalText(); string(text) != "1/s, 5/h" {
		t.Errorf("%s", text)
	}
	if got := (Limit{N: 1, Per: 1500 * time.Microsecond}).String(); got != "1/1.5ms" {
		t.Errorf("%s", got)
	}
}

// All errors of limits made by a program are returned at once.
func TestOf(t *testing.T) {
	_, err := Of(append(slices.Repeat([]Limit{{N: 1, Per: time.Second}}, 9), Limit{}, Limit{N: -1, Per: -1}, Limit{N: 1, Per: 1 << 62})...)
	for _, want := range []string{"12 limits", "another limit", "0: want a number", "-1: want a number", "-1ns: want", "want a time"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among: %v", want, err)
		}
	}
	if l, err := Of(); err != nil || l != (Limits{}) {
		t.Error(err)
	}
	if a, b := of(Limit{1, time.Hour}, Limit{2, time.Second}), of(Limit{2, time.Second}, Limit{1, time.Hour}); a != b || len(a.All()) != 2 {
		t.Errorf("%v is not %v", a, b)
	}
}

// of returns limits that are known to be valid.
func of(limits ...Limit) Limits {
	l, err := Of(limits...)
	if err != nil {
		panic(err)
	}
	return l
}

// A naive is the log of all events.
type naive []mail.Instant

// within counts the events in a span that ends now, both ends included.
func (n naive) within(per time.Duration, now mail.Instant) (count int) {
	for i := len(n) - 1; i >= 0 && n[i] >= now.Add(-per); i-- {
		count++
	}
	return count
}

// sliced counts the events in the current slice and the sixteen before it.
func (n naive) sliced(per time.Duration, now mail.Instant) (count int) {
	slice := mail.Instant((per + parts - 1) / parts)
	for i := len(n) - 1; i >= 0 && n[i]/slice >= now/slice-parts; i-- {
		count++
	}
	return count
}

func anyLimits(rng *rand.Rand) (limits []Limit) {
	for range 1 + rng.IntN(3) {
		limits = append(limits, Limit{N: 1 + rng.IntN(1<<rng.IntN(6)), Per: perMin * time.Duration(1+rng.IntN(200))})
	}
	slices.SortFunc(limits, func(a, b Limit) int { return int(a.Per - b.Per) })
	return slices.CompactFunc(limits, func(a, b Limit) bool { return a.Per == b.Per })
}

// A caller that asks before each event never exceeds a limit in any span of time,
// wherever it begins, and does not wait longer than the definition says.
func TestNeverExceeds(t *testing.T) {
	for range 15 * golden.Runs(1) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		limits := anyLimits(rng)
		b := New(of(limits...))
		var log naive
		now := mail.Instant(rng.Int64N(1e12))
		pause := 1 + rng.Int64N(int64(limits[0].Per)/int64(limits[0].N)+1)
		for i := range 1000 {
			now += mail.Instant(rng.Int64N(pause) * rng.Int64N(3))
			ready, at := b.Ready(now)
			want := !slices.ContainsFunc(limits, func(l Limit) bool { return log.sliced(l.Per, now) >= l.N })
			if ready != want {
				t.Fatalf("seed %d, step %d: %v: ready %v, by the log %v", seed, i, limits, ready, want)
			}
			if !ready {
				checkWait(t, seed, &b, now, at)
				if rng.IntN(2) == 0 {
					continue
				}
				now = at
			}
			b.Take(now)
			log = append(log, now)
			for j, l := range limits {
				if n := log.within(l.Per, now); n > l.N {
					t.Fatalf("seed %d, step %d: %d went in %v", seed, i, n, l)
				}
				if use := b.Uses(now)[j]; use.Limit != l || use.Used != log.sliced(l.Per, now) {
					t.Fatalf("seed %d, step %d: %+v", seed, i, use)
				}
			}
		}
	}
}

// checkWait checks that the bucket is not ready before at, and is at that instant.
func checkWait(t *testing.T, seed uint64, b *Bucket, now, at mail.Instant) {
	t.Helper()
	if at <= now {
		t.Fatalf("seed %d: not ready at %v, but at %v", seed, now, at)
	}
	if ready, again := b.Ready(at - 1); ready || again != at {
		t.Fatalf("seed %d: ready at %v, a nanosecond too early", seed, at-1)
	}
	if ready, _ := b.Ready(at); !ready {
		t.Fatalf("seed %d: not ready at %v as promised", seed, at)
	}
}

// A limit could be kept by sending nothing: a sender that always has more must get
// at least 16/17 of it.
func TestUsesLimit(t *testing.T) {
	for _, l := range []Limit{{1, time.Second}, {2, time.Second}, {10, time.Minute}, {100, time.Second}, {50_000, 24 * time.Hour}} {
		b := New(of(l))
		start := mail.Instant(1e18 + 12345)
		now, count := start, 0
		for now.Sub(start) < 100*l.Per {
			ready, at := b.Ready(now)
			if !ready {
				now = at
				continue
			}
			b.Take(now)
			count++
		}
		if least := 100 * l.N * parts / (parts + 1); count < least || count > 100*l.N {
			t.Errorf("%v: %d in a hundred times its time, want at least %d", l, count, least)
		}
	}
}

// Reloading the configuration, even with other limits, does not reset what counts
// against them.
func TestConfigureRemembers(t *testing.T) {
	for range 40 * golden.Runs(1) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		limits := anyLimits(rng)
		b := New(of(limits...))
		var log naive
		now := mail.Instant(rng.Int64N(1e12))
		known := now // since when everything is known for the longest limit
		for i := range 300 {
			now += mail.Instant(rng.Int64N(int64(5 * perMin)))
			if rng.IntN(40) == 0 {
				longest := limits[len(limits)-1].Per
				known = max(known, now.Add(-longest))
				limits = anyLimits(rng)
				b.Configure(of(limits...), now)
			}
			if ready, _ := b.Ready(now); !ready {
				continue
			}
			b.Take(now)
			log = append(log, now)
			for _, l := range limits {
				if n := log.within(min(l.Per, now.Sub(known)), now); n > l.N {
					t.Fatalf("seed %d, step %d: %d went in %v", seed, i, n, l)
				}
			}
		}
	}
}

// An unchanged limit keeps its exact counts; one that is lowered below its use
// allows nothing until enough of that has expired.
func TestConfigure(t *testing.T) {
	minute := func(n int) Limits { return of(Limit{N: n, Per: time.Minute}) }
	now := mail.Instant(time.Hour)
	b := New(minute(10))
	for range 7 {
		b.Take(now)
	}
	b.Configure(minute(8), now)
	if use := b.Uses(now)[0]; use.Used != 7 || use.Limit.N != 8 {
		t.Errorf("%+v", use)
	}
	b.Configure(minute(2), now)
	if ready, at := b.Ready(now); ready || at < now.Add(time.Minute) || at > now.Add(64*time.Second) {
		t.Errorf("ready %v at %v", ready, at)
	}
	b.Configure(Limits{}, now)
	if ready, at := b.Ready(now); !ready || at != now || b.Limited() {
		t.Errorf("without limits: ready %v at %v", ready, at)
	}
	b.Configure(minute(2), now)
	if ready, _ := b.Ready(now); !ready || !b.Limited() {
		t.Error("what was taken without limits is counted")
	}
}

// The host guards the clock, but if it steps back, nothing expires early.
func TestClockStepsBack(t *testing.T) {
	b := New(of(Limit{N: 1, Per: time.Second}))
	b.Take(mail.Instant(time.Hour))
	if ready, at := b.Ready(mail.Instant(time.Minute)); ready || at < mail.Instant(time.Hour) {
		t.Errorf("ready %v at %v", ready, at)
	}
}

// Any text is refused, or is equal after formatting and parsing again.
func FuzzParse(f *testing.F) {
	f.Add("10/s, 5000/h")
	f.Add("1/31days,2/ms")
	f.Fuzz(func(t *testing.T, text string) {
		limits, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Of(limits.All()...); err != nil || again != limits {
			t.Errorf("%q: %v", text, err)
		}
		again, err := Parse(limits.String())
		if err != nil || again != limits {
			t.Errorf("%q is written %q: %v", text, limits, err)
		}
	})
}

func BenchmarkReadyTake(b *testing.B) {
	limits, _ := Parse("100000/s, 5000000/min, 100000000/d")
	bucket := New(limits)
	now := mail.Instant(1e18)
	b.ReportAllocs()
	for b.Loop() {
		ready, at := bucket.Ready(now)
		if !ready {
			now = at
		}
		bucket.Take(now)
		now += 10_000
	}
}

// Events that are counted for short times only leave longer limits unchanged.
func TestTakeWithin(t *testing.T) {
	const now = mail.Instant(1_000_000 * time.Second)
	limits, err := Parse("2/s, 2/min, 2/h")
	if err != nil {
		t.Fatal(err)
	}
	b := New(limits)
	b.TakeWithin(time.Minute, now)
	for i, want := range []int{1, 1, 0} {
		if use := b.Uses(now)[i]; use.Used != want {
			t.Errorf("%d of %v are used, want %d", use.Used, use.Limit, want)
		}
	}
}
