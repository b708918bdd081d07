package dkim

import (
	"bytes"
	"crypto/sha256"
	"hash"
)

// A body hashes the body of a message in the relaxed form (RFC 6376 3.4.4) as it passes:
// white space at the ends of lines goes, other white space becomes one space, and empty
// lines at the end go. Memory does not grow with what passes.
type body struct {
	hash  hash.Hash
	ends  int64 // line ends that count if something follows
	blank bool  // white space is due before the next byte of the line
	cr    bool  // the last byte was a CR
	any   bool  // something is not white space
	out   [1024]byte
	n     int // bytes in out
}

// begins prepares for a new message, with the hash of the last one.
func (b *body) begins() {
	if b.hash == nil {
		b.hash = sha256.New()
	}
	b.hash.Reset()
	b.ends, b.blank, b.cr, b.any, b.n = 0, false, false, false, 0
}

// scan takes the next piece of the body.
func (b *body) scan(p []byte) {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n') + 1
		whole := n > 1 && p[n-2] == '\r'
		if !whole || b.blank || b.cr {
			if n == 0 {
				n = len(p)
			}
			b.bytes(p[:n])
			p = p[n:]
			continue
		}
		line := p[:n-2]
		if isRelaxed(line) {
			b.put(line)
			b.ends++
		} else {
			b.bytes(p[:n])
		}
		p = p[n:]
	}
}

// isRelaxed reports whether the rest of a line is in the relaxed form already, as nearly
// all of them are.
func isRelaxed(line []byte) bool {
	return len(line) == 0 ||
		line[len(line)-1] != ' ' && bytes.IndexByte(line, '\t') < 0 && !bytes.Contains(line, []byte("  "))
}

// bytes takes bytes one by one.
func (b *body) bytes(p []byte) {
	for _, c := range p {
		if b.cr {
			b.cr = false
			if c == '\n' {
				b.ends, b.blank = b.ends+1, false
				continue
			}
			b.word('\r') // a CR by itself is a byte like others
		}
		switch c {
		case ' ', '\t':
			b.blank = true
		case '\r':
			b.cr = true
		default:
			if b.blank || b.ends > 0 || !b.any || b.n == len(b.out) {
				b.word(c)
				continue
			}
			b.out[b.n] = c
			b.n++
		}
	}
}

// word takes a byte that is not white space, after what is due before it.
func (b *body) word(c byte) {
	b.due()
	if b.blank {
		b.blank = false
		b.add(' ')
	}
	b.add(c)
}

// due adds the line ends that are due before what follows.
func (b *body) due() {
	b.any = true
	for ; b.ends > 0; b.ends-- {
		b.add('\r')
		b.add('\n')
	}
}

func (b *body) add(c byte) {
	if b.n == len(b.out) {
		b.flush()
	}
	b.out[b.n] = c
	b.n++
}

// put adds a part of a line.
func (b *body) put(p []byte) {
	if len(p) == 0 {
		return
	}
	b.due()
	if len(p) > len(b.out)-b.n {
		b.flush()
		if len(p) > len(b.out) {
			b.hash.Write(p)
			return
		}
	}
	b.n += copy(b.out[b.n:], p)
}

func (b *body) flush() {
	b.hash.Write(b.out[:b.n])
	b.n = 0
}

// sum returns the hash of the body, which has ended. A body that is not empty ends with one
// line end.
func (b *body) sum() (sum [sha256.Size]byte) {
	if b.cr {
		b.cr = false
		b.word('\r')
	}
	b.ends = 0
	if b.any {
		b.add('\r')
		b.add('\n')
	}
	b.flush()
	b.hash.Sum(sum[:0])
	return sum
}
