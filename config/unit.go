package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// timeUnits are the units of a time, longest first. Those down to s are
// Postfix's; the others are Go's, for times shorter than a second.
var timeUnits = [...]struct {
	name string
	span time.Duration
}{
	{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond},
}

// ParseDuration reads a time: numbers with the units w, d, h, m, s, ms, us or ns
// in sequence, as in "5d", "90s" or "1h30m". A number without a unit is in the
// given one, as in Postfix. The result is never negative.
func ParseDuration(text string, unit time.Duration) (time.Duration, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return times(n, unit)
	}
	if strings.HasPrefix(text, "-") {
		return 0, fmt.Errorf("%q is negative", text)
	}
	rest := text
	var sum time.Duration
	for rest != "" {
		number := rest[:countDigits(rest)]
		if number == "" {
			return 0, fmt.Errorf("%q is not a time: a number is missing before %q", text, rest)
		}
		rest = rest[len(number):]
		name := rest[:countLetters(rest)]
		rest = rest[len(name):]
		span, ok := timeUnit(name)
		if !ok {
			return 0, unknownUnit(text, name+rest)
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is longer than 292 years", text)
		}
		piece, err := times(n, span)
		if err != nil {
			return 0, err
		}
		if sum += piece; sum < 0 {
			return 0, fmt.Errorf("%q is longer than 292 years", text)
		}
	}
	if text == "" {
		return 0, fmt.Errorf("%q is not a time", text)
	}
	return sum, nil
}

func unknownUnit(text, name string) error {
	switch trimmed := strings.TrimSpace(name); {
	case trimmed == "":
		return fmt.Errorf("%q is not a time: the last number has no unit", text)
	case trimmed[0] == '.' || trimmed[0] == ',':
		return fmt.Errorf("%q is not a time: fractions are not supported; use a smaller unit", text)
	default:
		if _, ok := timeUnit(trimmed); ok {
			return fmt.Errorf("%q is not a time: it contains a space", text)
		}
		return fmt.Errorf("%q is not a time: %q is not a unit", text, trimmed)
	}
}

func times(n int64, unit time.Duration) (time.Duration, error) {
	switch {
	case n < 0:
		return 0, fmt.Errorf("%d%s is negative", n, unitName(unit))
	case n > math.MaxInt64/int64(unit):
		return 0, fmt.Errorf("%d%s is longer than 292 years", n, unitName(unit))
	}
	return time.Duration(n) * unit, nil
}

func timeUnit(name string) (time.Duration, bool) {
	for _, u := range timeUnits {
		if u.name == name {
			return u.span, true
		}
	}
	return 0, false
}

func unitName(unit time.Duration) string {
	for _, u := range timeUnits {
		if u.span == unit {
			return u.name
		}
	}
	return ""
}

func countDigits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

func countLetters(s string) int {
	return len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ"))
}

// FormatDuration writes a time in the largest unit that divides it, which
// ParseDuration reads back: "5m", "4000s", "0s".
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	for _, u := range timeUnits {
		if d%u.span == 0 {
			return strconv.FormatInt(int64(d/u.span), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// sizeUnits are the units of a size.
var sizeUnits = [...]struct {
	name string
	size int64
}{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}

// ParseSize reads a number of bytes: "10240000", or "64K", "10M", "2G", where
// K is 1024, M is 1024 K and G is 1024 M.
func ParseSize(text string) (int64, error) {
	number, name := text[:countDigits(text)], text[countDigits(text):]
	unit := int64(1)
	if name != "" {
		unit = 0
		for _, u := range sizeUnits {
			if u.name == name {
				unit = u.size
			}
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("%q is negative", text)
	case number == "":
		return 0, fmt.Errorf("%q is not a size", text)
	case unit == 0:
		return 0, fmt.Errorf("%q is not a size: %q is not a unit", text, strings.TrimSpace(name))
	case err != nil || n > math.MaxInt64/unit:
		return 0, fmt.Errorf("%q is too large", text)
	}
	return n * unit, nil
}

// FormatSize writes a number of bytes so that ParseSize reads it back, with a unit
// if that makes the number short.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.size && n%u.size == 0 && n/u.size < 10000 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
