package config

import (
	"bytes"
	"sort"
	"strings"
	"unicode/utf8"
)

// A span is a piece of a file: octets from start to before end.
type span struct{ start, end int }

// A source is the text of a file, and what has been found wrong with it.
type source struct {
	name   string
	text   []byte
	starts []int // of the lines
	found  []foundProblem
	more   int
}

type foundProblem struct {
	at span
	Problem
}

func newSource(name string, text []byte) *source {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin every file with it
	s := &source{name: name, text: text, starts: []int{0}}
	for i, c := range text {
		if c == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s
}

// lineAt returns the index of the line that an offset is in.
func (s *source) lineAt(offset int) int {
	return sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > offset }) - 1
}

// line returns a line without its end.
func (s *source) line(index int) string {
	end := len(s.text)
	if index+1 < len(s.starts) {
		end = s.starts[index+1] - 1
	}
	return strings.ToValidUTF8(strings.TrimSuffix(string(s.text[s.starts[index]:end]), "\r"), "\ufffd")
}

// endOfLine returns the offset of the end of the line that an offset is in.
func (s *source) endOfLine(offset int) int {
	if i := bytes.IndexByte(s.text[offset:], '\n'); i >= 0 {
		return offset + i
	}
	return len(s.text)
}

// complain records a problem. Only Key, Message, Allowed and Hint of it count.
func (s *source) complain(at span, p Problem) {
	if len(s.found) == problemsMax {
		s.more++
		return
	}
	at.start = min(max(at.start, 0), len(s.text))
	at.end = min(max(at.end, at.start), len(s.text))
	index := s.lineAt(at.start)
	first := s.starts[index]
	p.File, p.Line = s.name, index+1
	p.Column = utf8.RuneCount(s.text[first:at.start]) + 1
	p.Source = s.line(index)
	piece, _, _ := bytes.Cut(s.text[at.start:at.end], []byte("\n"))
	p.Length = max(1, utf8.RuneCount(bytes.TrimRight(piece, "\r")))
	s.found = append(s.found, foundProblem{at, p})
}

// problems returns all that was found, in the order of the file; nil if
// nothing was.
func (s *source) problems() error {
	if len(s.found) == 0 {
		return nil
	}
	sort.SliceStable(s.found, func(i, j int) bool { return s.found[i].at.start < s.found[j].at.start })
	list := make([]Problem, len(s.found))
	for i, f := range s.found {
		list[i] = f.Problem
	}
	return &Problems{List: list, More: s.more}
}
