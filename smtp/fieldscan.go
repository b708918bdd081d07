package smtp

import (
	"bytes"
	"slices"
)

// A WatchedField is a header field that a FieldScan looks for.
type WatchedField struct {
	Name   string // as in the header; case does not matter
	Remove bool   // from the content
}

// A FieldWatch is a set of fields to look for. It does not change, so any number of
// scans may share it.
type FieldWatch struct {
	fields []WatchedField
	begins [256]bool // first octets of the names, in both cases
}

// NewFieldWatch returns a watch for fields that differ in their names.
func NewFieldWatch(fields []WatchedField) *FieldWatch {
	w := &FieldWatch{fields: slices.Clone(fields)}
	for _, f := range fields {
		c := f.Name[0]
		w.begins[c] = true
		if letter := c | 0x20; 'a' <= letter && letter <= 'z' {
			w.begins[letter], w.begins[letter&^0x20] = true, true
		}
	}
	return w
}

// find returns the number of a field, -1 if it is not watched.
func (w *FieldWatch) find(name []byte) int {
	if !w.begins[name[0]] {
		return -1
	}
	for i := range w.fields {
		if len(w.fields[i].Name) == len(name) && bytes.EqualFold([]byte(w.fields[i].Name), name) {
			return i
		}
	}
	return -1
}

// A Field is a field that was found.
type Field struct {
	Watched int    // its number in the FieldWatch
	Value   []byte // unfolded, without white space around it; at most FieldValueMax octets
}

// What a FieldScan keeps and examines at most. Memory per message is bounded by
// FieldRepeatMax values of each watched field.
const (
	FieldScanMax   = 64 << 10 // octets of the header; beyond them nothing is found, and nothing removed
	FieldValueMax  = 256      // octets of one value; what follows is not seen
	FieldRepeatMax = 4        // values of one field
)

// fieldNameMax is the length of a partial line that is held back until its name is
// complete; the name of a longer line is not watched.
const fieldNameMax = 128

// A FieldScan finds watched fields in content as it passes, and removes some of
// them. The result does not depend on how the content is split into pieces. Call
// Begin, then Next for each piece, then End.
type FieldScan struct {
	watch  *FieldWatch // nil when there is nothing to look for
	at     fieldPlace
	field  int  // the watched field of the line, with atField
	keep   bool // its value is kept
	first  bool // the next line is the first one of the content
	looked int  // octets of the header so far
	begun  int  // where in values the value of the field begins
	values []byte
	found  []Field
	held   []byte // the beginning of a line whose name is not complete
	joined []byte // held and the piece after it
}

// A fieldPlace is what the next octet belongs to.
type fieldPlace uint8

const (
	atBody  fieldPlace = iota // or to a part of the header that is not examined
	atStart                   // a new line
	atOther                   // a line of a field that is not watched
	atField                   // a line of a watched field
)

// Begin starts with a new message. watch may be nil.
func (s *FieldScan) Begin(watch *FieldWatch) {
	*s = FieldScan{watch: watch, field: -1, first: true, values: s.values[:0], found: s.found[:0], held: s.held[:0]}
	if watch != nil {
		s.at = atStart
	}
	if cap(s.values) > 1<<10 {
		s.values = nil // a connection that waits must not keep more than is common
	}
}

// Next examines a piece of the content and returns the part of it that remains. It
// may overwrite the piece. The result is valid until the next call.
func (s *FieldScan) Next(piece []byte) []byte {
	if s.at == atBody || len(piece) == 0 {
		return piece
	}
	if len(s.held) > 0 {
		s.joined = append(append(s.joined[:0], s.held...), piece...)
		s.held, piece = s.held[:0], s.joined
	}
	kept := 0 // piece[:kept] is passed on
	for i := 0; i < len(piece); {
		if s.at == atStart && !s.start(piece[i:]) {
			s.held = append(s.held, piece[i:]...)
			return piece[:kept]
		}
		if s.at == atBody {
			return piece[:kept+copy(piece[kept:], piece[i:])]
		}
		n := bytes.IndexByte(piece[i:], '\n') + 1
		ended := n > 0
		if !ended {
			n = len(piece) - i
		}
		if s.line(piece[i : i+n]) {
			if kept < i {
				copy(piece[kept:], piece[i:i+n])
			}
			kept += n
		}
		i += n
		if ended {
			s.at = atStart
		}
	}
	return piece[:kept]
}

// End returns what was held back: the beginning of content that ends before its
// first field does.
func (s *FieldScan) End() []byte {
	s.stop()
	held := s.held
	s.held = nil
	return held
}

// Found returns the fields found, in the order of the header. They are valid until
// the next Begin.
func (s *FieldScan) Found() []Field {
	s.finish()
	return s.found
}

// start looks at the beginning of a line and sets what the line is. It returns false if
// it needs more of it.
func (s *FieldScan) start(line []byte) (known bool) {
	folded := line[0] == ' ' || line[0] == '\t'
	switch {
	case s.looked > FieldScanMax, folded && s.first:
		s.stop()
		return true
	case folded:
		s.at = atOther
		if s.field >= 0 {
			s.at = atField
		}
		return true
	}
	n, whole := fieldName(line[:min(len(line), fieldNameMax+1)], s.first)
	switch {
	case !whole && len(line) <= fieldNameMax:
		return false
	case whole && n == 0:
		s.stop()
		return true
	}
	s.finish()
	s.at, s.first = atOther, false
	if !whole { // a long name
		return true
	}
	if s.field = s.watch.find(line[:n]); s.field >= 0 {
		s.at, s.keep, s.begun = atField, s.repeats(s.field) < FieldRepeatMax, len(s.values)
	}
	return true
}

// stop ends the search.
func (s *FieldScan) stop() {
	s.finish()
	s.at, s.joined = atBody, nil
}

// finish keeps the value of the field whose lines have ended.
func (s *FieldScan) finish() {
	if s.field >= 0 && s.keep {
		_, value, _ := bytes.Cut(s.values[s.begun:], []byte(":"))
		value = bytes.TrimSpace(unfold(value))
		s.found = append(s.found, Field{Watched: s.field, Value: value[:min(len(value), FieldValueMax)]})
	}
	s.field, s.keep = -1, false
}

func (s *FieldScan) repeats(field int) (n int) {
	for i := range s.found {
		if s.found[i].Watched == field {
			n++
		}
	}
	return n
}

// line examines a line, or a part of one, and reports whether it is passed on.
func (s *FieldScan) line(part []byte) bool {
	s.looked += len(part)
	if s.at != atField {
		return true
	}
	if room := s.begun + fieldNameMax + FieldValueMax - len(s.values); s.keep && room > 0 {
		s.values = append(s.values, part[:min(len(part), room)]...)
	}
	return !s.watch.fields[s.field].Remove
}

// fieldName returns the length of the name at the beginning of a line, 0 if the line
// cannot be part of a header; whole is false if that is not known yet. The "From "
// line of mailbox files counts as a field if it is the first one.
func fieldName(line []byte, first bool) (n int, whole bool) {
	for i, c := range line {
		switch {
		case c == ':':
			if n == 0 {
				n = i
			}
			return n, true
		case c == ' ' || c == '\t':
			if name := string(line[:i]); first && c == ' ' && (name == "From" || name == ">From") {
				return i, true
			}
			if n == 0 {
				n = i
			}
		case n > 0, c <= ' ', c > '~':
			return 0, true
		}
	}
	return n, false
}

// unfold removes line ends (RFC 5322 2.2.3), in place.
func unfold(value []byte) []byte {
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 {
		return value
	}
	return slices.DeleteFunc(value, func(c byte) bool { return c == '\r' || c == '\n' })
}
