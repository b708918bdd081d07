package downgrade

import "bytes"

// A Converter converts a message to a form that a server accepts. The zero
// Converter only breaks long lines.
type Converter struct {
	plan  Plan
	lines splitter
	m     parser
	out   []byte
	line  int  // octets of the line being written
	drop  bool // the header field being read is left out
	cr    bool // a CR is held back by fold
	qp    quoted
}

// NewConverter returns a Converter of a message for a server without 8BITMIME.
// The plan must have been made from the same octets.
func NewConverter(plan Plan) *Converter { return &Converter{plan: plan} }

// Append appends the converted form of the next piece of the message to dst.
func (c *Converter) Append(dst, piece []byte) []byte {
	c.out = dst
	if len(c.plan.parts) == 0 {
		c.fold(piece)
	} else {
		c.lines.split(piece, c.take)
	}
	dst, c.out = c.out, nil
	return dst
}

// End appends the rest of the converted message.
func (c *Converter) End(dst []byte) []byte {
	c.out = dst
	if c.cr {
		c.write([]byte("\r"))
	}
	c.lines.end(c.take)
	c.write(c.qp.end())
	if c.m.state == atHeader && c.m.completed > 0 && c.change(c.m.part) != keep {
		if c.line > 0 {
			c.write([]byte("\r\n"))
		}
		c.label(c.m.part, c.m.header)
	}
	dst, c.out = c.out, nil
	return dst
}

// fold only breaks long lines.
func (c *Converter) fold(piece []byte) {
	if len(piece) == 0 {
		return
	}
	if c.cr {
		c.cr = false
		if piece[0] == '\n' {
			c.write([]byte("\r\n"))
			piece = piece[1:]
		} else {
			c.write([]byte("\r"))
		}
	}
	if n := len(piece) - 1; n >= 0 && piece[n] == '\r' { // it may be half of a CRLF
		c.cr, piece = true, piece[:n]
	}
	c.write(piece)
}

func (c *Converter) take(f fragment) {
	inHeader := c.m.state == atHeader
	e := c.m.take(f)
	switch {
	case e&headerEnds != 0:
		c.drop = false
		c.label(c.m.ended, c.m.last)
		if e&headerBroken == 0 {
			c.write(f.octets)
			return
		}
		if c.change(c.m.ended) != keep {
			c.write([]byte("\r\n")) // separates the text already written from the body
		}
	case inHeader:
		if f.start && isField(f.octets) {
			c.drop = c.m.name == fieldEncoding && c.change(c.m.part) != keep
		}
		if !c.drop {
			c.write(f.octets)
		}
		return
	}
	if e&boundaryLine == 0 && c.m.state == atBody && c.change(c.m.part) == encode {
		c.write(c.qp.encode(f))
		return
	}
	c.write(f.octets)
}

// change returns the planned change of a part.
func (c *Converter) change(part int) change {
	if part >= len(c.plan.parts) {
		return keep
	}
	return c.plan.parts[part]
}

// label writes the fields that replace those dropped from a part's header.
func (c *Converter) label(part int, h header) {
	switch c.change(part) {
	case relabel:
		c.write([]byte("Content-Transfer-Encoding: 7bit\r\n"))
	case encode:
		if h.message && !h.versioned {
			c.write([]byte("MIME-Version: 1.0\r\n"))
		}
		if !h.typed {
			c.write([]byte("Content-Type: text/plain; charset=unknown-8bit\r\n"))
		}
		c.write([]byte("Content-Transfer-Encoding: quoted-printable\r\n"))
	}
}

// write writes octets, and breaks lines that become too long.
func (c *Converter) write(p []byte) {
	for at := 0; at < len(p); {
		n, end := len(p)-at, 0
		if i := lineEnd(p[at:]); i >= 0 {
			n, end = i, len("\r\n")
		}
		if room := LineLimit - c.line; n > room {
			c.out = append(c.out, p[:at+room]...)
			c.out = append(c.out, "\r\n "...)
			p, at, c.line = p[at+room:], 0, 1
			continue
		}
		at, c.line = at+n+end, c.line+n
		if end > 0 {
			c.line = 0
		}
	}
	c.out = append(c.out, p...)
}

// lineEnd returns where the first CRLF is, -1 if there is none.
func lineEnd(p []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(p[from:], '\n')
		if i < 0 {
			return -1
		}
		if i += from; i > 0 && p[i-1] == '\r' {
			return i - 1
		}
		from = i + 1
	}
}

// A quoted is the state of a quoted-printable encoding (RFC 2045 6.7).
type quoted struct {
	column int
	blank  byte // a space or tab that may be the last octet of its line
	out    []byte
}

// columnMax leaves room for the "=" of a soft line break.
const columnMax = 75

// encode returns the encoding of a fragment. It is valid until the next call.
func (q *quoted) encode(f fragment) []byte {
	q.out = q.out[:0]
	text := f.octets
	if f.end {
		text = text[:len(text)-len("\r\n")]
	}
	for _, b := range text {
		q.plainBlank()
		switch {
		case b == ' ' || b == '\t':
			q.blank = b
		case b > ' ' && b < 0x7f && b != '=':
			q.put(b)
		default:
			q.escape(b)
		}
	}
	if f.end {
		q.lastBlank()
		q.out = append(q.out, "\r\n"...)
		q.column = 0
	}
	return q.out
}

// end returns the rest of the encoded message.
func (q *quoted) end() []byte {
	q.out = q.out[:0]
	q.lastBlank()
	return q.out
}

func (q *quoted) plainBlank() {
	if q.blank != 0 {
		q.put(q.blank)
		q.blank = 0
	}
}

func (q *quoted) lastBlank() {
	if q.blank != 0 {
		q.escape(q.blank)
		q.blank = 0
	}
}

func (q *quoted) escape(b byte) {
	const digits = "0123456789ABCDEF"
	q.put('=', digits[b>>4], digits[b&15])
}

func (q *quoted) put(token ...byte) {
	if q.column+len(token) > columnMax {
		q.out = append(q.out, "=\r\n"...)
		q.column = 0
	}
	q.out = append(q.out, token...)
	q.column += len(token)
}
