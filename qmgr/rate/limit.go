package rate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Limit allows N in any span of time of length Per.
type Limit struct {
	N   int
	Per time.Duration
}

const (
	limitMax = 1_000_000_000
	perMin   = time.Millisecond
	perMax   = 31 * 24 * time.Hour

	// listMax is how many limits one list may have: more cannot mean anything.
	listMax = 8
)

// units are the words for spans of time, the canonical one first.
func units() []unit {
	return []unit{
		{24 * time.Hour, []string{"d", "day", "days"}},
		{time.Hour, []string{"h", "hour", "hours"}},
		{time.Minute, []string{"min", "minute", "minutes"}},
		{time.Second, []string{"s", "sec", "second", "seconds"}},
		{time.Millisecond, []string{"ms"}},
	}
}

type unit struct {
	per   time.Duration
	words []string
}

// String returns the limit as it is written: "100/s", "600/min", "5/10s".
func (l Limit) String() string {
	for _, u := range units() {
		if count := l.Per / u.per; count > 0 && l.Per%u.per == 0 {
			if count == 1 {
				return fmt.Sprintf("%d/%s", l.N, u.words[0])
			}
			return fmt.Sprintf("%d/%d%s", l.N, int64(count), u.words[0])
		}
	}
	return fmt.Sprintf("%d/%v", l.N, l.Per)
}

// Validate returns what is wrong with the limit, nil if nothing is.
func (l Limit) Validate() error {
	var errs []error
	if l.N < 1 || l.N > limitMax {
		errs = append(errs, fmt.Errorf("%d: want a number from 1 to %d", l.N, limitMax))
	}
	if l.Per < perMin || l.Per > perMax {
		errs = append(errs, fmt.Errorf("%v: want a time from %v to 31 days", l.Per, perMin))
	}
	return errors.Join(errs...)
}

// Limits are limits that all hold. None at all is no limit.
type Limits []Limit

// String returns the limits, as in "10/s, 5000/h".
func (l Limits) String() string {
	words := make([]string, len(l))
	for i := range l {
		words[i] = l[i].String()
	}
	return strings.Join(words, ", ")
}

// Validate returns what is wrong with the limits, nil if nothing is.
func (l Limits) Validate() error {
	var errs []error
	if len(l) > listMax {
		errs = append(errs, fmt.Errorf("%d limits: want at most %d", len(l), listMax))
	}
	for i, limit := range l {
		if err := limit.Validate(); err != nil {
			errs = append(errs, err)
		}
		if slices.ContainsFunc(l[:i], func(o Limit) bool { return o.Per == limit.Per }) {
			errs = append(errs, fmt.Errorf("%v: there is another limit for the same time", limit))
		}
	}
	return errors.Join(errs...)
}

// A ParseError says what is wrong with a text, and where.
type ParseError struct {
	Text string
	At   int // octets before what is wrong
	Why  string
}

// Error returns a line like `"10/x": at 4: want a unit of time: s, min, h or d`.
func (e *ParseError) Error() string { return fmt.Sprintf("%q: at %d: %s", e.Text, e.At+1, e.Why) }

// Parse reads limits separated by commas, each a number, a slash, and a time:
// a unit (s, min, h, d), or a number of them. They are returned in the order
// of their times, shortest first. The empty text is no limit. An error is a
// *ParseError.
func Parse(text string) (Limits, error) {
	if strings.Trim(text, " ") == "" {
		return nil, nil
	}
	p := parser{text: text}
	var limits Limits
	for {
		start := p.skip()
		l, err := p.limit()
		switch {
		case err != nil:
			return nil, err
		case len(limits) == listMax:
			return nil, p.fail(start, "want at most %d limits", listMax)
		case slices.ContainsFunc(limits, func(o Limit) bool { return o.Per == l.Per }):
			return nil, p.fail(start, "there is another limit for the same time")
		}
		limits = append(limits, l)
		if p.skip() == len(text) {
			slices.SortFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Per, b.Per) })
			return limits, nil
		}
		if !p.eat(',') {
			return nil, p.fail(p.at, "want a comma, or nothing more")
		}
	}
}

// UnmarshalText reads limits as Parse does.
func (l *Limits) UnmarshalText(text []byte) error {
	limits, err := Parse(string(text))
	if err == nil {
		*l = limits
	}
	return err
}

// MarshalText returns what UnmarshalText reads.
func (l Limits) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

type parser struct {
	text string
	at   int
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &ParseError{Text: p.text, At: at, Why: fmt.Sprintf(format, args...)}
}

// skip passes spaces and returns where it is then.
func (p *parser) skip() int {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	return p.at
}

func (p *parser) eat(c byte) bool {
	p.skip()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) limit() (Limit, error) {
	n, err := p.number(limitMax)
	if err != nil {
		return Limit{}, err
	}
	if !p.eat('/') {
		return Limit{}, p.fail(p.at, "want a slash and a time, as in 100/s")
	}
	start := p.skip()
	count := 1
	if p.at < len(p.text) && digit(p.text[p.at]) {
		if count, err = p.number(limitMax); err != nil {
			return Limit{}, err
		}
	}
	u, err := p.unit()
	if err != nil {
		return Limit{}, err
	}
	if time.Duration(count) > perMax/u {
		return Limit{}, p.fail(start, "want at most 31 days")
	}
	return Limit{N: n, Per: time.Duration(count) * u}, nil
}

func (p *parser) number(most int) (n int, err error) {
	start := p.skip()
	for p.at < len(p.text) && digit(p.text[p.at]) {
		p.at++
	}
	if p.at == start {
		return 0, p.fail(start, "want a number")
	}
	n, err = strconv.Atoi(p.text[start:p.at])
	if err != nil || n < 1 || n > most {
		return 0, p.fail(start, "want a number from 1 to %d", most)
	}
	return n, nil
}

func (p *parser) unit() (time.Duration, error) {
	start := p.skip()
	for p.at < len(p.text) && p.text[p.at] != ',' && p.text[p.at] != ' ' {
		p.at++
	}
	word := p.text[start:p.at]
	for _, u := range units() {
		if slices.Contains(u.words, word) {
			return u.per, nil
		}
	}
	if word == "m" { // Postfix's minute, others' month
		return 0, p.fail(start, "want a unit of time: min for minutes")
	}
	return 0, p.fail(start, "want a unit of time: s, min, h or d")
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
