package smtp

import "bytes"

// An Unstuffer extracts content from the stream that follows the reply to DATA:
// it removes the dots that the sender inserted before dots at the start of a
// line, and finds the end (RFC 5321 4.5.2).
//
// Only CRLF begins a line, so the end is exactly the five octets
// CR LF "." CR LF, and never a sequence that only some other server would take
// for the end. This is the receiver's half of the defense against SMTP
// smuggling. The CRLF of the DATA command itself counts as the first of these
// line ends. The zero Unstuffer is at the start of content.
type Unstuffer struct {
	at place
}

// A place is the position of the stream within a line.
type place uint8

const (
	atLineStart place = iota
	afterDot          // a dot at the start of a line, held back
	afterDotCR        // and a CR after it, held back too
	inLine
	afterCR // in a line, the last octet was a CR
)

// Next consumes octets of in and returns the content among them, which may be
// empty. n is the number of octets consumed; end reports whether the last of
// them ended the content. If not, n is less than len(in) only if the rest needs
// a second call.
//
// The content is a part of in, whose first n octets may have been moved to make
// it contiguous. Lines without a dot at their start cost one search, with no
// work per octet.
func (u *Unstuffer) Next(in []byte) (content []byte, n int, end bool) {
	if u.at == afterDotCR && len(in) > 0 && in[0] != '\n' {
		// The CR was held back from an earlier buffer, so there is no room for
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
			in[w] = '\r' // this octet is free: the dot before it was removed
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

// carriageReturn is the only piece of content that is not in an input buffer.
func carriageReturn() []byte { return []byte{'\r'} }

// run returns how many octets at the start of text, which is not empty, are
// plain content: up to and including the next CRLF that precedes a dot, or all.
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
