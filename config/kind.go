package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// A kind is a type of parameter with its range of values: how a value is read, how
// it is written, and how error messages and documents describe it.
type kind[T any] struct {
	name   string // as in the reference: "time", "whole number"
	unit   string // of a number without one; "" if there is none
	limits string // "at least 1s", "from 0 to 100"; "" if every value is allowed
	form   string // how it is written, if that is not obvious
	closed bool   // form lists all values
	read   func(*tomlfile.Node) (T, *flaw)
	// plain returns the value as in TOML: a string, bool, int64 or []string.
	plain func(T) any
}

// A flaw is the reason why a value cannot be used.
type flaw struct {
	at            tomlfile.Span // the zero span means the whole value
	message, hint string
	next          *flaw // the next one of a list
}

// allowed describes the allowed values, for error messages and the reference.
func (k kind[T]) allowed() string {
	if k.closed {
		return k.form
	}
	text := withArticle(k.name)
	switch {
	case strings.HasPrefix(k.limits, "at "), strings.HasPrefix(k.limits, "or "):
		text += ", " + k.limits
	case k.limits != "":
		text += " " + k.limits
	}
	switch {
	case strings.HasPrefix(k.form, "such as"):
		text += ", " + k.form
	case k.form != "":
		text += "; " + k.form
	}
	return text
}

// withArticle returns a noun with its indefinite article.
func withArticle(noun string) string {
	if strings.IndexByte("aeiouI", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}

// mismatch is the flaw of a value of the wrong type.
func mismatch(n *tomlfile.Node, want string) *flaw {
	f := &flaw{}
	switch n.Kind {
	case tomlfile.KindTable, tomlfile.KindList:
		f.message = fmt.Sprintf("this is %s, not %s", n.Kind, want)
	case tomlfile.KindBool:
		f.message = fmt.Sprintf("%s is not %s", n.Text, want)
	case tomlfile.KindText:
		f.message = fmt.Sprintf("%s is %s, not %s", tomlfile.QuoteText(n.Text), n.Kind, want)
	default:
		f.message = fmt.Sprintf("%s is %s, not %s", n.Text, n.Kind, want)
	}
	if n.Kind == tomlfile.KindTable {
		f.hint = "a [table] header or a dotted key uses the name of this parameter"
	}
	return f
}

// A limit is the range of a number. Zero may have a meaning of its own.
type limit[N int | int64 | time.Duration] struct {
	min, max N
	zero     string // what 0 means, if it has a special meaning; "" if it has none
}

func (l limit[N]) permits(v N) bool {
	return l.min <= v && v <= l.max || v == 0 && l.zero != ""
}

// outside returns the flaw of a number outside the range.
func (l limit[N]) outside(v N, text string, format func(N) string) *flaw {
	if v < l.min {
		return &flaw{message: text + " is less than " + format(l.min)}
	}
	return &flaw{message: text + " is more than " + format(l.max)}
}

func (l limit[N]) text(format func(N) string, largest N) string {
	text := "at least " + format(l.min)
	switch {
	case l.max < largest && l.min == 0:
		text = "at most " + format(l.max)
	case l.max < largest:
		text = "from " + format(l.min) + " to " + format(l.max)
	}
	switch {
	case l.zero != "" && l.min > 0:
		text += ", or 0 for " + l.zero
	case l.zero != "":
		text += ", where 0 means " + l.zero
	}
	return text
}

// integer is a whole number.
func integer(l limit[int]) kind[int] {
	format := func(n int) string { return strconv.Itoa(n) }
	return kind[int]{
		name:   "whole number",
		limits: l.text(format, math.MaxInt32),
		plain:  func(n int) any { return int64(n) },
		read: func(n *tomlfile.Node) (int, *flaw) {
			v, f := readInteger(n, "a whole number")
			if f != nil {
				return 0, f
			}
			number := int(max(math.MinInt32, min(v, math.MaxInt32)))
			if int64(number) != v || !l.permits(number) {
				return 0, l.outside(number, n.Text, format)
			}
			return number, nil
		},
	}
}

func readInteger(n *tomlfile.Node, want string) (int64, *flaw) {
	if n.Kind != tomlfile.KindInteger {
		f := mismatch(n, want)
		if _, err := strconv.ParseInt(n.Text, 10, 64); err == nil {
			f.hint = "write it without quotes: " + n.Text
		}
		return 0, f
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.Text, "_", ""), 0, 64)
	if err != nil {
		return 0, &flaw{message: n.Text + " is too large"}
	}
	return v, nil
}

// percent is a whole number with or without a percent sign.
func percent() kind[int] {
	k := integer(limit[int]{min: 0, max: 100})
	k.name, k.unit, k.form = "percentage", "%", `such as 10 or "10%"`
	inner := k.read
	k.read = func(n *tomlfile.Node) (int, *flaw) {
		if number, found := strings.CutSuffix(n.Text, "%"); found && n.Kind == tomlfile.KindText {
			n = &tomlfile.Node{Kind: tomlfile.KindInteger, At: n.At, Text: number}
			if number == "" || countDigits(number) != len(number) {
				return 0, &flaw{message: fmt.Sprintf("%q is not a percentage", number+"%")}
			}
		}
		return inner(n)
	}
	return k
}

// longest is the maximum of times that have no maximum of their own: far beyond
// any use, and small enough that no sum of two overflows.
const longest = 100 * 365 * 24 * time.Hour

// period is a time; a number without a unit is in the given one.
func period(unit time.Duration, l limit[time.Duration]) kind[time.Duration] {
	if l.max == 0 {
		l.max = longest
	}
	return kind[time.Duration]{
		name:   "time",
		unit:   unitName(unit),
		limits: l.text(FormatDuration, longest),
		form:   fmt.Sprintf(`such as "30s", "5m", "2h30m" or "5d", or a number of %s`, plural(unit)),
		plain:  func(d time.Duration) any { return FormatDuration(d) },
		read: func(n *tomlfile.Node) (time.Duration, *flaw) {
			if n.Kind != tomlfile.KindText && n.Kind != tomlfile.KindInteger && n.Kind != tomlfile.KindFloat {
				return 0, mismatch(n, "a time")
			}
			text := n.Text
			if n.Kind == tomlfile.KindInteger {
				text = strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+")
			}
			d, err := ParseDuration(text, unit)
			switch {
			case err != nil:
				return 0, &flaw{message: err.Error(), hint: guessTime(text, unit)}
			case !l.permits(d):
				return 0, l.outside(d, n.Text, FormatDuration)
			}
			return d, nil
		},
	}
}

// periodOr is a period that may also be a word, which stands for a time that none permits otherwise.
func periodOr(k kind[time.Duration], word string, value time.Duration) kind[time.Duration] {
	inner := k.read
	k.form += fmt.Sprintf(", or %q", word)
	k.plain = func(d time.Duration) any {
		if d == value {
			return word
		}
		return FormatDuration(d)
	}
	k.read = func(n *tomlfile.Node) (time.Duration, *flaw) {
		if n.Kind == tomlfile.KindText && n.Text == word {
			return value, nil
		}
		return inner(n)
	}
	return k
}

func plural(unit time.Duration) string {
	switch unit {
	case 24 * time.Hour:
		return "days"
	case time.Hour:
		return "hours"
	}
	return "seconds"
}

// loose matches a time written without knowing the syntax.
var loose = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]*)$`)

// looseUnits are common names of units.
var looseUnits = map[string]string{
	"min": "m", "mins": "m", "minute": "m", "minutes": "m", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d", "week": "w", "weeks": "w",
	"msec": "ms", "millis": "ms", "milliseconds": "ms", "usec": "us", "µs": "us", "microseconds": "us",
}

// guessTime returns a hint for a time such as 5 minutes, 5D, 300 s or 1.5h, or "".
func guessTime(text string, unit time.Duration) string {
	m := loose.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return ""
	}
	if known, ok := looseUnits[m[2]]; ok {
		m[2] = known
	}
	if m[2] != "" {
		var ok bool
		if unit, ok = timeUnit(m[2]); !ok {
			return ""
		}
	}
	number, err := strconv.ParseFloat(m[1], 64)
	if err != nil || number*float64(unit) > float64(longest) {
		return ""
	}
	return "write " + tomlfile.QuoteText(FormatDuration(time.Duration(number*float64(unit))))
}

// size is a number of bytes.
func size(l limit[int64]) kind[int64] {
	if l.max == 0 {
		l.max = math.MaxInt64
	}
	return kind[int64]{
		name:   "size",
		unit:   "bytes",
		limits: l.text(FormatSize, math.MaxInt64),
		form:   `a number of bytes, or such as "64K", "10M" or "2G"`,
		plain: func(n int64) any {
			if text := FormatSize(n); countDigits(text) < len(text) {
				return text
			}
			return n
		},
		read: func(n *tomlfile.Node) (int64, *flaw) {
			if n.Kind != tomlfile.KindText && n.Kind != tomlfile.KindInteger {
				return 0, mismatch(n, "a size")
			}
			text := n.Text
			if n.Kind == tomlfile.KindInteger {
				text = strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+")
			}
			v, err := ParseSize(text)
			switch {
			case err != nil:
				return 0, &flaw{message: err.Error(), hint: guessSize(text)}
			case !l.permits(v):
				return 0, l.outside(v, n.Text, FormatSize)
			}
			return v, nil
		},
	}
}

// guessSize returns a hint for a size such as 10MB, 10 MiB or 10m, or "".
func guessSize(text string) string {
	short := strings.ToUpper(strings.ReplaceAll(text, " ", ""))
	short = strings.TrimSuffix(strings.TrimSuffix(short, "B"), "I")
	if short == text {
		return ""
	}
	if _, err := ParseSize(short); err != nil {
		return ""
	}
	return "write " + tomlfile.QuoteText(short)
}

// flag is true or false.
func flag() kind[bool] {
	return kind[bool]{
		name:   "switch",
		form:   "true or false",
		closed: true,
		plain:  func(b bool) any { return b },
		read: func(n *tomlfile.Node) (bool, *flaw) {
			if n.Kind == tomlfile.KindBool {
				return n.Text == "true", nil
			}
			f := mismatch(n, "true or false")
			switch v := tomlfile.Quoted(n.Text); {
			case v[0] != '"':
				f.hint = "write " + v
			case n.Kind == tomlfile.KindInteger:
				f.hint = "write true or false"
			}
			return false, f
		},
	}
}

// zeroIsNone is k for a value whose 0 means none. The packages use -1 for that,
// because their zero value means the default.
func zeroIsNone[N int | int64 | time.Duration](k kind[N]) kind[N] {
	read, plain := k.read, k.plain
	k.read = func(n *tomlfile.Node) (N, *flaw) {
		v, f := read(n)
		return orNone(v), f
	}
	k.plain = func(v N) any { return plain(max(v, 0)) }
	return k
}

// inverse is k for a value that its package calls by the opposite name.
func inverse(k kind[bool]) kind[bool] {
	read, plain := k.read, k.plain
	k.read = func(n *tomlfile.Node) (bool, *flaw) {
		v, f := read(n)
		return !v, f
	}
	k.plain = func(v bool) any { return plain(!v) }
	return k
}
