package sim

import (
	"math"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
)

// Logarithm and exponential are our own so that all machines agree; they must
// still be a logarithm and an exponential.
func TestArithmetic(t *testing.T) {
	r := prng.New(1)
	for range 100000 {
		x := unit(&r)
		if !(x > 0 && x <= 1) {
			t.Fatalf("unit gave %v", x)
		}
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 1e-13*max(1, math.Abs(want)) {
			t.Fatalf("ln(%v) = %v, want %v", x, got, want)
		}
		y := normal(&r) * 3
		if got, want := exp(y), math.Exp(y); math.Abs(got-want) > 1e-13*want {
			t.Fatalf("exp(%v) = %v, want %v", y, got, want)
		}
	}
	for _, x := range []float64{1, 2, 0.5, 1e-300, math.MaxFloat64} {
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
			t.Errorf("ln(%v) = %v, want %v", x, got, want)
		}
	}
}

// The bits of a draw are part of what a seed means: a change of any of these
// makes every recorded run a different one.
func TestDrawsAreFixed(t *testing.T) {
	r := prng.New(42)
	got := []time.Duration{
		Exponential(time.Second).draw(&r), LogNormal(time.Second, 0.5).draw(&r), Uniform(time.Second, 2*time.Second).draw(&r),
		Exponential(time.Hour).draw(&r), LogNormal(time.Minute, 1.5).draw(&r),
	}
	want := []time.Duration{205420112, 561086314, 1605122449, 5657680355015, 30796425474}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("draw %d is %d, was %d", i, got[i], want[i])
		}
	}
}

// A scenario's author writes a mean, or a median; the times that are drawn must
// have it.
func TestSpreadMeans(t *testing.T) {
	const n = 200000
	for _, c := range []struct {
		name             string
		s                Spread
		mean             float64 // seconds
		least, most      time.Duration
		deviationAllowed float64
	}{
		{"fixed", Fixed(time.Second), 1, time.Second, time.Second, 0},
		{"uniform", Uniform(time.Second, 3*time.Second), 2, time.Second, 3 * time.Second, 0.01},
		{"exponential", Exponential(2 * time.Second), 2, 0, 2000 * time.Second, 0.03},
		{"lognormal", LogNormal(time.Second, 0.5), math.Exp(0.125), 0, 1000 * time.Second, 0.02},
	} {
		r := prng.New(7)
		var sum float64
		for range n {
			d := c.s.draw(&r)
			if d < c.least || d > c.most {
				t.Fatalf("%s gave %v", c.name, d)
			}
			sum += d.Seconds()
		}
		if mean := sum / n; math.Abs(mean-c.mean) > c.deviationAllowed {
			t.Errorf("%s has a mean of %.4f s, want %.4f", c.name, mean, c.mean)
		}
	}
	if !(Spread{}).IsZero() || Fixed(1).IsZero() {
		t.Error("IsZero is wrong")
	}
	r := prng.New(1)
	if got := Fixed(time.Second).drawSum(&r, 5); got != 5*time.Second {
		t.Errorf("five seconds add up to %v", got)
	}
	if got := Uniform(time.Second, 2*time.Second).drawSum(&r, 5); got < 5*time.Second || got > 10*time.Second {
		t.Errorf("five times of one to two seconds add up to %v", got)
	}
}

func TestPercent(t *testing.T) {
	r := prng.New(3)
	before := r
	if percent(&r, 0) || r != before {
		t.Error("no percentage drew a number, or came true")
	}
	hits := 0
	for range 100000 {
		if percent(&r, 12.5) {
			hits++
		}
		if !percent(&r, 100) {
			t.Fatal("100 percent was not certain")
		}
	}
	if hits < 12000 || hits > 13000 {
		t.Errorf("12.5 percent came true %d times of 100000", hits)
	}
}
