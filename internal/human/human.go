// Package human formats numbers, sizes, times and untrusted text for people who read
// them on a terminal.
package human

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Age is a length of time in one unit.
func Age(d time.Duration) string {
	text := Span(d)
	for i, c := range text {
		if c > '9' {
			return text[:i+1]
		}
	}
	return text
}

// Plain makes text safe for a terminal: what could move the cursor or turn the
// direction of writing becomes "?".
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError,
			r == 0x061c, r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '?'
		}
		return r
	}, text)
}

// Shorten cuts text to a number of columns, with an ellipsis; 0 is no limit.
func Shorten(text string, columns int) string {
	if columns <= 0 || utf8.RuneCountInString(text) <= columns {
		return text
	}
	runes := []rune(text)
	return string(runes[:columns-1]) + "…"
}

// Wrap returns a text in lines of at most so many columns, broken at spaces; a longer word has a line of its
// own. With no columns there is no limit.
func Wrap(text string, columns int) []string {
	var lines []string
	for columns > 0 && utf8.RuneCountInString(text) > columns {
		end, width := -1, 0 // of the line
		for i, r := range text {
			if r == ' ' && i > 0 && (width <= columns || end < 0) {
				end = i
			}
			if width++; width > columns && end >= 0 {
				break
			}
		}
		if end < 0 {
			break
		}
		lines, text = append(lines, strings.TrimRight(text[:end], " ")), strings.TrimLeft(text[end:], " ")
	}
	return append(lines, text)
}

// Size is a size in at most five characters, as in 512, 4.2k, 131k, 1.3M
// (thousands and millions).
func Size(octets int64) string {
	if octets < 1000 {
		return strconv.FormatInt(octets, 10)
	}
	size, unit := float64(octets), ""
	for _, unit = range []string{"k", "M", "G", "T", "P"} {
		if size /= 1000; size < 999.5 {
			break
		}
	}
	if size < 9.95 {
		return fmt.Sprintf("%.1f%s", size, unit)
	}
	return fmt.Sprintf("%.0f%s", size, unit)
}

// Bytes is a size with its unit.
func Bytes(octets int64) string {
	if octets < 1000 {
		return Number(octets) + " bytes"
	}
	text := Size(octets)
	return text[:len(text)-1] + " " + text[len(text)-1:] + "B"
}

// Number writes a number with commas between the thousands.
func Number[T int | int64 | uint32 | uint64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Count is a number of things, as in "1 message", "2,500 messages" and "3 deliveries".
func Count[T int | int64 | uint32 | uint64](n T, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ry"):
		thing = strings.TrimSuffix(thing, "y") + "ie"
	case strings.HasSuffix(thing, "s"):
		thing += "e"
	}
	return Number(n) + " " + thing + "s"
}

// Span is a length of time in two units at most, as in 45s, 12m, 3h20m, 5d2h.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, 24*time.Hour, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	if rest := d % large / small; rest > 0 {
		return fmt.Sprintf("%d%s%d%s", d/large, largeName, rest, smallName)
	}
	return fmt.Sprintf("%d%s", d/large, largeName)
}

// When is an instant for people, as in "3h20m ago, 21 Nov 10:01:02".
func When(t, now time.Time) string { return away(t, now) + ", " + local(t, now) }

// Until is an end for people, as in "until 21 Nov 10:01:02 (in 3h20m)".
func Until(t, now time.Time) string { return "until " + local(t, now) + " (" + away(t, now) + ")" }

func away(t, now time.Time) string {
	if t.After(now) { // rounded up to a second: what was ordered for 10m begins with "in 10m"
		return "in " + Span(t.Sub(now)+time.Second-1)
	}
	return Span(now.Sub(t)) + " ago"
}

func local(t, now time.Time) string {
	if t.Local().Year() != now.Local().Year() {
		return t.Local().Format("2 Jan 2006 15:04")
	}
	return t.Local().Format("2 Jan 15:04:05")
}
