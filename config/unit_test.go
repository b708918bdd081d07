package config

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Times are written as Postfix's administrators and Go's programmers do.
func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"300": 300 * time.Second, "300s": 300 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "5d": 120 * time.Hour,
		"2w": 336 * time.Hour, "1m30s": 90 * time.Second, "300us": 300 * time.Microsecond, "0": 0, "0s": 0, "1d1h1m1s": 25*time.Hour + time.Minute + time.Second,
		"15250w": 15250 * 7 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text, time.Second); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	if got, err := ParseDuration("5", 24*time.Hour); err != nil || got != 120*time.Hour {
		t.Errorf("5, in days: %v %v", got, err)
	}
	for text, want := range map[string]string{
		"": `"" is not a time`, "-1": "negative", "-1s": "negative", "s": "number is missing", "5x": `"x" is not a unit`, "5 s": "a space", "1h30": "no unit",
		"1.5h": "fractions", "15251w": "292 years", "15250w99999d": "292 years", "9999999999999999999s": "292 years", "+5s": "missing", "5M": "not a unit",
	} {
		if got, err := ParseDuration(text, time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v, want %q", text, got, err, want)
		}
	}
}

// Every time and size that is written is read back to the same value.
func TestUnitsRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		d := time.Duration(rng.Int64() >> rng.IntN(63))
		if u := timeUnits[rng.IntN(len(timeUnits))].span; rng.IntN(2) == 0 {
			d -= d % u
		}
		if got, err := ParseDuration(FormatDuration(d), time.Second); err != nil || got != d {
			t.Fatalf("%d ns: %q is read as %v %v", d, FormatDuration(d), got, err)
		}
		n := rng.Int64() >> rng.IntN(63)
		if u := sizeUnits[rng.IntN(len(sizeUnits))].size; rng.IntN(2) == 0 {
			n -= n % u
		}
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Fatalf("%d: %q is read as %v %v", n, FormatSize(n), got, err)
		}
	}
}

// Sizes are in steps of 1024; a number that Postfix's administrators know by
// heart stays that number.
func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "10240000": 10240000, "64K": 65536, "10M": 10 << 20, "2G": 2 << 30, "8589934591G": 8589934591 << 30} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
		if got := FormatSize(want); got != text && want < math.MaxInt32 {
			t.Errorf("%d is written %q, want %q", want, got, text)
		}
	}
	for text, want := range map[string]string{
		"": "not a size", "K": "not a size", "-1": "negative", "1T": `"T" is not a unit`, "1 K": "not a unit", "8589934592G": "too large", "99999999999999999999": "too large", "1.5M": "not a unit",
	} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v, want %q", text, got, err, want)
		}
	}
}
