package replies

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/glob"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Match is the conditions on a reply. One that is empty is met by all replies; the
// values of each are alternatives.
type Match struct {
	MX       []glob.Pattern // the host's name
	Codes    []CodeRange
	Statuses []StatusPattern
	// Words are phrases in the text, without regard to the case of ASCII letters and to how
	// the text is divided by spaces and into lines.
	Words []string
	// Text is matched anywhere in the text, whose lines are joined by spaces, without
	// regard to case; NewText makes it.
	Text *regexp.Regexp
}

// A CodeRange is the reply codes from From to To.
type CodeRange struct{ From, To uint16 }

// ParseCode parses a code, 400 to 599, whose last or last two digits may be "x".
func ParseCode(text string) (CodeRange, error) {
	digits := strings.TrimRight(text, "x")
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || len(text) != 3 || digits == "" || text[0] != '4' && text[0] != '5' {
		return CodeRange{}, fmt.Errorf("%q is not a reply code from 400 to 599, such as 421, 45x or 4xx", text)
	}
	unit := [...]uint16{100, 10, 1}[len(digits)-1]
	return CodeRange{uint16(n) * unit, uint16(n)*unit + unit - 1}, nil
}

// String returns the text that ParseCode takes.
func (c CodeRange) String() string {
	switch c.To - c.From {
	case 99:
		return strconv.Itoa(int(c.From/100)) + "xx"
	case 9:
		return strconv.Itoa(int(c.From/10)) + "x"
	}
	return strconv.Itoa(int(c.From))
}

// A StatusPattern is an enhanced status code of which parts may be anyNumber.
type StatusPattern struct{ Class, Subject, Detail int16 }

const anyNumber = -1

// ParseStatus parses a status code in which "x" stands for any number.
func ParseStatus(text string) (p StatusPattern, err error) {
	parts := strings.Split(text, ".")
	if len(parts) == 3 {
		var ok [3]bool
		p.Class, ok[0] = parseNumber(parts[0])
		p.Subject, ok[1] = parseNumber(parts[1])
		p.Detail, ok[2] = parseNumber(parts[2])
		if ok == [3]bool{true, true, true} && (p.Class == anyNumber || p.Class == 4 || p.Class == 5) {
			return p, nil
		}
	}
	return StatusPattern{}, fmt.Errorf("%q is not an enhanced status code such as 5.1.1, x.1.1 or 4.7.x", text)
}

func parseNumber(text string) (n int16, ok bool) {
	if text == "x" {
		return anyNumber, true
	}
	v, err := strconv.ParseUint(text, 10, 16)
	return int16(v), err == nil && v <= 999 && (len(text) == 1 || text[0] != '0')
}

// String returns the text that ParseStatus takes.
func (p StatusPattern) String() string {
	part := func(n int16) string {
		if n == anyNumber {
			return "x"
		}
		return strconv.Itoa(int(n))
	}
	return part(p.Class) + "." + part(p.Subject) + "." + part(p.Detail)
}

func (p StatusPattern) matches(s mail.Status) bool {
	fits := func(want int16, n uint16) bool { return want == anyNumber || want == int16(n) }
	return s != (mail.Status{}) && fits(p.Class, s.Class) && fits(p.Subject, s.Subject) && fits(p.Detail, s.Detail)
}

// TextMax is the maximum length of a regular expression, in octets. A longer one is
// better written as several patterns.
const TextMax = 1000

// NewText compiles a regular expression of RE2, which ignores case.
func NewText(expression string) (*regexp.Regexp, error) {
	if len(expression) > TextMax {
		return nil, fmt.Errorf("a regular expression of %d characters, at most %d are allowed", len(expression), TextMax)
	}
	if _, err := regexp.Compile(expression); err != nil { // ")|(" would be balanced below
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return regexp.Compile("(?i:" + expression + ")")
}

// WordsMin is the minimum length of a phrase of Match.Words, in octets. Shorter ones are
// parts of too many others.
const WordsMin = 4

// NewWords returns a phrase in the form of Match.Words.
func NewWords(text string) (string, error) {
	folded := make([]byte, len(text))
	words := strings.Trim(string(folded[:fold(folded, text)]), " ")
	if len(words) < WordsMin {
		return "", fmt.Errorf("%q is shorter than %d characters", text, WordsMin)
	}
	return words, nil
}

// A said is a reply in the form in which it is matched.
type said struct {
	reply *mail.Reply
	mx    string    // the host's name
	text  []byte    // folded
	found phraseSet // of the Book's vocabulary
}

// hostName returns the host's name in mail.Reply.By.
func hostName(by string) string {
	name, _, _ := strings.Cut(by, "[")
	return strings.TrimSuffix(name, ".")
}

// A test is a Match whose phrases have numbers.
type test struct {
	Match
	words []int
}

func (t *test) matches(s *said) bool {
	return t.saysAny(s.found) && t.hasCode(s.reply.Code) && t.hasStatus(s.reply.Status) &&
		(len(t.MX) == 0 || glob.Any(t.MX, s.mx)) && (t.Text == nil || t.Text.Match(s.text))
}

func (t *test) saysAny(found phraseSet) bool {
	for _, n := range t.words {
		if found.has(n) {
			return true
		}
	}
	return len(t.words) == 0
}

func (m *Match) hasCode(code uint16) bool {
	for _, c := range m.Codes {
		if c.From <= code && code <= c.To {
			return true
		}
	}
	return len(m.Codes) == 0
}

func (m *Match) hasStatus(status mail.Status) bool {
	for _, p := range m.Statuses {
		if p.matches(status) {
			return true
		}
	}
	return len(m.Statuses) == 0
}

// covers reports whether t is certainly met by all replies that meet other: each of its
// conditions is met by every alternative of the other's.
func (m *Match) covers(other *Match) bool {
	return (m.Text == nil || other.Text != nil && m.Text.String() == other.Text.String()) &&
		allIn(m.MX, other.MX, func(p, o glob.Pattern) bool { return p == o || glob.Matches(p, string(o)) }) &&
		allIn(m.Codes, other.Codes, func(c, o CodeRange) bool { return c.From <= o.From && o.To <= c.To }) &&
		allIn(m.Statuses, other.Statuses, StatusPattern.covers) &&
		allIn(m.Words, other.Words, func(w, o string) bool { return strings.Contains(o, w) })
}

func (p StatusPattern) covers(o StatusPattern) bool {
	fits := func(want, n int16) bool { return want == anyNumber || want == n }
	return fits(p.Class, o.Class) && fits(p.Subject, o.Subject) && fits(p.Detail, o.Detail)
}

// allIn reports whether the first condition is met by every alternative of the second.
func allIn[T any](these, others []T, covers func(T, T) bool) bool {
	if len(these) == 0 {
		return true
	}
	return len(others) > 0 && !slices.ContainsFunc(others, func(o T) bool {
		return !slices.ContainsFunc(these, func(t T) bool { return covers(t, o) })
	})
}
