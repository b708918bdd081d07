package smtp

import "bytes"

// stuffState is the position of a Stuffer within a line.
type stuffState uint8

const (
	stuffStart  stuffState = iota // at the start of a line
	stuffInside                   // inside a line
	stuffReturn                   // after a CR that was held back
)

// A Stuffer encodes content for transmission after a 354 reply: a line that
// starts with a dot gets another one in front (RFC 5321 4.5.2), and the whole
// ends in exactly one line with a lone dot. It belongs to one session; the zero
// value is at the start of a message.
//
// Content should have CRLF line ends only. If it has others, none of them is
// sent, because a server that takes one for a line end could be made to see a
// second message in the content (RFC 5321 2.3.8, 4.1.1.4): a bare LF becomes
// CRLF, a bare CR becomes a space.
type Stuffer struct {
	state stuffState
	buf   []byte
	end   [5]byte
}

// stuffBufferMax is the size of the largest buffer kept for the next message.
const stuffBufferMax = 128 << 10

// Reset prepares the Stuffer for the next message.
func (s *Stuffer) Reset() {
	s.state = stuffStart
	if cap(s.buf) > stuffBufferMax {
		s.buf = nil
	}
}

// Encode returns the encoding of the next piece of content. Nearly always
// nothing in it has to change and the result is a part of piece itself;
// otherwise it is a buffer of the Stuffer, at most twice as long. The result is
// valid until the next call, as long as piece is not changed.
func (s *Stuffer) Encode(piece []byte) []byte {
	if len(piece) == 0 {
		return nil
	}
	if s.state == stuffReturn || !verbatim(piece, s.state == stuffStart) {
		return s.rewrite(piece)
	}
	switch end := len(piece) - 1; piece[end] {
	case '\r': // the next piece shows whether it is a bare one
		s.state = stuffReturn
		return piece[:end]
	case '\n':
		s.state = stuffStart
	default:
		s.state = stuffInside
	}
	return piece
}

// End returns the octets that complete the message: a line with a lone dot,
// preceded by the end of the last line if that is missing.
func (s *Stuffer) End() []byte {
	copy(s.end[:], "\r\n.\r\n")
	if s.state == stuffStart {
		return s.end[2:]
	}
	return s.end[:]
}

// verbatim reports whether content can be sent as it is: every LF follows a CR,
// there are no other CRs (except that the last octet may be one), and no line
// begins with a dot.
func verbatim(piece []byte, atStart bool) bool {
	if atStart && piece[0] == '.' {
		return false
	}
	returns := 0
	for rest := piece; ; returns++ {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		if i == 0 || rest[i-1] != '\r' {
			return false
		}
		rest = rest[i+1:]
		if len(rest) > 0 && rest[0] == '.' {
			return false
		}
	}
	if piece[len(piece)-1] == '\r' {
		returns++
	}
	return bytes.Count(piece, []byte{'\r'}) == returns
}

// rewrite encodes a piece that has to change.
func (s *Stuffer) rewrite(piece []byte) []byte {
	out := s.buf[:0]
	if s.state == stuffReturn {
		if piece[0] == '\n' {
			out = append(out, '\r', '\n')
			s.state = stuffStart
			piece = piece[1:]
		} else {
			out = append(out, ' ')
			s.state = stuffInside
		}
	}
	for len(piece) > 0 {
		line, ended := piece, false
		if i := bytes.IndexByte(piece, '\n'); i >= 0 {
			line, ended = piece[:i], true
			piece = piece[i+1:]
		} else {
			piece = nil
		}
		out = s.rewriteLine(out, line, ended)
	}
	s.buf = out
	return out
}

// rewriteLine appends a line or a part of one, given without its LF; ended
// reports whether the LF was there.
func (s *Stuffer) rewriteLine(out, line []byte, ended bool) []byte {
	if s.state == stuffStart && len(line) > 0 && line[0] == '.' {
		out = append(out, '.')
	}
	rest, hasReturn := bytes.CutSuffix(line, []byte{'\r'})
	from := len(out)
	out = append(out, rest...)
	if bytes.IndexByte(rest, '\r') >= 0 {
		for i := from; i < len(out); i++ {
			if out[i] == '\r' {
				out[i] = ' '
			}
		}
	}
	switch {
	case ended:
		s.state = stuffStart
		return append(out, '\r', '\n')
	case hasReturn:
		s.state = stuffReturn
	default:
		s.state = stuffInside
	}
	return out
}
