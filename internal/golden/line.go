package golden

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Line is one command. Its methods look options up; one that cannot be read
// fails the test at the line's position.
type Line struct {
	Pos   string
	Text  string // the whole command
	Name  string
	Words []string // those without "=", the name not counted

	options []option
}

type option struct {
	key, value string
	used       bool
}

// Option returns the value of the first option with this key.
func (l *Line) Option(key string) (value string, given bool) {
	for i := range l.options {
		if o := &l.options[i]; o.key == key {
			o.used = true
			return o.value, true
		}
	}
	return "", false
}

// Str returns an option's value, or standard if it was not given.
func (l *Line) Str(key, standard string) string {
	if v, given := l.Option(key); given {
		return v
	}
	return standard
}

// Int returns an option's value as a number, or standard if it was not given.
func (l *Line) Int(tb testing.TB, key string, standard int) int {
	tb.Helper()
	v, given := l.Option(key)
	if !given {
		return standard
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		tb.Fatalf("%s: %s=%s is not a number", l.Pos, key, v)
	}
	return n
}

// Duration returns an option's value as a duration ("1m30s"), or standard if
// it was not given.
func (l *Line) Duration(tb testing.TB, key string, standard time.Duration) time.Duration {
	tb.Helper()
	v, given := l.Option(key)
	if !given {
		return standard
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		tb.Fatalf("%s: %s=%s is not a duration", l.Pos, key, v)
	}
	return d
}

// Word returns the word at position i and fails the test if there are fewer.
func (l *Line) Word(tb testing.TB, i int) string {
	tb.Helper()
	if i >= len(l.Words) {
		tb.Fatalf("%s: %s wants at least %d words", l.Pos, l.Name, i+1)
	}
	return l.Words[i]
}

// Has reports whether a bare word was given.
func (l *Line) Has(word string) bool { return slices.Contains(l.Words, word) }

func (l *Line) unused() (keys []string) {
	for _, o := range l.options {
		if !o.used {
			keys = append(keys, o.key+"=")
		}
	}
	return keys
}

func parseLine(pos, text string) (*Line, error) {
	l := &Line{Pos: pos, Text: text}
	for rest := text; rest != ""; rest = strings.TrimLeft(rest, " \t") {
		end := strings.IndexAny(rest, " \t\"=")
		if end < 0 {
			end = len(rest)
		}
		key := rest[:end]
		switch rest = rest[end:]; {
		case strings.HasPrefix(rest, `"`) && key == "":
			value, tail, err := unquote(rest)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", pos, err)
			}
			l.Words, rest = append(l.Words, value), tail
		case strings.HasPrefix(rest, "=") && key != "" && l.Name != "":
			value, tail, err := optionValue(rest[1:])
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", pos, key, err)
			}
			l.options, rest = append(l.options, option{key: key, value: value}), tail
		case rest == "" || rest[0] == ' ' || rest[0] == '\t':
			if l.Name == "" {
				l.Name = key
			} else {
				l.Words = append(l.Words, key)
			}
		default:
			return nil, fmt.Errorf("%s: cannot read %q", pos, key+rest)
		}
	}
	return l, nil
}

func optionValue(text string) (value, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		return unquote(text)
	}
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		return text, "", nil
	}
	return text[:end], text[end:], nil
}

func unquote(text string) (value, rest string, err error) {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("bad quoting in %s", text)
	}
	value, err = strconv.Unquote(quoted)
	return value, text[len(quoted):], err
}
