package submit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/internal/spill"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Options say how a message is read.
type Options struct {
	// DotEnds ends the input at a line with a lone dot.
	DotEnds bool
	// FromHeader takes recipients from To, Cc and Bcc; if the message was
	// resent (RFC 5322 3.6.6), which any Resent field says, from Resent-To, Resent-Cc
	// and Resent-Bcc only.
	FromHeader bool
	// Grow is asked before anything goes into a temporary file, with the octets of the
	// message or of one of its lists of recipients as far as it is read. Its error is the
	// end of that. nil: all is read.
	Grow func(octets int64) error
	// Recipients are further recipients, good addresses.
	Recipients []mail.Address

	// Author is the address for From if the message has none; FullName goes
	// with it and may be "".
	Author   mail.Address
	FullName string
	// Now is for Date if the message has none.
	Now time.Time
	// Domain completes addresses that have none, and Message-ID.
	Domain string
	// Unique is the part of Message-ID before the "@" if the message has none.
	Unique string
}

// A Message is ready to be sent. Close must be called when it is not needed any
// more.
type Message struct {
	content    spill.Buffer
	recipients *roster
	eightBit   bool // some octet of it is above 127
	utf8Header bool // its header is UTF-8 beyond ASCII
	cut        bool // content is only its beginning
}

// Size is the number of octets, with CRLF line ends.
func (m *Message) Size() int64 { return m.content.Size() }

// Content returns the content from its beginning, with lines that end in CRLF. whole reports whether
// it is all of it.
func (m *Message) Content() (r io.Reader, whole bool, err error) {
	r, err = m.content.Reader(0)
	return r, !m.cut, err
}

// Recipients is the number of recipients.
func (m *Message) Recipients() int { return m.recipients.count }

// Close gives back what the message takes.
func (m *Message) Close() {
	m.content.Close()
	m.recipients.lines.Close()
}

// An InputError means that the message could not be read.
type InputError struct{ Err error }

func (e *InputError) Error() string { return "read the message: " + e.Err.Error() }

// Unwrap returns why.
func (e *InputError) Unwrap() error { return e.Err }

// A HeaderError is the error of a header that can be read in more than one way. It is
// not guessed which is meant: one reading may show blind copies to all recipients.
type HeaderError struct {
	Line int // from 1
	Why  string
}

func (e *HeaderError) Error() string { return fmt.Sprintf("line %d of the message: %s", e.Line, e.Why) }

// spillMax is the number of octets that are kept in memory: nearly all messages, and
// about 40,000 recipients.
const spillMax = 1 << 20

// Compose reads a message to its end. The error is an *InputError if reading
// fails, an *header.AddressError if the header has a bad address, a *HeaderError if the
// header is ambiguous, and else one of the system's.
func Compose(r io.Reader, o Options) (*Message, error) {
	c := composer{o: o, in: bufio.NewReaderSize(r, 64<<10)}
	for _, s := range []*spill.Buffer{&c.content, &c.plain.lines, &c.fromTo.lines, &c.resent.lines} {
		s.Max, s.Grow = spillMax, o.Grow
	}
	for _, a := range o.Recipients {
		if err := c.plain.add(a); err != nil {
			return nil, err
		}
	}
	err := c.run()
	c.fromTo.lines.Close()
	c.resent.lines.Close()
	if err != nil {
		c.content.Close()
		c.plain.lines.Close()
		return nil, err
	}
	return &Message{content: c.content, recipients: &c.plain, eightBit: c.eightBit, utf8Header: c.utf8 && !c.notUTF8}, nil
}

// A composer reads one message.
type composer struct {
	o       Options
	in      *bufio.Reader
	content spill.Buffer
	newline smtp.Normalizer
	buf     []byte

	plain    roster // recipients of the message
	fromTo   roster // those in To, Cc and Bcc
	resent   roster // those in Resent-To, Resent-Cc and Resent-Bcc
	isResent bool

	ended    bool        // the input has been read to its end
	midLine  bool        // the last piece did not end its line
	line     int         // of the input, from 1
	loose    bool        // the header ended without an empty line, and none has come yet
	cr       bool        // in the header: the last octet of the last piece was a CR
	field    header.Kind // the field that is being read
	list     *header.List
	has      [header.Kinds]bool
	eightBit bool
	utf8     bool // some line of the header is UTF-8 beyond ASCII
	notUTF8  bool // some line of the header is neither ASCII nor UTF-8
}

func (c *composer) run() error {
	c.field = header.KindNone
	rest, err := c.header()
	if err == nil {
		err = c.endHeader()
	}
	if err != nil {
		return err
	}
	return c.body(rest)
}

// A piece is a line or, if it is longer than the buffer, a part of one.
type piece struct {
	octets []byte
	first  bool // of its line
	whole  bool // the line ends with it
}

// next reads a piece; ok is false at the end of the input, and from then on.
func (c *composer) next() (p piece, ok bool, err error) {
	if c.ended {
		return p, false, nil
	}
	octets, err := c.in.ReadSlice('\n')
	if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
		return p, false, &InputError{err}
	}
	if len(octets) == 0 || c.o.DotEnds && !c.midLine && isLine(octets, ".") {
		c.ended = true
		return p, false, nil
	}
	p = piece{octets: octets, first: !c.midLine, whole: octets[len(octets)-1] == '\n'}
	c.midLine = !p.whole
	if p.first {
		c.line++
	}
	return p, true, nil
}

// isLine reports whether octets are a line of just this text, ended in any way.
func isLine(octets []byte, text string) bool {
	octets = bytes.TrimSuffix(octets, []byte("\n"))
	return string(bytes.TrimSuffix(octets, []byte("\r"))) == text
}

// header reads to the end of the header. If that is not an empty line, the
// first piece of the body is returned.
func (c *composer) header() (rest piece, err error) {
	for {
		p, ok, err := c.next()
		if err != nil {
			return piece{}, err
		}
		if !ok {
			return piece{}, c.checkCR(nil)
		}
		if p.first && isLine(p.octets, "") {
			return piece{}, nil
		}
		if p.first && !c.beginLine(p.octets) {
			c.loose = true
			return p, c.checkLoose(p)
		}
		if err := c.checkLine(p.octets); err != nil {
			return piece{}, err
		}
		if err := c.fieldPiece(p); err != nil {
			return piece{}, err
		}
	}
}

// beginLine looks at the first piece of a line and reports whether it belongs to
// the header: mail from simple programs may have no empty line behind it, or
// no header at all.
func (c *composer) beginLine(line []byte) bool {
	if isContinuation(line) {
		return c.field != header.KindNone
	}
	if c.field == header.KindNone && (bytes.HasPrefix(line, []byte("From ")) || bytes.HasPrefix(line, []byte(">From "))) {
		c.field = header.KindMailbox
		return true
	}
	name, _, found := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t") // obsolete, but seen (RFC 5322 4.5)
	if !found || !header.IsName(name) {
		return false
	}
	c.field = header.KindOf(name)
	c.has[c.field] = true
	return true
}

// checkLine returns an error if other programs could see other lines in a piece of the
// header: a CR on its own ends a line for some, and a NUL for others.
func (c *composer) checkLine(octets []byte) error {
	if bytes.IndexByte(octets, 0) >= 0 {
		return &HeaderError{c.line, "there is a NUL in the header"}
	}
	return c.checkCR(octets)
}

// checkCR returns an error if a CR is followed by anything but a LF. Without octets
// the input has ended.
func (c *composer) checkCR(octets []byte) error {
	if c.cr && (len(octets) == 0 || octets[0] != '\n') {
		return &HeaderError{c.line, "there is a CR on its own in the header; lines end in LF or CR LF"}
	}
	c.cr = false
	for i, octet := range octets {
		switch {
		case octet != '\r':
		case i+1 == len(octets):
			c.cr = true
		case octets[i+1] != '\n':
			return &HeaderError{c.line, "there is a CR on its own in the header; lines end in LF or CR LF"}
		}
	}
	return nil
}

// checkLoose looks at the lines between a header that ends without an empty line and the
// first empty line. That is how simple programs write, but it can also be one bad
// line within a header. Fields for recipients there show that it is.
func (c *composer) checkLoose(p piece) error {
	if !c.loose {
		return nil
	}
	if p.first && isLine(p.octets, "") {
		c.loose = false
		return nil
	}
	if c.field != header.KindNone {
		if err := c.checkLine(p.octets); err != nil {
			return err
		}
	}
	if !p.first {
		return nil
	}
	name, _, found := bytes.Cut(p.octets, []byte(":"))
	name = bytes.Trim(name, " \t\r\x00")
	if !found {
		return nil
	}
	switch kind := header.KindOf(name); kind {
	case header.KindBcc, header.KindResentBcc:
	case header.KindTo, header.KindResentTo:
		if !c.o.FromHeader || c.field == header.KindNone {
			return nil
		}
	default:
		return nil
	}
	return &HeaderError{c.line, fmt.Sprintf("%s comes behind a line that is no header field, and would be sent as text", name)}
}

func isContinuation(line []byte) bool { return line[0] == ' ' || line[0] == '\t' }

// fieldPiece takes a piece of a field.
func (c *composer) fieldPiece(p piece) error {
	value := p.octets
	if p.first && !isContinuation(value) {
		if err := c.endList(); err != nil {
			return err
		}
		_, value, _ = bytes.Cut(value, []byte(":"))
		c.beginList()
	}
	if c.list != nil {
		if err := c.list.Feed(value); err != nil {
			return err
		}
	}
	if c.field.LeftOut() {
		return nil
	}
	if !isASCII(p.octets) {
		c.eightBit = true
		good := p.first && p.whole && utf8.Valid(p.octets)
		c.utf8, c.notUTF8 = c.utf8 || good, c.notUTF8 || !good
	}
	return c.write(p.octets)
}

// beginList makes a scanner for the addresses of the field that begins, if they
// are wanted.
func (c *composer) beginList() {
	if !c.o.FromHeader {
		return
	}
	var to *roster
	switch c.field {
	case header.KindTo, header.KindBcc:
		to = &c.fromTo
	case header.KindResentTo, header.KindResentBcc:
		to = &c.resent
		c.isResent = true
	case header.KindResent, header.KindResentFrom: // it is not for those again to whom it went first
		c.isResent = true
		return
	default:
		return
	}
	c.list = &header.List{Emit: func(m header.Mailbox) error {
		path, err := header.ParsePath(m.Address, c.o.Domain)
		if err != nil {
			return err
		}
		return to.add(path)
	}}
}

func (c *composer) endList() error {
	if c.list == nil {
		return nil
	}
	list := c.list
	c.list = nil
	return list.End()
}

// endHeader adds what is missing and the empty line.
func (c *composer) endHeader() error {
	if err := c.endList(); err != nil {
		return err
	}
	from := &c.fromTo
	if c.isResent {
		from = &c.resent
	}
	if err := c.plain.addAll(from); err != nil {
		return err
	}
	b := c.endLine()
	if !c.has[header.KindFrom] {
		b = append(b, "From: "+author(c.o.FullName, c.o.Author)+"\r\n"...)
		c.utf8 = c.utf8 || !isASCII([]byte(c.o.Author))
	}
	if !c.has[header.KindDate] {
		b = append(b, "Date: "+c.o.Now.Format(header.DateLayout)+"\r\n"...)
	}
	if !c.has[header.KindMessageID] {
		b = append(b, "Message-ID: <"+c.o.Unique+"@"+c.o.Domain+">\r\n"...)
	}
	return c.write(append(b, '\r', '\n'))
}

// endLine returns the end of the last line if the input ended within it.
func (c *composer) endLine() []byte {
	if c.ended && c.midLine {
		c.midLine = false
		return []byte("\r\n")
	}
	return nil
}

// body copies the rest of the input, behind the piece that was read already.
func (c *composer) body(p piece) (err error) {
	for ok := p.octets != nil; ; {
		if ok {
			if err := c.checkLoose(p); err != nil {
				return err
			}
			c.eightBit = c.eightBit || !isASCII(p.octets)
			if err := c.write(p.octets); err != nil {
				return err
			}
		} else if c.ended {
			break
		}
		if p, ok, err = c.next(); err != nil {
			return err
		}
	}
	if err := c.write(c.endLine()); err != nil {
		return err
	}
	_, err = c.content.Write(c.newline.End(nil))
	return err
}

// write appends to the content with CRLF line ends.
func (c *composer) write(octets []byte) error {
	c.buf = c.newline.Append(c.buf[:0], octets)
	_, err := c.content.Write(c.buf)
	return err
}

// author writes a mailbox for From.
func author(name string, address mail.Address) string {
	if name == "" {
		return string(address)
	}
	return fmt.Sprintf("%s <%s>", phrase(name), address)
}

// phrase writes a display name as RFC 5322 and RFC 2047 want it.
func phrase(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, name)
	if !isASCII([]byte(name)) {
		return mime.QEncoding.Encode("utf-8", name)
	}
	plain := strings.IndexFunc(name, func(r rune) bool {
		return r != ' ' && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z') && !('0' <= r && r <= '9') && !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
	}) < 0
	if plain {
		return name
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

func isASCII(p []byte) bool {
	for _, c := range p {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
