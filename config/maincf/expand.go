package maincf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// ExpandedMax is the size of the longest value after expansion, in bytes.
	ExpandedMax = 256 << 10
	// nestingMax is how deep values may refer to values, as in Postfix.
	nestingMax = 100
	// stepsMax is how many references one value may come to, and workMax how many bytes their
	// values may have together, with those of conditions that are not in the result.
	stepsMax = 10_000
	workMax  = 16 * ExpandedMax
)

// A Lookup returns the value of a parameter, before expansion; ok is false if it has none.
type Lookup func(name string) (value string, ok bool)

// Expand puts values in place of $name, ${name}, $(name), ${name?text}, ${name:text},
// ${name?{text}:{text}} and ${{text} == {text} ? {text} : {text}} (postconf(5), mac_expand(3)).
// A parameter that look does not know is empty. The error says which parameters refer to each
// other, or what cannot be understood.
func Expand(value string, look Lookup) (string, error) {
	e := expander{look: look}
	text, err := e.expand(value)
	if err == nil && len(text) > ExpandedMax {
		err = errTooLong
	}
	if err != nil {
		return "", err
	}
	return text, nil
}

// Names returns the names to which a value refers directly, with those in conditions.
func Names(value string) []string {
	var names []string
	e := expander{look: func(name string) (string, bool) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		return "", false
	}, both: true}
	_, _ = e.expand(value) // as far as it can be understood
	return names
}

var errTooLong = fmt.Errorf("the value is longer than %d bytes once its references are replaced", ExpandedMax)

// An expander expands one value.
type expander struct {
	look  Lookup
	both  bool     // both branches of conditions are gone through
	stack []string // names of the parameters in whose values it is
	depth int      // of nested conditions and parameters
	steps int
	work  int
}

func (e *expander) expand(value string) (string, error) {
	if e.depth++; e.depth > nestingMax {
		return "", fmt.Errorf("more than %d references within each other", nestingMax)
	}
	defer func() { e.depth-- }()
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(value, "$")
		b.WriteString(before)
		if e.work += len(before); b.Len() > ExpandedMax || e.work > workMax {
			return "", errTooLong
		}
		if !found {
			return b.String(), nil
		}
		if strings.HasPrefix(rest, "$") {
			b.WriteByte('$')
			value = rest[1:]
			continue
		}
		inside, after, err := reference(rest)
		if err != nil {
			return "", err
		}
		text, err := e.evaluate(inside)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		value = after
	}
}

// reference returns what follows a $: a name, or what is in braces or parentheses.
func reference(s string) (inside, rest string, err error) {
	if s == "" {
		return "", "", errors.New("a $ at the end names no parameter; a dollar sign is written $$")
	}
	if end := map[byte]byte{'{': '}', '(': ')'}[s[0]]; end != 0 {
		level := 0
		for i := range len(s) {
			switch s[i] {
			case s[0]:
				level++
			case end:
				if level--; level == 0 {
					if i == 1 {
						return "", "", fmt.Errorf("%s names no parameter", shorten("$"+s[:2]))
					}
					return s[1:i], s[i+1:], nil
				}
			}
		}
		return "", "", fmt.Errorf("%s is not closed", shorten("$"+s))
	}
	n := nameLength(s)
	if n == 0 {
		return "", "", fmt.Errorf("the $ in %s names no parameter; a dollar sign is written $$", shorten("$"+s))
	}
	return s[:n], s[n:], nil
}

// nameLength returns how many bytes at the beginning of s can be the name of a parameter.
func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= '0' && s[n] <= '9' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= 'a' && s[n] <= 'z') {
		n++
	}
	return n
}

// evaluate returns what stands for the inside of a reference.
func (e *expander) evaluate(inside string) (string, error) {
	if e.steps++; e.steps > stepsMax {
		return "", fmt.Errorf("the value comes to more than %d references", stepsMax)
	}
	var value, rest string
	if left := strings.TrimLeft(inside, " \t"); strings.HasPrefix(left, "{") {
		var err error
		if value, rest, err = e.compare(left); err != nil {
			return "", err
		}
	} else {
		n := nameLength(left)
		name := left[:n]
		if rest = strings.TrimLeft(left[n:], " \t"); name == "" || rest != "" && rest[0] != '?' && rest[0] != ':' {
			return "", fmt.Errorf("%s is neither a name nor a condition", shorten("${"+inside+"}"))
		}
		text, err := e.parameter(name)
		if err != nil {
			return "", err
		}
		value = text
	}
	rest = strings.TrimLeft(rest, " \t")
	if rest == "" {
		return value, nil
	}
	return e.choose(value != "", rest)
}

// parameter returns the expanded value of a parameter.
func (e *expander) parameter(name string) (string, error) {
	if i := slices.Index(e.stack, name); i >= 0 {
		return "", fmt.Errorf("parameters refer to each other: %s", strings.Join(append(slices.Clone(e.stack[i:]), name), " -> "))
	}
	text, ok := e.look(name)
	if !ok {
		return "", nil
	}
	e.stack = append(e.stack, name)
	text, err := e.expand(text)
	e.stack = e.stack[:len(e.stack)-1]
	return text, err
}

// compare evaluates "{text} operator {text}": "true" or "".
func (e *expander) compare(s string) (value, rest string, err error) {
	left, rest, ok := braced(s)
	if !ok {
		return "", "", fmt.Errorf("the { in %s is not closed", shorten(s))
	}
	rest = strings.TrimLeft(rest, " \t")
	operator := rest[:len(rest)-len(strings.TrimLeft(rest, "<>=!"))]
	if !slices.Contains([]string{"==", "!=", "<", "<=", ">=", ">"}, operator) {
		return "", "", fmt.Errorf("there is no comparison such as == behind %s", shorten("{"+left+"}"))
	}
	rest = strings.TrimLeft(rest[len(operator):], " \t")
	if suffix := nameLength(rest); suffix > 0 {
		return "", "", fmt.Errorf("the comparison %s is not known here", shorten(operator+rest[:suffix]))
	}
	if !strings.HasPrefix(rest, "{") {
		return "", "", fmt.Errorf("there is no {text} behind %s in %s", operator, shorten(s))
	}
	right, rest, ok := braced(rest)
	if !ok {
		return "", "", fmt.Errorf("a { in %s is not closed", shorten(s))
	}
	if left, err = e.expand(left); err != nil {
		return "", "", err
	}
	if right, err = e.expand(right); err != nil {
		return "", "", err
	}
	order := strings.Compare(left, right)
	if a, errA := strconv.ParseUint(left, 10, 63); errA == nil {
		if b, errB := strconv.ParseUint(right, 10, 63); errB == nil {
			order = 0
			if a < b {
				order = -1
			} else if a > b {
				order = 1
			}
		}
	}
	if map[string]bool{"==": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">=": order >= 0, ">": order > 0}[operator] {
		return "true", rest, nil
	}
	return "", rest, nil
}

// choose evaluates what follows a condition: "?text", ":text", "?{text}", ":{text}" or
// "?{text}:{text}".
func (e *expander) choose(condition bool, s string) (string, error) {
	operator, text := s[0], s[1:]
	if operator != '?' && operator != ':' {
		return "", fmt.Errorf("there is neither ? nor : before %s", shorten(s))
	}
	first, second, hasSecond := text, "", false
	if inner := strings.TrimLeft(text, " \t"); strings.HasPrefix(inner, "{") {
		inside, rest, ok := braced(inner)
		if !ok {
			return "", fmt.Errorf("the { in %s is not closed", shorten(s))
		}
		first, rest = strings.TrimSpace(inside), strings.TrimLeft(rest, " \t")
		if rest != "" {
			if operator != '?' || rest[0] != ':' {
				return "", fmt.Errorf("%s is not understood behind a condition", shorten(rest))
			}
			second, hasSecond = rest[1:], true
			if inner := strings.TrimLeft(second, " \t"); strings.HasPrefix(inner, "{") {
				inside, rest, ok := braced(inner)
				if !ok || strings.TrimSpace(rest) != "" {
					return "", fmt.Errorf("%s is not understood behind a condition", shorten(second))
				}
				second = strings.TrimSpace(inside)
			}
		}
	}
	if e.both {
		if _, err := e.expand(first); err != nil || !hasSecond {
			return "", err
		}
		return e.expand(second)
	}
	switch {
	case condition == (operator == '?'):
		return e.expand(first)
	case hasSecond:
		return e.expand(second)
	}
	return "", nil
}
