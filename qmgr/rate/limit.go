package rate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// A Limit allows N events in any span of time of length Per.
type Limit struct {
	N   int
	Per time.Duration
}

const (
	limitMax = 1_000_000_000
	perMin   = time.Millisecond
	perMax   = 31 * 24 * time.Hour

	// listMax is the maximum number of limits at once: one for each unit, and two
	// more.
	listMax = 6
)

// units returns the units of time, the canonical one first.
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

// String returns the limit as in the configuration: "100/s", "600/min", "5/10s".
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

// check returns all errors of the limit, nil if there are none.
func (l Limit) check() error {
	var wrong mistakes.List
	wrong.Unless(l.N >= 1 && l.N <= limitMax, "%d: want a number from 1 to %d", l.N, limitMax)
	wrong.Unless(l.Per >= perMin && l.Per <= perMax, "%v: want a time from %v to 31 days", l.Per, perMin)
	return wrong.Join()
}

// Limits is a set of limits for different times that all hold at once. It is a
// comparable value and always valid. The zero Limits has none.
type Limits struct {
	list [listMax]Limit // sorted by time, shortest first; the rest is zero
	n    int8
}

// Of returns Limits, or all errors of the given ones.
func Of(limits ...Limit) (Limits, error) {
	var all Limits
	var wrong mistakes.List
	wrong.Unless(len(limits) <= listMax, "%d limits: want at most %d", len(limits), listMax)
	for i, limit := range limits {
		wrong.Add(limit.check())
		wrong.Unless(!slices.ContainsFunc(limits[:i], func(o Limit) bool { return o.Per == limit.Per }), "%v: there is another limit for the same time", limit)
	}
	if err := wrong.Join(); err != nil {
		return Limits{}, err
	}
	all.n = int8(copy(all.list[:], limits))
	slices.SortFunc(all.list[:all.n], func(a, b Limit) int { return cmp.Compare(a.Per, b.Per) })
	return all, nil
}

// All returns the limits, the one for the shortest time first.
func (l Limits) All() []Limit { return slices.Clone(l.list[:l.n]) }

// String returns the limits, as in "10/s, 5000/h"; "" if there are none.
func (l Limits) String() string {
	words := make([]string, l.n)
	for i := range words {
		words[i] = l.list[i].String()
	}
	return strings.Join(words, ", ")
}

// A ParseError describes an error in a text and its position.
type ParseError struct {
	Text string
	At   int // bytes before the error
	Why  string
}

// Error returns a line like `"10/x": at 4: want a unit of time: s, min, h or d`.
func (e *ParseError) Error() string { return fmt.Sprintf("%q: at %d: %s", e.Text, e.At+1, e.Why) }

// Parse reads limits separated by commas, each a number, a slash, and a time:
// a unit (s, min, h, d), or a number of them. The empty text is no limit. An
// error is a *ParseError.
func Parse(text string) (Limits, error) {
	if strings.Trim(text, " ") == "" {
		return Limits{}, nil
	}
	p := parser{text: text}
	var limits []Limit
	for {
		start := p.skip()
		l, err := p.limit()
		switch {
		case err != nil:
			return Limits{}, err
		case len(limits) == listMax:
			return Limits{}, p.fail(start, "want at most %d limits", listMax)
		case slices.ContainsFunc(limits, func(o Limit) bool { return o.Per == l.Per }):
			return Limits{}, p.fail(start, "there is another limit for the same time")
		}
		limits = append(limits, l)
		if p.skip() == len(text) {
			return Of(limits...)
		}
		if !p.eat(',') {
			return Limits{}, p.fail(p.at, "want a comma, or nothing more")
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

// skip skips spaces and returns the new position.
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
