package milter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/spill"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Message is the content of a message while milters look at it: lines that end in CRLF. Write it,
// then have it looked at by Session.Message, then read it by WriteTo. It belongs to one session.
type Message struct {
	host   *Host
	trace  []byte // our own Received field, which milters do not see
	whole  spill.Buffer
	fields []field
	gap    []byte        // what is between the header and the body: an empty line, or nothing
	from   int64         // where the body begins in whole
	body   *spill.Buffer // what has replaced the body; nil: nothing
	high   bool          // some octet that a milter has given is above 127
	max    int64         // of a body that replaces another, in octets
}

// A field is one of the header.
type field struct {
	name string
	text []byte // all of it, with its line ends
	own  bool   // it is the trace
}

// value returns the field without its name, the colon, and the last line end.
func (f *field) value() []byte {
	_, value, _ := bytes.Cut(f.text, []byte(":"))
	return bytes.TrimRight(value, "\r\n")
}

// headerMax limits the memory for headers, whatever limit the session has.
const headerMax = 4 << 20

// NewMessage returns an empty message. A milter may make its body at most so many octets longer than
// it was; Close gives its memory and files back.
func NewMessage(h *Host, longer int64) *Message {
	return &Message{host: h, max: longer, whole: spill.Buffer{Max: KeptMax, Dir: h.Scratch, Grow: h.Room}}
}

// Trace sets our own Received field, which comes first.
func (m *Message) Trace(text []byte) { m.trace = bytes.Clone(text) }

// Write appends content, without the trace.
func (m *Message) Write(p []byte) (int, error) { return m.whole.Write(p) }

// Close gives memory and files back.
func (m *Message) Close() {
	m.whole.Close()
	if m.body != nil {
		m.body.Close()
	}
}

// EightBit reports whether a milter has added octets above 127.
func (m *Message) EightBit() bool { return m.high }

// split finds the fields of the header and the beginning of the body, once.
func (m *Message) split() error {
	if m.fields != nil {
		return nil
	}
	r, err := m.whole.Reader(0)
	if err != nil {
		return err
	}
	m.fields = append(m.fields, field{name: "Received", text: m.trace, own: true})
	in := bufio.NewReaderSize(r, 4<<10)
	for size := 0; ; {
		line, err := readLine(in, headerMax-size)
		if err != nil && err != io.EOF {
			return err
		}
		size += len(line)
		switch last := len(m.fields) - 1; {
		case len(line) == 0:
			return nil
		case line[0] == ' ' || line[0] == '\t':
			if last == 0 {
				return nil // it is the body's
			}
			m.fields[last].text = append(m.fields[last].text, line...)
		case string(line) == "\r\n" || string(line) == "\n":
			m.gap = line
			m.from += int64(len(line))
			return nil
		default:
			name, ok := fieldName(line)
			if !ok {
				return nil
			}
			m.fields = append(m.fields, field{name: name, text: line})
		}
		m.from += int64(len(line))
	}
}

// readLine returns the next line with its end, of at most max octets.
func readLine(in *bufio.Reader, max int) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > max {
			return nil, fmt.Errorf("the header has more than %d bytes", headerMax)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// fieldName returns the name of the field that begins with a line.
func fieldName(line []byte) (string, bool) {
	name, _, found := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t") // obsolete, but seen (RFC 5322 4.5)
	return string(name), found && validName(string(name))
}

func validName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) < 0
}

// reader returns the body from its beginning.
func (m *Message) reader() (io.Reader, error) {
	if m.body != nil {
		return m.body.Reader(0)
	}
	return m.whole.Reader(m.from)
}

// WriteTo writes the message as the milters have made it, with the trace.
func (m *Message) WriteTo(w io.Writer) (n int64, err error) {
	write := func(p []byte) {
		if err == nil {
			var k int
			k, err = w.Write(p)
			n += int64(k)
		}
	}
	if m.fields == nil { // no milter has looked at it
		write(m.trace)
	}
	for i := range m.fields {
		write(m.fields[i].text)
		if text := m.fields[i].text; !m.fields[i].own && len(text) > 0 && text[len(text)-1] != '\n' && i < len(m.fields)-1 {
			write([]byte("\r\n"))
		}
	}
	if len(m.gap) == 0 && m.body != nil {
		m.gap = []byte("\r\n")
	}
	write(m.gap)
	if err != nil {
		return n, err
	}
	body, err := m.reader()
	if err != nil {
		return n, err
	}
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	k, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{body}, buf[:])
	return n + k, err
}

// add appends a field.
func (m *Message) add(f field) { m.insert(len(m.fields), f) }

// insert puts a field at a position, of which our own Received field has 0; a position beyond the
// end is the end.
func (m *Message) insert(at int, f field) {
	at = max(0, min(at, len(m.fields)))
	m.high = m.high || smtp.EightBit(f.text)
	m.fields = append(m.fields, field{})
	copy(m.fields[at+1:], m.fields[at:])
	m.fields[at] = f
}

// find returns where the nth field of a name is, from 1 on, and -1 if there is none. Our own
// Received field does not count.
func (m *Message) find(name string, nth int) int {
	for i := range m.fields {
		if f := &m.fields[i]; !f.own && strings.EqualFold(f.name, name) {
			if nth--; nth <= 0 {
				return i
			}
		}
	}
	return -1
}

// change replaces the nth field of a name, or removes it if the new one is empty. One that does
// not exist is added.
func (m *Message) change(nth int, f field) {
	at := m.find(f.name, max(nth, 1))
	switch {
	case at < 0 && len(f.text) > 0:
		m.add(f)
	case at < 0:
	case len(f.text) == 0:
		m.fields = append(m.fields[:at], m.fields[at+1:]...)
	default:
		m.high = m.high || smtp.EightBit(f.text)
		m.fields[at] = f
	}
}

// newField makes a field of what a milter gives. Lines after the first begin with white space, and
// none is empty: a milter must not end the header, whoever has made it write that.
func newField(name, value string, space bool) (field, error) {
	if !validName(name) {
		return field{}, broken("%q is not the name of a header field", name)
	}
	if value == "" {
		return field{name: name}, nil
	}
	text := []byte(name + ":")
	if space {
		text = append(text, ' ')
	}
	first := true
	for line := range strings.SplitSeq(value, "\n") {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r"), "\r", " ")
		switch {
		case !first && strings.TrimSpace(line) == "":
			continue
		case !first:
			text = append(text, "\r\n"...)
			if line[0] != ' ' && line[0] != '\t' {
				text = append(text, '\t')
			}
		}
		first = false
		text = append(text, line...)
	}
	return field{name: name, text: append(text, "\r\n"...)}, nil
}
