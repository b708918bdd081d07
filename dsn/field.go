package dsn

import (
	"io"
	"mime"
	"strings"
	"unicode/utf8"
)

const (
	lineWanted = 78  // RFC 5322 2.1.1
	lineLimit  = 998 // RFC 5322 2.1.1; octets without the line end
	// wordLimit is the longest text without a fold that a field contains
	// unencoded; it leaves room for what precedes it on its line.
	wordLimit = 900
)

// An output collects written text and passes it on in large pieces. After the
// first error it drops everything.
type output struct {
	w   io.Writer
	buf []byte
	err error
}

const outputChunk = 32 << 10

// Write implements io.Writer for the encoders. It returns the error so that
// they stop early.
func (o *output) Write(p []byte) (int, error) {
	o.buf = append(o.buf, p...)
	o.pass(outputChunk)
	return len(p), o.err
}

func (o *output) text(parts ...string) {
	for _, p := range parts {
		o.buf = append(o.buf, p...)
	}
	o.pass(outputChunk)
}

// pass passes on the collected text if it is at least min octets long.
func (o *output) pass(min int) {
	if len(o.buf) < min || o.err != nil {
		return
	}
	_, o.err = o.w.Write(o.buf)
	o.buf = o.buf[:0]
}

// field writes one header field, folded at its spaces. Unfolding restores the
// value octet for octet, because a fold only adds a line end.
func (o *output) field(name, value string) {
	o.text(name, ": ")
	o.folded(len(name)+2, value)
	o.text("\r\n")
}

// folded writes text that begins at the given column.
func (o *output) folded(column int, text string) {
	for first := true; text != ""; first = false {
		n := tokenEnd(text)
		if !first && column+n > lineWanted {
			o.buf = append(o.buf, "\r\n"...)
			column = 0
		}
		o.buf = append(o.buf, text[:n]...)
		column += n
		text = text[n:]
	}
	o.pass(outputChunk)
}

// tokenEnd returns the length of the first piece of text that must not be
// folded: spaces, a word, and the words after it that must not start a line.
// Such a word looks like the start of a reply line: at the start of a folded line,
// a reader would take it for one (RFC 3461 9.2).
func tokenEnd(text string) int {
	n := wordEnd(text, 0)
	for n < len(text) {
		next := wordEnd(text, n)
		if _, _, ok := cutCode(strings.TrimLeft(text[n:next], " ")); !ok {
			break
		}
		n = next
	}
	return n
}

// wordEnd returns the end of the spaces and the word that start at i.
func wordEnd(text string, i int) int {
	for i < len(text) && text[i] == ' ' {
		i++
	}
	for i < len(text) && text[i] != ' ' {
		i++
	}
	return i
}

// plainText reports whether free text can be written in a field unencoded. The
// alternative is encoded words (RFC 2047 5), which any mail reader
// understands, and which can be folded anywhere.
func plainText(s string, utf8OK bool) bool {
	switch {
	case !utf8OK && !ascii(s):
		return false
	case strings.HasSuffix(s, " "): // lost if a reader trims lines
		return false
	case strings.Contains(s, "=?"): // would be decoded
		return false
	}
	for s != "" {
		n := tokenEnd(s)
		if n > wordLimit {
			return false
		}
		s = s[n:]
	}
	return true
}

// encodeWords writes text as encoded words of at most 75 octets, each holding
// whole characters (RFC 2047 2 and 5). mime.QEncoding would leave printable
// ASCII alone, which is half of what has to be encoded here.
func encodeWords(s string) string {
	const start, end, room = "=?utf-8?q?", "?=", 75 - len("=?utf-8?q?") - len("?=")
	var b strings.Builder
	b.WriteString(start)
	for used := 0; s != ""; {
		_, size := utf8.DecodeRuneInString(s)
		piece := encodeQ(s[:size])
		if used+len(piece) > room {
			b.WriteString(end + " " + start)
			used = 0
		}
		b.WriteString(piece)
		used += len(piece)
		s = s[size:]
	}
	b.WriteString(end)
	return b.String()
}

// encodeQ encodes the octets of one character.
func encodeQ(s string) string {
	const hex = "0123456789ABCDEF"
	c := s[0]
	switch {
	case c == ' ':
		return "_"
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
		return s
	}
	b := make([]byte, 0, 12)
	for i := 0; i < len(s); i++ {
		b = append(b, '=', hex[s[i]>>4], hex[s[i]&15])
	}
	return string(b)
}

// decodeWords is the inverse of encodeWords, and also decodes other programs'
// encoded words if their charset is known.
func decodeWords(s string) string {
	if !strings.Contains(s, "=?") {
		return s
	}
	var d mime.WordDecoder
	if t, err := d.DecodeHeader(s); err == nil {
		return t
	}
	return s
}
