package maincf

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// LineMax is the size of the longest logical line, in bytes.
	LineMax = 256 << 10
	// problemsMax is the number of problems of one text that are listed.
	problemsMax = 50
)

// A Problem is something in a text that cannot be understood.
type Problem struct {
	File string
	Line int // from 1; 0 for the text as a whole
	Text string
}

// Error returns the problem with its position.
func (p Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// A problems collects what is wrong with one text.
type problems struct {
	file string
	list []Problem
	more int
}

func (p *problems) add(line int, format string, args ...any) {
	if len(p.list) == problemsMax {
		p.more++
		return
	}
	p.list = append(p.list, Problem{p.file, line, fmt.Sprintf(format, args...)})
}

// all returns the list, with the number of those that are not in it.
func (p *problems) all() []Problem {
	if p.more > 0 {
		p.list = append(p.list, Problem{File: p.file, Text: fmt.Sprintf("%d more problems", p.more)})
		p.more = 0
	}
	return p.list
}

// A logicalLine is a line with those that continue it.
type logicalLine struct {
	number int // of its first line, from 1
	text   string
}

// logicalLines takes a text apart as Postfix does: lines that begin with white space
// continue the line before; empty lines, and those whose first character other than white
// space is "#", are skipped, also between a line and its continuation. A line that is
// continued has the line breaks in it replaced by a space.
func logicalLines(text string, wrong *problems) (all []logicalLine) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		wrong.add(1+strings.Count(text[:i], "\n"), "this is not a text: there is a byte 0 in it")
		return nil
	}
	text = strings.TrimPrefix(text, "\ufeff")
	number := 0
	var whole strings.Builder
	begun, tooLong := 0, false
	end := func() {
		switch line := strings.TrimRight(whole.String(), " \t"); {
		case begun == 0:
		case tooLong:
			wrong.add(begun, "the line is longer than %d bytes with those that continue it", LineMax)
		case !utf8.ValidString(line):
			wrong.add(begun, "the line is not UTF-8")
		case strings.ContainsFunc(line, isControl):
			wrong.add(begun, "there is a control character in the line")
		default:
			all = append(all, logicalLine{begun, line})
		}
		whole.Reset()
		begun, tooLong = 0, false
	}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		inside := strings.TrimLeft(line, " \t")
		if inside == "" || inside[0] == '#' {
			continue
		}
		continues := len(inside) < len(line)
		if continues && begun == 0 {
			wrong.add(number, "this line continues another one, and there is none before it")
			continue
		}
		if !continues {
			end()
			begun = number
		} else {
			whole.WriteByte(' ')
		}
		if whole.Len()+len(inside) > LineMax {
			tooLong = true
			continue
		}
		whole.WriteString(inside)
	}
	end()
	return all
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// shorten returns a text as a message quotes it.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		cut := most
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return fmt.Sprintf("%q", s)
}

// braced returns the text between the brace with which s begins and the one that closes it,
// and what is behind that; ok is false if s does not begin with one, or none closes it.
func braced(s string) (inside, rest string, ok bool) {
	if !strings.HasPrefix(s, "{") {
		return "", s, false
	}
	level := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			level++
		case '}':
			if level--; level == 0 {
				return s[1:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}

// Words separates a text at white space, and at commas unless they are arguments; what is
// in braces stays together, with its braces. An open brace takes the rest of the text.
func Words(s string) []string { return words(s, " \t,") }

func words(s, separators string) (all []string) {
	for {
		s = strings.TrimLeft(s, separators)
		if s == "" {
			return all
		}
		level, end := 0, len(s)
		for i := range len(s) {
			if c := s[i]; c == '{' {
				level++
			} else if c == '}' && level > 0 {
				level--
			} else if level == 0 && strings.IndexByte(separators, c) >= 0 {
				end = i
				break
			}
		}
		all = append(all, s[:end])
		s = s[end:]
	}
}
