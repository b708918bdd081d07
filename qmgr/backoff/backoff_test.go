package backoff

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// The two promises hold for every configuration, age and random draw: no retry
// before the minimum, none after the maximum; and between them the wait differs
// from the age by the jitter at most.
func TestNextKeepsPromises(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	source := prng.New(seed)
	for range 100_000 {
		cfg := Config{
			MinimalBackoffTime: 1 + time.Duration(r.Int64N(1<<r.IntN(62))),
			MaximalBackoffTime: 1 + time.Duration(r.Int64N(1<<r.IntN(62))),
			JitterPercent:      r.IntN(102) - 1,
		}
		created := mail.Instant(1 + r.Int64N(1<<60))
		age := time.Duration(r.Int64N(1 << r.IntN(61)))
		now := created.Add(age)
		next := Next(&cfg, created, now, &source)
		if next == mail.Never {
			continue
		}
		wait := next.Sub(now)
		shortest := cfg.MinimalBackoffTime
		longest := max(shortest, cfg.MaximalBackoffTime)
		if wait < shortest || wait > longest {
			t.Fatalf("seed %d: %+v: at age %v it waits %v", seed, cfg, age, wait)
		}
		percent := float64(cfg.WithDefaults().JitterPercent)
		if percent < 0 {
			percent = 0
		}
		without := float64(max(shortest, min(age, longest)))
		if math.Abs(float64(wait)-without) > without*percent/100+200 {
			t.Fatalf("seed %d: %+v: at age %v it waits %v, more than %v %% off", seed, cfg, age, wait, percent)
		}
	}
}

// Mail whose age is unknown, or negative after the clock was set back, waits for
// the minimum and never expires for that reason.
func TestUnknownAge(t *testing.T) {
	cfg := Config{JitterPercent: -1, DelayWarningTime: time.Second}
	now := mail.Instant(1_700_000_000 * time.Second)
	for name, created := range map[string]mail.Instant{"not set": 0, "in the future": now.Add(time.Hour)} {
		if got := Next(&cfg, created, now, nil).Sub(now); got != 300*time.Second {
			t.Errorf("%s: waits %v", name, got)
		}
		if Expired(&cfg, created, now, false) || WarnDue(&cfg, created, now, false) {
			t.Errorf("%s: expired or late", name)
		}
	}
	cfg.MaximalQueueLifetime = -1
	if Expired(&cfg, 0, now, false) || !Expired(&cfg, now, now, false) {
		t.Error("with a single attempt: one without an age is given up, or one just taken in is not")
	}
}

// A sender is warned once.
func TestWarnOnce(t *testing.T) {
	cfg := Config{DelayWarningTime: time.Hour}
	then := mail.Instant(time.Hour)
	if now := then.Add(2 * time.Hour); !WarnDue(&cfg, then, now, false) || WarnDue(&cfg, then, now, true) {
		t.Error("the warning is missing, or repeated")
	}
	cfg.DelayWarningTime = -1
	if WarnDue(&cfg, then, then.Add(time.Hour), false) {
		t.Error("a warning though they are off")
	}
}

// What a message's age leads to next: it expires, or its sender must be warned before that, once. Mail of the null
// sender has nobody to warn.
func TestConcern(t *testing.T) {
	const then = mail.Instant(1e18)
	for _, c := range []struct {
		cfg          Config
		null, warned bool
		want         time.Duration
	}{
		{Config{}, false, false, 120 * time.Hour}, {Config{BounceQueueLifetime: time.Hour}, true, false, time.Hour},
		{Config{DelayWarningTime: time.Hour}, false, false, time.Hour}, {Config{DelayWarningTime: time.Hour}, false, true, 120 * time.Hour},
		{Config{DelayWarningTime: time.Hour}, true, false, 120 * time.Hour}, {Config{DelayWarningTime: time.Hour, MaximalQueueLifetime: time.Minute}, false, false, time.Minute},
		{Config{MaximalQueueLifetime: -1}, false, false, 0},
	} {
		if got := Concern(&c.cfg, then, c.null, c.warned); got != then.Add(c.want) {
			t.Errorf("%+v, null sender %t, warned %t: %v, want %v", c.cfg, c.null, c.warned, got.Sub(then), c.want)
		}
	}
	if got := Concern(&Config{}, 0, false, false); got != mail.Never {
		t.Errorf("a message of unknown age: %v", got)
	}
}

// The zero value is valid and is Postfix's, and all errors are returned at once.
func TestConfig(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	want := Config{300 * time.Second, 4000 * time.Second, 120 * time.Hour, 120 * time.Hour, 0, 10}
	if got := (Config{}).WithDefaults(); got != want {
		t.Errorf("defaults are %+v, want %+v", got, want)
	}
	kept := Config{1, 2, -1, -1, -1, -1}
	if got := kept.WithDefaults(); got != kept {
		t.Errorf("given values became %+v", got)
	}
	err := Config{MinimalBackoffTime: -1, MaximalBackoffTime: -1, JitterPercent: 101}.Validate()
	if err == nil {
		t.Fatal("no complaint")
	}
	for _, want := range []string{"minimal", "maximal", "jitter 101"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about %q in: %v", want, err)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	var cfg Config
	r := prng.New(1)
	b.ReportAllocs()
	for b.Loop() {
		Next(&cfg, 1, mail.Instant(time.Hour), &r)
	}
}
