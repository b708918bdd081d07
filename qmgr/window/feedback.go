package window

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Feedback is the weight of one delivery, depending on the size of the window.
// The zero Feedback is the constant 1.
type Feedback struct {
	form form
	base float64 // in [0, 1]
}

type form uint8

const (
	formOne     form = iota // 1: the zero Feedback
	formConst               // base
	formPerN                // base / size
	formPerRoot             // base / √size
	formLevel               // depends on the level; see levels
)

// Constant returns the feedback that counts base whatever the size; base must
// be in [0, 1].
func Constant(base float64) (Feedback, error) { return newFeedback(formConst, base) }

// PerConcurrency returns the feedback that counts base divided by the size;
// base must be in [0, 1].
func PerConcurrency(base float64) (Feedback, error) { return newFeedback(formPerN, base) }

// PerSqrtConcurrency returns the feedback that counts base divided by the
// square root of the size; base must be in [0, 1].
func PerSqrtConcurrency(base float64) (Feedback, error) { return newFeedback(formPerRoot, base) }

// ByLevel returns the style "level", in which feedback depends on how attempts
// fare at each concurrency; the package comment explains it. A window has it
// in both directions or in neither.
func ByLevel() Feedback { return Feedback{form: formLevel} }

func newFeedback(f form, base float64) (Feedback, error) {
	if !(base >= 0 && base <= 1) { // NaN too
		return Feedback{}, fmt.Errorf("%v is not within 0…1", base)
	}
	if f == formConst && base == 1 {
		f, base = formOne, 0 // equal feedback compares equal
	}
	return Feedback{form: f, base: base}, nil
}

// at returns the feedback of one delivery at a window of the given size.
func (f Feedback) at(size int) float64 {
	switch f.form {
	case formConst:
		return f.base
	case formPerN:
		return f.base / float64(size)
	case formPerRoot:
		return f.base / math.Sqrt(float64(size))
	}
	return 1
}

const (
	wordPerN    = "concurrency"
	wordPerRoot = "sqrt_concurrency"
	wordLevel   = "level"
)

// String returns a text that ParseFeedback reads back as f.
func (f Feedback) String() string {
	base := strconv.FormatFloat(f.base, 'g', -1, 64)
	switch f.form {
	case formConst:
		return base
	case formPerN:
		return base + "/" + wordPerN
	case formPerRoot:
		return base + "/" + wordPerRoot
	case formLevel:
		return wordLevel
	}
	return "1"
}

// MarshalText returns what String returns.
func (f Feedback) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is ParseFeedback.
func (f *Feedback) UnmarshalText(text []byte) error {
	parsed, err := ParseFeedback(string(text))
	if err == nil {
		*f = parsed
	}
	return err
}

// feedbackHelp ends every error about a text.
const feedbackHelp = `want a number from 0 to 1, a fraction such as 1/8, or a number over "concurrency" or "sqrt_concurrency", or "level"`

// ParseFeedback reads feedback as it is written in the configuration: a number,
// number/number, number/concurrency or number/sqrt_concurrency, or level; case does
// not matter, and spaces around the slash are allowed. The number or quotient must
// be within 0…1.
func ParseFeedback(text string) (Feedback, error) {
	fail := func(why string) (Feedback, error) {
		return Feedback{}, fmt.Errorf("feedback %q: %s; %s", text, why, feedbackHelp)
	}
	if strings.EqualFold(strings.Trim(text, " \t"), wordLevel) {
		return ByLevel(), nil
	}
	numerator, denominator, divided := strings.Cut(text, "/")
	numerator, denominator = strings.Trim(numerator, " \t"), strings.Trim(denominator, " \t")
	base, rest, ok := leadingNumber(numerator)
	if !ok || rest != "" {
		return fail(fmt.Sprintf("%q is not a number", numerator))
	}
	f := formConst
	if divided {
		var why string
		if f, base, why = divide(base, denominator); why != "" {
			return fail(why)
		}
	}
	feedback, err := newFeedback(f, base)
	if err != nil {
		return fail(err.Error())
	}
	return feedback, nil
}

// divide returns form and base of numerator/denominator, or why it is invalid.
func divide(numerator float64, denominator string) (f form, base float64, why string) {
	switch strings.ToLower(denominator) {
	case wordPerN:
		return formPerN, numerator, ""
	case wordPerRoot:
		return formPerRoot, numerator, ""
	}
	d, rest, ok := leadingNumber(denominator)
	switch {
	case !ok || rest != "":
		return 0, 0, fmt.Sprintf("%q is neither a number nor one of the words", denominator)
	case !within(numerator, 0, math.MaxInt32):
		return 0, 0, fmt.Sprintf("numerator %v is not within 0…%d", numerator, math.MaxInt32)
	case !within(d, 1.0/math.MaxInt32, math.MaxInt32):
		return 0, 0, fmt.Sprintf("denominator %v is not within 1/%[2]d…%[2]d", d, math.MaxInt32)
	}
	return formConst, numerator / d, ""
}

func within(v, low, high float64) bool { return v >= low && v <= high }

// ParsePostfixFeedback reads feedback as Postfix reads it, for comparison with
// recordings of it, and so never fails: text that Postfix finds malformed or out of
// range, number/sqrt_concurrency included, means the constant 1, and warning says
// why. What follows a number that is not divided is ignored, as in "0.5 x";
// hexadecimal numbers, which Postfix's C library reads, are not supported.
func ParsePostfixFeedback(text string) (f Feedback, warning string) {
	malformed := func(why string) (Feedback, string) {
		return Feedback{}, fmt.Sprintf("ignoring feedback %q: %s; using 1", text, why)
	}
	base, rest, ok := leadingNumber(strings.TrimLeft(text, " \t"))
	if !ok {
		return malformed("it does not begin with a number")
	}
	kind := formConst
	if rest = strings.TrimLeft(rest, " \t"); strings.HasPrefix(rest, "/") {
		denominator := strings.TrimLeft(rest[1:], " \t")
		var why string
		kind, base, why = divide(base, denominator)
		if why == "" && kind == formPerRoot {
			why = "Postfix is built without square roots"
		}
		if why != "" {
			return malformed(why)
		}
	}
	f, err := newFeedback(kind, base)
	if err != nil {
		return malformed(err.Error())
	}
	return f, ""
}

// leadingNumber reads the longest decimal number that text begins with.
// strconv alone will not do: it takes the whole text or nothing, and also
// reads "inf", "nan", hexadecimal numbers and underscores.
func leadingNumber(text string) (value float64, rest string, ok bool) {
	end := sign(text, 0)
	whole := digits(text, end)
	found := whole > end
	end = whole
	if end < len(text) && text[end] == '.' {
		fraction := digits(text, end+1)
		if found || fraction > end+1 {
			found, end = true, fraction
		}
	}
	if !found {
		return 0, text, false
	}
	if end < len(text) && (text[end] == 'e' || text[end] == 'E') {
		start := sign(text, end+1)
		if stop := digits(text, start); stop > start {
			end = stop
		}
	}
	value, err := strconv.ParseFloat(text[:end], 64)
	if err != nil && math.IsInf(value, 0) {
		err = nil // out of range; the caller reports it
	}
	return value, text[end:], err == nil
}

func sign(text string, i int) int {
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		return i + 1
	}
	return i
}

func digits(text string, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}
