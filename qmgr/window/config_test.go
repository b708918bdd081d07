package window

import (
	"strings"
	"testing"
)

// All errors of a configuration are returned at once, and the zero value is valid.
func TestConfigValidate(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	if got := (Config{}).WithDefaults(); got.Initial != 5 || got.Limit != 0 || got.Positive.String() != "1" {
		t.Errorf("defaults are %+v", got)
	}
	if got := (Config{Initial: 7}).WithDefaults().Initial; got != 7 {
		t.Errorf("a given initial size became %d", got)
	}
	err := Config{Initial: -1, Limit: -2, FailedCohortLimit: -3, Rule: 9}.Validate()
	if err == nil {
		t.Fatal("no complaint")
	}
	for _, want := range []string{"concurrency -1", "limit -2", "cohort limit -3", "rule 9"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about %q in: %v", want, err)
		}
	}
}

// Configuration files hold rules and feedback as text.
func TestText(t *testing.T) {
	for _, text := range []string{"source", "readme"} {
		var r Rule
		if err := r.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
		}
		if got, _ := r.MarshalText(); string(got) != text {
			t.Errorf("rule %s is written %s", text, got)
		}
	}
	var r Rule
	if err := r.UnmarshalText([]byte("postfix")); err == nil || r != RuleSource {
		t.Errorf("rule postfix: %v, %v", r, err)
	}
	for _, text := range []string{"1", "0", "0.125", "1/3", "1/concurrency", "0.5/sqrt_concurrency"} {
		var f, back Feedback
		if err := f.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
		}
		written, _ := f.MarshalText()
		if err := back.UnmarshalText(written); err != nil || back != f {
			t.Errorf("%s is written %s and read back as %v: %v", text, written, back, err)
		}
	}
	kept, _ := Constant(0.5)
	if err := kept.UnmarshalText([]byte("5")); err == nil || kept.String() != "0.5" {
		t.Errorf("feedback 5: %v, %v", kept, err)
	}
}

// A limit that is lowered while mail flows must hold at once, not only when
// the destination begins to fail.
func TestReconfigure(t *testing.T) {
	cfg := Config{Initial: 5}
	w := New(&cfg)
	cfg.Limit = 3
	w.Success(&cfg, Attempt{}, 5)
	if w.Size() != 5 {
		t.Errorf("size %d: a success shrank the window", w.Size())
	}
	if w.Reconfigure(&cfg); w.Size() != 3 {
		t.Errorf("size %d above the new limit", w.Size())
	}
}

// Any text must parse or return an error, and accepted feedback must be between 0
// and 1.
func FuzzParseFeedback(f *testing.F) {
	for _, seed := range []string{"1", "1/8", "1 / concurrency", "0.5/sqrt_concurrency", "1e-3", ".5.", "-", "1/1e-30", "5e-324/2", "1\r/2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lenient, warning := ParsePostfixFeedback(text)
		strict, err := ParseFeedback(text)
		for _, fb := range []Feedback{lenient, strict} {
			for _, size := range []int{1, 2, 1000} {
				if g := fb.at(size); !(g >= 0 && g <= 1) {
					t.Fatalf("%q counts %v at %d", text, g, size)
				}
			}
			if back, err := ParseFeedback(fb.String()); err != nil || back != fb {
				t.Fatalf("%q is written %s, read back as %v: %v", text, fb, back, err)
			}
		}
		if err == nil && warning == "" && strict != lenient {
			t.Fatalf("%q is %v for the configuration, %v for Postfix", text, strict, lenient)
		}
	})
}

// One delivery is one of these; the whole core has 3 µs.
func BenchmarkSuccessFailure(b *testing.B) {
	cfg := Config{Initial: 5, Limit: 20, FailedCohortLimit: 100}
	cfg.Positive, _ = PerConcurrency(1)
	cfg.Negative, _ = PerSqrtConcurrency(1)
	w := New(&cfg)
	b.ReportAllocs()
	for b.Loop() {
		w.Success(&cfg, Attempt{}, 20)
		w.Failure(&cfg, Attempt{})
	}
}
