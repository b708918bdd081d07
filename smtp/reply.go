package smtp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/mail"
)

// Limits on one reply. RFC 5321 4.5.3.1.5 asks a client to expect lines of up
// to 512 octets; real servers write longer ones, hostile ones do not stop.
const (
	// ReplyLineMax is the length of a line up to which it is kept, in octets
	// without the line end. The rest is read and dropped, but counts toward
	// ReplyMax. The limit is larger than what a mail.Reply keeps, even after a
	// status was removed, so that the truncation shows there.
	ReplyLineMax = mail.ReplyTextMax + len("5.999.999 ") + 1
	// ReplyLinesMax is the maximum number of lines of a reply.
	ReplyLinesMax = 200
	// ReplyMax is the maximum length of a reply, in octets with line ends.
	ReplyMax = 64 << 10
)

// ErrReplySyntax means that the server's output is not a reply.
var ErrReplySyntax = errors.New("malformed reply")

// ErrReplyTooLong means that a reply has too many lines or octets.
var ErrReplyTooLong = errors.New("reply too long")

// replyState is the position of a ReplyParser within a line.
type replyState uint8

const (
	replyCode      replyState = iota // in the three digits
	replySeparator                   // just after them
	replyText                        // in the text
	replyReturn                      // after a CR that directly follows the digits
	replyDone                        // a whole reply was read
)

// A ReplyParser assembles replies (RFC 5321 4.2) from octets that arrive in
// portions of any size; the result does not depend on where they were split.
// The zero value is ready to use. A parser belongs to one session and keeps at
// most ReplyMax octets.
//
// A reply is one or more lines of three digits followed by "-" (more lines
// follow), a space, or nothing at all. The first digit must be 2 to 5; the
// others may be any digit, since a client interprets unknown codes by their
// first digit (RFC 5321 4.2.1). All lines should have the same code. If they do
// not, the code of the last line counts, as in Postfix: the server has answered,
// and rejecting its answer would resend mail that it has accepted. A line that
// ends in a bare LF is accepted like one that ends in CRLF.
type ReplyParser struct {
	// Hide, unless it is nil, is applied to the text of each reply that Reply returns, before anything is
	// escaped or truncated: it replaces what must not be shown.
	Hide func(text string) string

	state  replyState
	column uint8  // digits of the current line read so far
	more   bool   // the current line has a "-"
	code   uint16 // of the latest line
	digits uint16 // value of these digits
	lines  int    // lines begun
	size   int    // octets consumed
	line   int    // offset in text of the current line
	from   int    // offset in text of the lines with the latest code
	text   []byte // lines without codes, joined by LF
}

// Feed consumes octets from the front of data, at most up to the end of one
// reply, and returns how many it consumed. If done, Code, Text and Reply return
// the reply until Feed is called again. The parser must not be used after an
// error.
func (p *ReplyParser) Feed(data []byte) (n int, done bool, err error) {
	if p.state == replyDone {
		p.reset()
	}
	for n < len(data) {
		var took int
		if p.state == replyText {
			took, done = p.takeText(data[n:])
		} else {
			took = 1
			done, err = p.takeOctet(data[n])
		}
		n += took
		p.size += took
		switch {
		case err != nil:
			return n, false, err
		case p.size > ReplyMax, p.lines > ReplyLinesMax:
			return n, false, ErrReplyTooLong
		case done:
			p.state = replyDone
			return n, true, nil
		}
	}
	return n, false, nil
}

// Partial reports whether part of a reply was read, but not its end.
func (p *ReplyParser) Partial() bool { return p.state != replyDone && p.size > 0 }

// Code returns the code of a complete reply, 200 to 599.
func (p *ReplyParser) Code() uint16 { return p.code }

// Text returns the lines of a complete reply as they were sent, without codes
// and joined by "\n". It may hold any octet but LF inside a line.
func (p *ReplyParser) Text() string { return string(p.text) }

// HasPrefix reports whether the text of a complete reply begins with prefix.
func (p *ReplyParser) HasPrefix(prefix string) bool {
	return len(p.text) >= len(prefix) && string(p.text[:len(prefix)]) == prefix
}

// Reply returns a complete reply in the form that the rest of the program uses:
// control characters and octets that are not UTF-8 are written as escapes, a text that is
// too long is truncated, and the enhanced status code (RFC 2034) is
// removed from the front of every line that repeats it. The status is that of
// the first line with the code that counts. A status whose class contradicts the
// code is meaningless and is left in the text. by names the host that sent the
// reply.
func (p *ReplyParser) Reply(by string) mail.Reply {
	text := string(p.text)
	r := mail.Reply{Code: p.code, By: by}
	if status, rest, ok := mail.ParseStatus(firstLine(text[p.from:])); ok && status.Class == p.code/100 {
		r.Status = status
		if p.lines == 1 {
			text = rest
		} else {
			text = trimStatus(text, status)
		}
	}
	if p.Hide != nil {
		text = p.Hide(text)
	}
	if !plainText(text) {
		text = mail.CleanText(escaped(text))
	}
	r.Text = text
	return r
}

func (p *ReplyParser) reset() {
	text := p.text[:0]
	if cap(text) > ReplyLineMax {
		text = nil // an EHLO reply or a flood, which an idle session need not keep
	}
	*p = ReplyParser{Hide: p.Hide, text: text}
}

// takeOctet handles an octet outside the text of a line.
func (p *ReplyParser) takeOctet(c byte) (done bool, err error) {
	switch p.state {
	case replyCode:
		return false, p.takeDigit(c)
	case replyReturn:
		if c != '\n' {
			return false, ErrReplySyntax
		}
		return p.endLine(), nil
	}
	switch c { // replySeparator
	case '-', ' ':
		p.more = c == '-'
		p.state = replyText
	case '\r':
		p.state = replyReturn
	case '\n':
		return p.endLine(), nil
	default:
		return false, ErrReplySyntax
	}
	return false, nil
}

func (p *ReplyParser) takeDigit(c byte) error {
	if c < '0' || c > '9' || p.column == 0 && (c < '2' || c > '5') {
		return ErrReplySyntax
	}
	p.digits = p.digits*10 + uint16(c-'0')
	if p.column++; p.column < 3 {
		return nil
	}
	p.lines++
	if p.lines > 1 {
		p.text = append(p.text, '\n')
	}
	p.line = len(p.text)
	if p.digits != p.code {
		p.code, p.from = p.digits, p.line
	}
	p.state = replySeparator
	return nil
}

// takeText handles octets of a line's text up to the end of the line.
func (p *ReplyParser) takeText(data []byte) (n int, done bool) {
	n = len(data)
	end := bytes.IndexByte(data[:min(n, ReplyMax+1)], '\n')
	if end >= 0 {
		n = end + 1
		data = data[:end]
	}
	room := ReplyLineMax + 1 - (len(p.text) - p.line) // one more for the CR
	p.text = append(p.text, data[:min(len(data), max(room, 0))]...)
	if end < 0 {
		return n, false
	}
	if k := len(p.text); k > p.line && p.text[k-1] == '\r' {
		p.text = p.text[:k-1]
	}
	p.text = p.text[:min(len(p.text), p.line+ReplyLineMax)]
	return n, p.endLine()
}

// endLine ends a line and reports whether it was the last of the reply.
func (p *ReplyParser) endLine() bool {
	last := !p.more
	p.state, p.column, p.digits, p.more = replyCode, 0, 0, false
	return last
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// trimStatus removes a status code from the front of every line that has it.
func trimStatus(text string, status mail.Status) string {
	var b strings.Builder
	b.Grow(len(text))
	word := status.String()
	for line := range strings.SplitSeq(text, "\n") {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if rest, ok := strings.CutPrefix(line, word); ok && (rest == "" || rest[0] == ' ') {
			line = strings.TrimPrefix(rest, " ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// escaped writes what may not be in a mail.Reply, control characters and octets that are not
// UTF-8, so that it can still be read which ones there were: a server that speaks Latin-1
// says something all the same. A backslash of the server's stays as it is.
func escaped(text string) string {
	var b strings.Builder
	b.Grow(min(len(text), mail.ReplyTextMax) + 64)
	for i := 0; i < len(text) && b.Len() <= mail.ReplyTextMax; {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n':
			b.WriteByte('\n')
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == utf8.RuneError && size == 1, r < 0x20, r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r >= 0x80 && r < 0xa0, r == 0x2028, r == 0x2029, r == utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// plainText reports whether cleaning would change nothing. Nearly every reply is
// plain, and cleaning copies it.
func plainText(text string) bool {
	if len(text) > mail.ReplyTextMax {
		return false
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; (c < 0x20 && c != '\n') || c > 0x7e {
			return false
		}
	}
	return true
}
