package dkim

import (
	"bytes"
	"hash"

	"github.com/posthaste-mta/posthaste/internal/ascii"
)

// What a header keeps of one message. If a field is beyond these limits, none of its name
// is signed; a message whose From field is beyond them is not signed at all.
const (
	KeptMax  = 64 << 10 // bytes of the values of fields that are signed
	fieldMax = 64       // fields that are signed
)

// A header follows the header of a message as it passes, and keeps the fields that are
// signed in the relaxed form (RFC 6376 3.4.2).
type header struct {
	state  headerState
	first  bool   // nothing but the beginning of the first line has passed
	blank  bool   // white space is due before the next byte of the value
	name   []byte // of the field, in lower case, as far as it may be a signed one
	long   bool   // the name is longer than all of these
	field  int    // index of the field that is being kept; -1: none
	begin  int    // where it begins in kept
	before int    // the value of taken at its beginning
	taken  int    // bytes of the fields in kept, as they are in the message
	kept   []byte
	found  []keptField
	missed [len(signedFields)]bool // names of which a field was not kept
}

// A keptField is a field in kept, with its CRLF.
type keptField struct {
	field      int
	begin, end int
}

// A headerState is what the next byte belongs to.
type headerState uint8

const (
	atLine   headerState = iota // the beginning of a line
	inEmpty                     // the empty line that ends the header
	inName                      // the name of a field
	pastName                    // white space between the name and the colon (RFC 5322 4.5)
	inValue                     // the value of a field that is kept
	inOther                     // the value of another field
	broken                      // something that is not a header; the rest does not count
	past                        // the body
)

// begins prepares for a new message, with the memory of the last one.
func (h *header) begins() {
	*h = header{first: true, field: -1, name: h.name[:0], kept: h.kept[:0], found: h.found[:0]}
	if cap(h.kept) > 8<<10 {
		h.kept = nil
	}
}

// scan takes the next piece of the message, and returns how much of it the header is.
func (h *header) scan(p []byte) (n int) {
	for n < len(p) && h.state < broken {
		switch h.state {
		case inValue, inOther:
			n += h.value(p[n:])
		default:
			if h.next(p[n]) {
				n++
			}
		}
	}
	if h.state == broken {
		return len(p)
	}
	return n
}

// next takes one byte outside of values; taken is false if it must be looked at again in
// the new state.
func (h *header) next(c byte) (taken bool) {
	switch h.state {
	case atLine:
		return h.line(c)
	case inEmpty:
		if c != '\n' {
			h.state = broken
			break
		}
		h.state = atLine
		h.end()
	case inName, pastName:
		h.named(c)
	}
	return true
}

// line takes the first byte of a line.
func (h *header) line(c byte) (taken bool) {
	switch {
	case c == '\r':
		h.state = inEmpty
	case (c == ' ' || c == '\t') && !h.first:
		h.state, h.blank = inOther, true
		if h.field >= 0 {
			h.state = inValue
		}
	default:
		h.finish()
		h.state, h.first, h.name, h.long = inName, false, h.name[:0], false
		return false
	}
	return true
}

// named takes a byte of a name, or of the white space after it.
func (h *header) named(c byte) {
	switch {
	case c == ':' && (len(h.name) > 0 || h.long):
		h.open()
	case (c == ' ' || c == '\t') && (len(h.name) > 0 || h.long):
		h.state = pastName
	case c <= ' ' || c > '~' || c == ':' || h.state == pastName:
		h.state = broken
	case h.long:
	case len(h.name) == fieldNameMax:
		h.long = true
	default:
		h.name = append(h.name, ascii.LowerByte(c))
	}
}

// open begins the value of a field.
func (h *header) open() {
	h.state, h.blank = inOther, false
	if h.long {
		return
	}
	h.field = signedFieldOf(h.name)
	if h.field < 0 {
		return
	}
	if len(h.found) == fieldMax {
		h.missed[h.field], h.field = true, -1
		return
	}
	h.state, h.begin, h.before = inValue, len(h.kept), h.taken
	h.kept = append(append(h.kept, h.name...), ':')
}

// value takes a part of a value, up to the end of a line.
func (h *header) value(p []byte) (n int) {
	n = bytes.IndexByte(p, '\n') + 1
	line := p[:n]
	if n == 0 {
		n, line = len(p), p
	} else {
		h.state = atLine
	}
	if h.field < 0 {
		return n
	}
	if h.taken += len(line); h.taken > KeptMax {
		h.missed[h.field], h.field = true, -1
		h.kept, h.taken = h.kept[:h.begin], h.before
		if h.state == inValue {
			h.state = inOther
		}
		return n
	}
	empty := len(h.kept) == h.begin+len(h.name)+1
	for _, c := range line {
		switch c {
		case ' ', '\t':
			h.blank = true
		case '\r', '\n':
		default:
			if h.blank && !empty {
				h.kept = append(h.kept, ' ')
			}
			h.blank, empty = false, false
			h.kept = append(h.kept, c)
		}
	}
	return n
}

// finish ends the field that is being kept.
func (h *header) finish() {
	if h.field >= 0 {
		h.kept = append(h.kept, '\r', '\n')
		h.found = append(h.found, keptField{h.field, h.begin, len(h.kept)})
	}
	h.field = -1
}

// end ends the header, also that of a message that ends within it.
func (h *header) end() {
	switch h.state {
	case inName, pastName, inEmpty:
		h.state = broken // a line without a colon, or a bare CR
	case atLine, inValue, inOther:
		h.finish()
		h.state = past
	}
}

// count returns how many fields of a name were kept.
func (h *header) count(field int) (n int) {
	for i := range h.found {
		if h.found[i].field == field {
			n++
		}
	}
	return n
}

// from returns the value of the From field.
func (h *header) from() []byte {
	for i := range h.found {
		if f := h.found[i]; f.field == fromField {
			return h.kept[f.begin+len("from:") : f.end]
		}
	}
	return nil
}

// digest writes the signed fields to a hash, and appends the h= tag to names, as indexes of
// fields: names in the order of the table, fields of one name from the last to the first
// (RFC 6376 5.4.2).
func (h *header) digest(names []uint8, to hash.Hash) []uint8 {
	for i, f := range signedFields {
		if h.missed[i] {
			continue
		}
		before := len(names)
		for j := len(h.found) - 1; j >= 0; j-- {
			if k := h.found[j]; k.field == i {
				to.Write(h.kept[k.begin:k.end])
				names = append(names, uint8(i))
			}
		}
		if f.seal == sealAlways || f.seal == sealPresent && len(names) > before {
			names = append(names, uint8(i))
		}
	}
	return names
}
