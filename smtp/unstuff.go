package smtp

import "bytes"

// An Unstuffer takes content out of the stream that follows the reply to
// DATA: it removes the dots that the sender put before dots at the start of a
// line, and finds the end (RFC 5321 4.5.2).
//
// Only CRLF begins a line, so that the end is the exact five octets
// CR LF "." CR LF and nothing that merely looks like them to somebody else:
// this is the receiving half of the defence against smuggled messages. The
// CRLF of the DATA command itself counts as the first of them. The zero
// Unstuffer stands at the start of content.
type Unstuffer struct {
	at place
}

// A place is where in a line the stream stands.
type place uint8

const (
	atLineStart place = iota
	afterDot          // a dot at the start of a line, withheld
	afterDotCR        // and a CR behind it, withheld too
	inLine
	afterCR // in a line, the last octet was a CR
)

// Next takes octets of in and returns the content among them, which may be
// empty. It took the first n octets; end tells that the last of them ended
// the content. Without end, n is less than len(in) only if a second call is
// needed for the rest.
//
// The content is a part of in, whose first n octets may have been moved about
// to make it one piece. It is never byte-wise work: lines without a dot at
// their start cost one search.
func (u *Unstuffer) Next(in []byte) (content []byte, n int, end bool) {
	if u.at == afterDotCR && len(in) > 0 && in[0] != '\n' {
		// The CR was withheld from an earlier buffer, so there is no room for
		// it in this one.
		u.at = afterCR
		return carriageReturn(), 0, false
	}
	w := 0
	for n < len(in) {
		switch c := in[n]; {
		case u.at == atLineStart && c == '.':
			u.at = afterDot
			n++
		case u.at == afterDot && c == '\r':
			u.at = afterDotCR
			n++
		case u.at == afterDotCR && c == '\n':
			return in[:w], n + 1, true
		case u.at == afterDotCR:
			in[w] = '\r' // its place is free: the dot before it was removed
			w++
			u.at = afterCR
		case u.at == afterCR && c == '\n':
			in[w] = '\n'
			w++
			n++
			u.at = atLineStart
		default:
			size := u.run(in[n:])
			w += copy(in[w:], in[n:n+size])
			n += size
		}
	}
	return in[:w], n, false
}

// carriageReturn is the one piece of content that is in no input buffer.
func carriageReturn() []byte { return []byte{'\r'} }

// run returns how many octets at the start of text, which is not empty, are
// content as they are: up to and with the next CRLF that a dot follows, or all.
func (u *Unstuffer) run(text []byte) int {
	if i := bytes.Index(text, []byte(crlf+".")); i >= 0 {
		u.at = atLineStart
		return i + len(crlf)
	}
	switch {
	case bytes.HasSuffix(text, []byte(crlf)):
		u.at = atLineStart
	case text[len(text)-1] == '\r':
		u.at = afterCR
	default:
		u.at = inLine
	}
	return len(text)
}

const crlf = "\r\n"
