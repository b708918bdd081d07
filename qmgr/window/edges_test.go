package window

import (
	"math"
	"testing"
)

// However many attempts are under way, the level at which each began is known.
func TestTrailHoldsAllUnderWay(t *testing.T) {
	e := newEvidence(0, 1, 7, 0)
	level := func(serial uint64) int32 { return int32(serial%50 + 1) }
	for serial := uint64(1); serial <= 1000; serial++ {
		e.begin(Attempt{serial: serial, level: int(level(serial))})
		if serial == 100 || serial == 500 {
			e.judged = serial - 60 // those before have ended
		}
		for s := e.judged + 1; s <= serial; s++ {
			if got := *e.begunAt(s); got != level(s) {
				t.Fatalf("of attempts %d to %d number %d is said to have begun at %d, want %d", e.judged+1, serial, s, got, level(s))
			}
		}
		if under := int(serial - e.judged); len(e.trail) < under || len(e.trail) >= max(2*1000, 2*shortestTrail) {
			t.Fatalf("a trail of %d for %d attempts under way", len(e.trail), under)
		}
	}
}

// A level above the limit is never tried, though its time has come, where the limit was
// lowered to the size of the window.
func TestNoTrialBeyondTheLimit(t *testing.T) {
	const sound = 8 // attempts at once that the destination supports
	round := func(w *Window, cfg *Config, well bool) {
		n := w.Size()
		var under []Attempt
		for i := range n {
			under = append(under, w.Begin(i+1))
		}
		for i, a := range under {
			if well || i < sound {
				w.Success(cfg, a, n)
			} else {
				w.Failure(cfg, a)
			}
		}
	}
	closed := func(cfg *Config) *Window {
		w := New(cfg)
		for n := 0; w.levels == nil || w.levels.ceiling == 0 || w.Size() >= w.levels.ceiling; n++ {
			if n == 1000 {
				t.Fatal("no level is closed")
			}
			round(&w, cfg, false)
		}
		return &w
	}
	cfg := levelConfig(20)
	w := closed(&cfg)
	size := w.Size()
	held := levelConfig(size)
	for range 2000 {
		if round(w, &held, true); w.Size() > size {
			t.Fatalf("the window is %d at a limit of %d", w.Size(), size)
		}
	}
	free := closed(&cfg)
	for range 2000 {
		round(free, &cfg, true)
	}
	if free.Size() <= size {
		t.Errorf("the window stays at %d though nothing fails and the limit is %d", free.Size(), cfg.Limit)
	}
}

// The longest decimal number that a text begins with is read, and nothing that is only
// part of one.
func TestLeadingNumber(t *testing.T) {
	for text, want := range map[string]struct {
		value float64
		rest  string
		ok    bool
	}{
		"":       {0, "", false},
		".":      {0, ".", false},
		"-.":     {0, "-.", false},
		"+":      {0, "+", false},
		"x1":     {0, "x1", false},
		".e5":    {0, ".e5", false},
		"5":      {5, "", true},
		"5.":     {5, "", true},
		".5":     {0.5, "", true},
		"+.5x":   {0.5, "x", true},
		"-0.25/": {-0.25, "/", true},
		"1e2":    {100, "", true},
		"1E-1 ":  {0.1, " ", true},
		"1.E+1":  {10, "", true},
		"1e":     {1, "e", true},
		"1E+":    {1, "E+", true},
		"1.2.3":  {1.2, ".3", true},
		"9e999":  {math.Inf(1), "", true},
		"0x10":   {0, "x10", true},
		"1_0":    {1, "_0", true},
	} {
		if value, rest, ok := leadingNumber(text); value != want.value || rest != want.rest || ok != want.ok {
			t.Errorf("%q is read as %v, %q, %v; want %v, %q, %v", text, value, rest, ok, want.value, want.rest, want.ok)
		}
	}
	for text, want := range map[string]bool{
		"0/1": true, "2147483647/2147483647": true, "2147483648/2147483648": false, "-1/1": false, "-1/-2": false,
		"1/2147483647": true, "1/2147483648": false, "1/0": false, "1/-1": false, "0/2147483648": false, "0.0000000001/0.0000000002": false,
	} {
		if f, err := ParseFeedback(text); (err == nil) != want {
			t.Errorf("%s is read as %v: %v", text, f, err)
		}
	}
	kept, _ := ParseFeedback("0.5")
	if err := kept.UnmarshalText([]byte("1/4")); err != nil || kept.String() != "0.25" {
		t.Errorf("1/4 is read as %v: %v", kept, err)
	}
}
