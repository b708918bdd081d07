package mail

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Due instants are sums of instants and durations of any size; a sum beyond the
// end of time must not become one in the past, or mail would be retried at once
// for ever.
func TestInstantAdd(t *testing.T) {
	for _, c := range []struct {
		i    Instant
		d    time.Duration
		want Instant
	}{
		{0, 0, 0},
		{5, 7, 12},
		{5, -7, -2},
		{Never, 0, Never},
		{Never, 1, Never},
		{Never - 1, 1, Never},
		{Never - 1, 2, Never},
		{Never - 5, 1<<63 - 1, Never},
		{-5, 1<<63 - 1, Never - 5},
		{Never, -1, Never - 1},
	} {
		if got := c.i.Add(c.d); got != c.want {
			t.Errorf("%d.Add(%d) = %d, want %d", c.i, c.d, got, c.want)
		}
	}
}

// Sub is the inverse of Add, and seconds are rounded down on both sides of
// 1970, so that differences of seconds never exceed the time that has passed.
func TestInstantArithmetic(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 10000 {
		i := Instant(rng.Int64()>>rng.IntN(63)) - Instant(rng.Int64()>>rng.IntN(63))/2
		d := time.Duration(rng.Int64() >> (1 + rng.IntN(62)))
		if sum := i.Add(d); sum != Never && sum.Sub(i) != d {
			t.Fatalf("seed %d: %d + %d - %d = %d", seed, i, d, i, sum.Sub(i))
		}
		s := i.Seconds()
		if rest := int64(i) - s*int64(time.Second); rest < 0 || rest >= int64(time.Second) {
			t.Fatalf("seed %d: %d has %d whole seconds", seed, i, s)
		}
	}
}

// Traces are compared as text, so an instant has one text on every machine.
func TestInstantString(t *testing.T) {
	for i, want := range map[Instant]string{
		0:              "0s",
		1:              "0.000000001s",
		12_000_000_345: "12.000000345s",
		60_000_000_000: "60s",
		-1:             "-1.999999999s",
		-1_000_000_000: "-1s",
		Never:          "never",
		Never - 1:      "9223372036.854775806s",
	} {
		if got := i.String(); got != want {
			t.Errorf("%d prints %q, want %q", int64(i), got, want)
		}
	}
}
