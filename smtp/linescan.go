package smtp

import "bytes"

// A Flaw is a reason not to relay content; several are combined by a bitwise
// or.
type Flaw uint8

const (
	// FlawNewline: a CR or LF that is not part of CRLF. If it were relayed, it
	// could end the message early at a next hop that takes it for a line end.
	FlawNewline Flaw = 1 << iota
	FlawNUL
	FlawLongLine
	FlawHeaderSize
	FlawHeaderFields
	FlawHops // too many Received fields, in total or of our own: a mail loop
)

// A LineScan looks for flaws in the lines of content as it passes. The result
// does not depend on how the content is split into pieces.
type LineScan struct {
	// Max is the longest line allowed, in octets with its line end.
	Max    int
	length int  // of the line so far
	cr     bool // the last octet was a CR
}

// Scan examines the next piece of the content.
func (l *LineScan) Scan(p []byte) (found Flaw) {
	if len(p) == 0 {
		return 0
	}
	if bytes.IndexByte(p, 0) >= 0 {
		found = FlawNUL
	}
	// Every CR belongs to a CRLF if CRs and CRLFs are equal in number; counting
	// them is much cheaper than examining the octet after each CR.
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

// End returns the flaw of the content's end, if it has one.
func (l *LineScan) End() Flaw {
	if l.cr {
		return FlawNewline
	}
	return 0
}

// A Normalizer makes text lines of content from trusted clients that end lines
// with a bare LF: LF becomes CRLF, a bare CR and NUL become spaces. The zero
// value is ready to use.
type Normalizer struct {
	cr bool // a CR is held back until the next octet is known
}

// Append appends the normalized form of the next piece to dst. At most a CR at
// the end of the piece is held back.
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

// End appends the CR that was held back, if any.
func (z *Normalizer) End(dst []byte) []byte {
	if z.cr {
		z.cr = false
		dst = append(dst, ' ')
	}
	return dst
}
