package header

import (
	"bytes"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// beginning returns the name and the kind of the field that begins with a line; KindNone if
// none does, and KindMailbox, without a name, for the line between the messages of a mailbox
// file, which only the first one can be. known is false if more of the line must be seen.
func beginning(line []byte, first bool) (name []byte, k Kind, known bool) {
	end := bytes.IndexAny(line, ": \t\r\n")
	if end < 0 {
		return nil, KindNone, len(line) > 0 && !IsName(line)
	}
	name = line[:end]
	rest := bytes.TrimLeft(line[end:], " \t") // obsolete, but seen (RFC 5322 4.5)
	switch text := string(name); {
	case len(rest) == 0:
		return nil, KindNone, false
	case IsName(name) && rest[0] == ':':
		return name, KindOf(name), true
	case first && line[end] == ' ' && (text == "From" || text == ">From"):
		return nil, KindMailbox, true
	}
	return nil, KindNone, true
}

// unfold removes line ends (RFC 5322 2.2.3).
func unfold(value []byte) []byte {
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 {
		return value
	}
	return slices.DeleteFunc(bytes.Clone(value), func(c byte) bool { return c == '\r' || c == '\n' })
}

// lineMax is the length of the lines that are written (RFC 5322 2.1.1), in octets
// without the line end.
const lineMax = 78

// fold writes a field with a line break before words that would make a line too long. Where
// there is no space, a line is as long as it is.
func fold(name, value []byte) []byte {
	b := append(slices.Clip(slices.Clone(name)), ": "...)
	length := len(b)
	for i := 0; i < len(value); {
		n := word(value[i:])
		if i > 0 && length+n > lineMax && value[i] == ' ' && n > 1 {
			b = append(b, "\r\n"...)
			length = 0
		}
		b = append(b, value[i:i+n]...)
		length += n
		i += n
	}
	return append(b, "\r\n"...)
}

// word returns the length of a word with at most one space before it.
func word(text []byte) int {
	n := 1
	for n < len(text) && text[n] != ' ' {
		n++
	}
	return n
}

// rewrite returns a field with its addresses completed and rewritten. A list that cannot be
// read stays as it is: what it means to others is not known.
func (e *Edits) rewrite(k Kind, field []byte) []byte {
	name := bytes.IndexByte(field, ':') + 1
	value := field[name:]
	var changed []byte
	done := 0
	list := List{Emit: func(m Mailbox) error {
		if after, ok := e.address(k, m.Address); ok {
			changed = append(append(changed, value[done:m.From]...), after...)
			done = m.To
		}
		return nil
	}}
	if list.Feed(value) != nil || list.End() != nil || done == 0 {
		return field
	}
	return slices.Concat(field[:name], changed, value[done:])
}

// address returns what to write in place of an address; ok is false if nothing.
func (e *Edits) address(k Kind, written []byte) (after mail.Address, ok bool) {
	a, err := ParsePath(written, e.cfg.Domain)
	if err != nil {
		return "", false
	}
	after = Qualify(a, e.cfg.Domain)
	if e.cfg.Rewrite != nil {
		after = e.cfg.Rewrite(k, after)
	}
	return after, string(after) != string(written)
}

// Qualify appends a domain to that of an address if it has no dot. domain may be "", which
// changes nothing.
func Qualify(a mail.Address, domain string) mail.Address {
	own := a.Domain()
	if domain == "" || own == "" || own[0] == '[' || strings.Contains(own, ".") {
		return a
	}
	return a + "." + mail.Address(domain)
}
