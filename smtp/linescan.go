package smtp

import "bytes"

// A Flaw is something that makes content unfit to be relayed; a set of them
// is their union.
type Flaw uint8

const (
	// FlawNewline: a CR or LF that is not part of CRLF. Passed on, it could
	// end the message early at a next hop that takes it for a line end.
	FlawNewline Flaw = 1 << iota
	FlawNUL
	FlawLongLine
	FlawHeaderSize
	FlawHeaderFields
	FlawHops // too many Received fields, ours or all: the message loops
)

// A LineScan looks for flaws in the lines of content that passes by. What it
// finds does not depend on how the content is cut into pieces.
type LineScan struct {
	// Max is the longest line allowed, in octets with its line end.
	Max    int
	length int  // of the line so far
	cr     bool // the last octet was a CR
}

// Scan looks at the next piece of the content.
func (l *LineScan) Scan(p []byte) (found Flaw) {
	if len(p) == 0 {
		return 0
	}
	if bytes.IndexByte(p, 0) >= 0 {
		found = FlawNUL
	}
	// Every CR belongs to a CRLF if there are as many of the one as of the
	// other; counting them is much cheaper than looking behind each.
	returns := bytes.Count(p, []byte("\r"))
	if l.cr {
		returns++
	}
	start := 0
	for {
		i := bytes.IndexByte(p[start:], '\n')
		if i < 0 {
			break
		}
		end := start + i
		if end > 0 && p[end-1] == '\r' || end == 0 && l.cr {
			returns--
		} else {
			found |= FlawNewline
		}
		if l.length+i+1 > l.Max {
			found |= FlawLongLine
		}
		l.length = 0
		start = end + 1
	}
	if l.length += len(p) - start; l.length > l.Max {
		found |= FlawLongLine
	}
	if l.cr = p[len(p)-1] == '\r'; l.cr {
		returns--
	}
	if returns != 0 {
		found |= FlawNewline
	}
	return found
}

// End tells what is wrong with the content's end.
func (l *LineScan) End() Flaw {
	if l.cr {
		return FlawNewline
	}
	return 0
}

// A Normalizer makes text lines of content from clients that are trusted to
// mean well but end lines by a mere LF: LF becomes CRLF, a CR on its own and
// NUL become spaces. Zero value ready.
type Normalizer struct {
	cr bool // a CR is withheld until it is known what follows
}

// Append appends the normal form of the next piece to dst. At most a CR at
// its end is kept for later.
func (z *Normalizer) Append(dst, p []byte) []byte {
	for len(p) > 0 {
		if z.cr {
			z.cr = false
			if p[0] == '\n' {
				dst = append(dst, crlf...)
				p = p[1:]
				continue
			}
			dst = append(dst, ' ')
		}
		i := bytes.IndexAny(p, "\r\n\x00")
		if i < 0 {
			return append(dst, p...)
		}
		dst = append(dst, p[:i]...)
		switch p[i] {
		case '\r':
			z.cr = true
		case '\n':
			dst = append(dst, crlf...)
		default:
			dst = append(dst, ' ')
		}
		p = p[i+1:]
	}
	return dst
}

// End appends what was withheld.
func (z *Normalizer) End(dst []byte) []byte {
	if z.cr {
		z.cr = false
		dst = append(dst, ' ')
	}
	return dst
}
