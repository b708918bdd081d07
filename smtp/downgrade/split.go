package downgrade

import "bytes"

// A fragment is a line, or a piece of one that is longer than fragmentMax.
type fragment struct {
	octets     []byte // with the CRLF if it is the end of a line
	start, end bool   // of the line
}

// whole reports whether the fragment is a line.
func (f fragment) whole() bool { return f.start && f.end }

// fragmentMax bounds the memory for a line that comes in pieces. Boundaries and the
// names of header fields are shorter.
const fragmentMax = 4 << 10

// A splitter splits a message into fragments. The fragments do not depend on how
// the message is split into pieces.
type splitter struct {
	held   []byte // the beginning of an incomplete fragment
	inside bool   // the line has begun in an earlier fragment
}

// split calls take with the complete fragments. They are valid only during the
// call.
func (s *splitter) split(p []byte, take func(fragment)) {
	for len(p) > 0 {
		if len(s.held) == 0 {
			if n := fragmentEnd(p, 0); n > 0 {
				s.give(p[:n], take)
				p = p[n:]
				continue
			}
		}
		// Complete it with the octets that can belong to it.
		old := len(s.held)
		s.held = append(s.held, p[:min(len(p), fragmentMax-old)]...)
		n := fragmentEnd(s.held, max(old-1, 0))
		if n == 0 {
			p = p[len(s.held)-old:]
			continue
		}
		s.give(s.held[:n], take)
		if n > old {
			p = p[n-old:]
			s.held = s.held[:0]
			continue
		}
		// A CR that no LF has followed was left for the next fragment.
		s.held = append(s.held[:0], s.held[n:old]...)
	}
}

// fragmentEnd returns the length of the fragment at the start of p, or 0 if more
// octets are needed. An LF before from does not end it.
func fragmentEnd(p []byte, from int) int {
	whole := p[:min(len(p), fragmentMax)]
	for {
		i := bytes.IndexByte(whole[from:], '\n')
		if i < 0 {
			break
		}
		if i += from; i > 0 && whole[i-1] == '\r' {
			return i + 1
		}
		from = i + 1
	}
	switch {
	case len(p) < fragmentMax:
		return 0
	case whole[fragmentMax-1] == '\r':
		return fragmentMax - 1 // it may be half of a CRLF
	}
	return fragmentMax
}

func (s *splitter) give(octets []byte, take func(fragment)) {
	end := bytes.HasSuffix(octets, []byte("\r\n"))
	f := fragment{octets: octets, start: !s.inside, end: end}
	s.inside = !end
	take(f)
}

// end passes the rest at the end of the message to take.
func (s *splitter) end(take func(fragment)) {
	if len(s.held) > 0 {
		s.give(s.held, take)
		s.held = s.held[:0]
	}
}
