package tomlfile

import (
	"fmt"
	"strings"
)

// A Problem is one mistake in a configuration file.
type Problem struct {
	File         string
	Line, Column int    // of its first character, from 1 on; the column counts characters
	Length       int    // characters of that line that are meant; at least 1
	Source       string // the line
	Key          string // the parameter, in full, as in transport.bulk.process_limit; "" for a mistake in the syntax
	Message      string // what is wrong
	Allowed      string // allowed values; "" if Message has them
	Hint         string // what was probably meant; "" if there is no guess
}

// Error returns the problem in one line, as editors and logs want it.
func (p Problem) Error() string {
	text := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.what())
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	if p.Allowed != "" {
		text += " (allowed: " + p.Allowed + ")"
	}
	return text
}

func (p Problem) what() string {
	if p.Key == "" {
		return p.Message
	}
	return p.Key + ": " + p.Message
}

// excerptMax is the number of characters of a line that are shown.
const ExcerptMax = 96

// String returns the problem with the line it is in, for people.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s\n", p.File, p.Line, p.Column, p.what())
	source, column, length := p.excerpt()
	number := fmt.Sprint(p.Line)
	fmt.Fprintf(&b, "  %s | %s\n", number, source)
	fmt.Fprintf(&b, "  %*s | %s%s\n", len(number), "", strings.Repeat(" ", column), strings.Repeat("^", length))
	if p.Allowed != "" {
		fmt.Fprintf(&b, "  allowed: %s\n", p.Allowed)
	}
	if p.Hint != "" {
		fmt.Fprintf(&b, "  hint: %s\n", p.Hint)
	}
	return b.String()
}

// excerpt returns what to show of the line, and where in it the mistake is,
// counted from 0. Characters that would move the cursor become spaces, so that
// the underline stays below what it is about.
func (p Problem) excerpt() (text string, column, length int) {
	line := []rune(p.Source)
	for i, r := range line {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			line[i] = ' '
		}
	}
	column = min(max(p.Column-1, 0), len(line))
	length = max(1, min(p.Length, max(1, len(line)-column)))
	if len(line) <= ExcerptMax {
		return string(line), column, length
	}
	length = min(length, ExcerptMax/2)
	start := max(0, min(column-ExcerptMax/4, len(line)-ExcerptMax))
	shown := line[start:min(start+ExcerptMax, len(line))]
	if column-start+length > len(shown) {
		length = max(1, len(shown)-(column-start))
	}
	if start == 0 {
		return string(shown) + "…", column, length
	}
	return "…" + string(shown) + "…", column - start + 1, length
}

// Problems are all the mistakes in a file, in the order of the file. As an
// error it means that nothing of the file can be used; a program should print
// String and exit with status 78 (EX_CONFIG of sysexits.h).
type Problems struct {
	List []Problem
	More int // further problems that are not in the list
}

// ProblemsMax bounds the list. A file with more is probably the wrong file.
const ProblemsMax = 50

// Error returns one line for each problem.
func (p *Problems) Error() string {
	lines := make([]string, 0, len(p.List)+1)
	for _, one := range p.List {
		lines = append(lines, one.Error())
	}
	if p.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", p.More))
	}
	return strings.Join(lines, "\n")
}

// String returns all problems with the lines they are in.
func (p *Problems) String() string {
	var b strings.Builder
	for _, one := range p.List {
		b.WriteString(one.String())
		b.WriteByte('\n')
	}
	total := len(p.List) + p.More
	switch {
	case p.More > 0:
		fmt.Fprintf(&b, "%d problems, of which these are the first %d\n", total, len(p.List))
	case total == 1:
		b.WriteString("1 problem\n")
	default:
		fmt.Fprintf(&b, "%d problems\n", total)
	}
	return b.String()
}

// Unwrap makes each Problem visible to errors.As.
func (p *Problems) Unwrap() []error {
	all := make([]error, len(p.List))
	for i, one := range p.List {
		all[i] = one
	}
	return all
}
