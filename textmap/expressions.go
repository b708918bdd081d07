package textmap

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// ExpressionsMax is the number of expressions in one file: each of them is tried for each
// address until one matches.
const ExpressionsMax = 10_000

// nestingMax is the maximum depth of nested ifs.
const nestingMax = 16

// ReadExpressions reads a file in the format of regexp_table(5): /expression/flags, white
// space, value, with any character that is no letter, digit or white space in place of "/",
// "!" in front for addresses that do not match, and if and endif around lines. Lines
// continue as with Read. Expressions are those of RE2, which take time in proportion to the
// address whatever they are; they ignore case, unless the flag "i" is there. In values, $1,
// ${1} and $(1) stand for what a group has matched, $$ for a dollar sign; a value that would
// have other addresses than its author has written is "" (see expand). check gets the value as it
// is written, before groups are filled in. The errors are those of Read.
func ReadExpressions(name string, r io.Reader, check Check) (*Map, error) {
	p := expressionParser{m: &Map{name: name, expressions: []expression{}}, wrong: complaints{name: name}, check: check}
	if err := logicalLines(r, &p.wrong, func(line int, s string) error { p.line(line, s); return nil }); err != nil {
		return nil, err
	}
	for _, open := range p.open {
		p.wrong.add(open.line, "this if has no endif")
	}
	if err := p.wrong.join(); err != nil {
		return nil, err
	}
	return p.m, nil
}

// An expressionParser reads the lines of one file.
type expressionParser struct {
	m     *Map
	wrong complaints
	check Check
	open  []opened
}

// An opened is an if without its endif.
type opened struct {
	line, at int // number of the line and of the expression
}

// line takes one line of the file.
func (p *expressionParser) line(number int, text string) {
	word, rest := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		word, rest = text[:i], text[i:]
	}
	switch strings.ToLower(word) {
	case "endif":
		if len(p.open) == 0 || strings.TrimSpace(rest) != "" {
			p.wrong.add(number, "endif has no if before it, or something after it")
			return
		}
		last := len(p.open) - 1
		p.m.expressions[p.open[last].at].beyond = len(p.m.expressions)
		p.open = p.open[:last]
		return
	case "if":
		e, value, err := parseExpression(strings.TrimSpace(rest))
		switch {
		case err == nil && value != "":
			err = fmt.Errorf("an if has no value, and this one has %s", shorten(value))
		case err == nil && len(p.open) == nestingMax:
			err = fmt.Errorf("more than %d ifs within each other", nestingMax)
		}
		p.add(number, e, err)
		if err == nil {
			p.open = append(p.open, opened{number, len(p.m.expressions) - 1})
		}
		return
	}
	e, value, err := parseExpression(text)
	if err == nil {
		e.parts, err = template(&e, value)
	}
	if err == nil && p.check != nil {
		err = p.check(word, value)
	}
	p.add(number, e, err)
}

func (p *expressionParser) add(number int, e expression, err error) {
	if err == nil && len(p.m.expressions) == ExpressionsMax {
		err = fmt.Errorf("there are more than %d expressions in the file", ExpressionsMax)
	}
	if err != nil {
		p.wrong.add(number, "%v", err)
		return
	}
	p.m.expressions = append(p.m.expressions, e)
}

// parseExpression parses an expression with its flags, and returns the value after it.
func parseExpression(text string) (e expression, value string, err error) {
	text, e.not = strings.CutPrefix(text, "!")
	text = strings.TrimLeft(text, " \t")
	if text == "" || delimiterless(text[0]) {
		return e, "", fmt.Errorf("%s does not begin with an expression; write it between slashes, such as /^joe@/", shorten(text))
	}
	source, after, ok := cutDelimited(text)
	if !ok {
		return e, "", fmt.Errorf("the expression has no %c at its end", text[0])
	}
	flags, value := after, ""
	if i := strings.IndexAny(after, " \t"); i >= 0 {
		flags, value = after[:i], strings.TrimSpace(after[i:])
	}
	prefix, err := goFlags(flags)
	if err != nil {
		return e, "", err
	}
	if e.match, err = regexp.Compile(prefix + source); err != nil {
		return e, "", errors.New(strings.Replace(err.Error(), "error parsing regexp", "the expression cannot be used (RE2)", 1))
	}
	return e, value, nil
}

// delimiterless reports whether c cannot enclose an expression.
func delimiterless(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80 || c == '\\'
}

// cutDelimited returns what is between the first character of a text and the next one like
// it without a backslash in front. RE2 takes any punctuation after a backslash as itself.
func cutDelimited(text string) (inside, after string, ok bool) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return text[1:i], text[i+1:], true
		}
	}
	return "", "", false
}

// goFlags translates flags, which toggle what is the default.
func goFlags(flags string) (string, error) {
	on := map[rune]bool{'i': true, 'm': false, 's': false}
	for _, f := range flags {
		if _, known := on[f]; !known {
			return "", fmt.Errorf("the flag %q is not one of i, m and s", f)
		}
		on[f] = !on[f]
	}
	text := ""
	for _, f := range []rune{'i', 'm', 's'} {
		if on[f] {
			text += string(f)
		}
	}
	if text == "" {
		return "", nil
	}
	return "(?" + text + ")", nil
}

// A valuePart is a part of a value: text, and the group behind it.
type valuePart struct {
	text  string
	group int // noGroup at the end of a value
}

const noGroup = -1

// template returns the parts of a value, and checks that it names groups that there are.
func template(e *expression, value string) (parts []valuePart, err error) {
	if value == "" {
		return nil, errors.New("the expression has no value; write an expression, a space and a value")
	}
	text := ""
	for {
		before, rest, found := strings.Cut(value, "$")
		text += before
		if !found {
			return append(parts, valuePart{text, noGroup}), nil
		}
		group, n := reference(rest)
		switch {
		case n == 0:
			return nil, fmt.Errorf("the $ in %s names no group; write $1, or $$ for a dollar sign", shorten("$"+rest))
		case group == "$":
			text += "$"
		case e.not:
			return nil, fmt.Errorf("%s names a group, and what does not match has none", shorten("$"+rest))
		default:
			k, err := strconv.Atoi(group)
			if err != nil || k > e.match.NumSubexp() {
				return nil, fmt.Errorf("%s names group %s, and the expression has %d", shorten("$"+rest), group, e.match.NumSubexp())
			}
			parts, text = append(parts, valuePart{text, k}), ""
		}
		value = rest[n:]
	}
}

// expand returns the value with what the groups have matched in a key. "" if the key, which
// may come from a stranger, would change what is an address in the value and what is not:
// by a comma or white space outside of double quotes, or by a quote of its own without a
// second.
func (e *expression) expand(key string, found []int) string {
	var b strings.Builder
	quotes := quotes{}
	for _, p := range e.parts {
		quotes.pass(p.text)
		b.WriteString(p.text)
		if p.group == noGroup || found[2*p.group] < 0 {
			continue
		}
		text, before := key[found[2*p.group]:found[2*p.group+1]], quotes
		if separates := quotes.pass(text); separates || quotes != before {
			return ""
		}
		b.WriteString(text)
	}
	return b.String()
}

// A quotes says where in a value a place is.
type quotes struct{ inside, escaped bool }

// pass goes over a text, and reports whether it has a comma or white space outside of double
// quotes.
func (q *quotes) pass(text string) (separates bool) {
	for i := range len(text) {
		c := text[i]
		switch {
		case q.escaped:
			q.escaped = false
		case c == '\\':
			q.escaped = q.inside
		case c == '"':
			q.inside = !q.inside
		case !q.inside && (c == ' ' || c == '\t' || c == ','):
			separates = true
		}
	}
	return separates
}

// reference returns the group that follows a $, and the length of the reference; 0 if there
// is none.
func reference(text string) (group string, n int) {
	if text == "" {
		return "", 0
	}
	if text[0] == '$' {
		return "$", 1
	}
	if end := map[byte]byte{'{': '}', '(': ')'}[text[0]]; end != 0 {
		if i := strings.IndexByte(text, end); i > 1 && strings.Trim(text[1:i], "0123456789") == "" {
			return text[1:i], i + 1
		}
		return "", 0
	}
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return text[:n], n
}
