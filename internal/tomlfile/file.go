package tomlfile

import (
	"bytes"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// A Span is a piece of a file: octets from Start to before End. The zero Span is
// the beginning of the file.
type Span struct{ Start, End int }

// A File is the text of a file, and what has been found wrong with it.
type File struct {
	name   string
	text   []byte
	starts []int // of the lines
	found  []foundProblem
	more   int
	unread int // pieces that could not be read as TOML
}

type foundProblem struct {
	at Span
	Problem
}

// New returns a file that complaints call name. The text may be anything.
func New(name string, text []byte) *File {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin every file with it
	s := &File{name: name, text: text, starts: []int{0}}
	for i, c := range text {
		if c == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s
}

// Name returns what complaints call the file.
func (s *File) Name() string { return s.name }

// Text returns a piece of the file.
func (s *File) Text(at Span) string { return string(s.text[at.Start:at.End]) }

// Find returns where a text stands first, the zero Span if nowhere.
func (s *File) Find(text string) Span {
	if n := bytes.Index(s.text, []byte(text)); n >= 0 {
		return Span{n, n + len(text)}
	}
	return Span{}
}

// Line returns the number of the line that a span begins in, from 1 on.
func (s *File) Line(at Span) int { return s.lineAt(at.Start) + 1 }

// End returns where the file ends.
func (s *File) End() Span { return Span{len(s.text), len(s.text)} }

// lineAt returns the index of the line that an offset is in.
func (s *File) lineAt(offset int) int {
	return sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > offset }) - 1
}

// line returns a line without its end.
func (s *File) line(index int) string {
	end := len(s.text)
	if index+1 < len(s.starts) {
		end = s.starts[index+1] - 1
	}
	return strings.ToValidUTF8(strings.TrimSuffix(string(s.text[s.starts[index]:end]), "\r"), "\ufffd")
}

// endOfLine returns the offset of the end of the line that an offset is in.
func (s *File) endOfLine(offset int) int {
	if i := bytes.IndexByte(s.text[offset:], '\n'); i >= 0 {
		return offset + i
	}
	return len(s.text)
}

// Complain records a problem. Only Key, Message, Allowed and Hint of it count.
func (s *File) Complain(at Span, p Problem) {
	if len(s.found) == ProblemsMax {
		s.more++
		return
	}
	at.Start = min(max(at.Start, 0), len(s.text))
	at.End = min(max(at.End, at.Start), len(s.text))
	index := s.lineAt(at.Start)
	first := s.starts[index]
	p.File, p.Line = s.name, index+1
	p.Column = utf8.RuneCount(s.text[first:at.Start]) + 1
	p.Source = s.line(index)
	piece, _, _ := bytes.Cut(s.text[at.Start:at.End], []byte("\n"))
	p.Length = max(1, utf8.RuneCount(bytes.TrimRight(piece, "\r")))
	s.found = append(s.found, foundProblem{at, p})
}

// Complained reports whether the same was recorded of the same place.
func (s *File) Complained(at Span, message string) bool {
	return slices.ContainsFunc(s.found, func(f foundProblem) bool { return f.at.Start == at.Start && f.Message == message })
}

// Wrong reports whether anything was found.
func (s *File) Wrong() bool { return len(s.found) > 0 }

// Unread returns how many pieces could not be read, so that what seems to be missing
// may be there. What is read twice is none.
func (s *File) Unread() int { return s.unread }

// Only forgets all that was found and complains of one thing instead.
func (s *File) Only(at Span, p Problem) {
	s.found, s.more = nil, 0
	s.Complain(at, p)
}

// Problems returns all that was found, in the order of the file: a *Problems, or
// nil if nothing was.
func (s *File) Problems() error {
	if len(s.found) == 0 {
		return nil
	}
	sort.SliceStable(s.found, func(i, j int) bool { return s.found[i].at.Start < s.found[j].at.Start })
	list := make([]Problem, len(s.found))
	for i, f := range s.found {
		list[i] = f.Problem
	}
	return &Problems{List: list, More: s.more}
}
