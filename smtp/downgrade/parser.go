package downgrade

import (
	"bytes"
	"mime"
	"strings"
)

// A parser follows the structure of a message (RFC 2045, RFC 2046). The zero
// parser is at its beginning.
type parser struct {
	state  state
	part   int // the part that the parser is in, or was in last
	header header
	ended  int    // the part whose header ended last
	last   header // that header
	stack  []level
	deep   bool // multiparts were nested too deep to follow

	field     []byte // the relevant part of the field that is being read
	inField   bool
	name      fieldName
	completed int // parts whose header has begun
}

type state uint8

const (
	atHeader state = iota // in a header
	atBody                // in the body of a part that may be encoded
	atText                // around the parts of a multipart, or in a part that is already encoded
)

// A header holds the relevant properties of a part's header.
type header struct {
	message   bool // it is a message's, not that of a part of a multipart
	digest    bool // the part is a message unless its type says otherwise
	typed     bool // there is a Content-Type
	versioned bool // there is a MIME-Version
	kind      kind
	encoding  encoding
	boundary  string
	isDigest  bool
}

type kind uint8

const (
	leaf kind = iota
	multipart
	message // with a header of its own
	partial // a leaf that is never encoded, as it is put together with others as it is
)

type encoding uint8

const (
	sevenBit encoding = iota
	eightBit          // 8bit or binary
	encoded           // any other: the meaning of its octets is unknown
)

// A level is a multipart that the parser is in.
type level struct {
	boundary string
	digest   bool
}

type fieldName uint8

const (
	fieldOther fieldName = iota
	fieldType
	fieldEncoding
	fieldVersion
)

// events are the effects of a fragment.
type events uint8

const (
	headerEnds   events = 1 << iota // by the empty line, or by this line of the body
	headerBroken                    // by this line of the body
	boundaryLine                    // it is a boundary
	partBegins                      // the next fragment is in the header of another part
)

// fieldMax is the length of the part of a header field that is examined.
const fieldMax = 16 << 10

// start begins the header of the first part.
func (m *parser) start() {
	if m.completed == 0 {
		m.begin(header{message: true})
	}
}

func (m *parser) begin(h header) {
	m.state, m.header = atHeader, h
	m.part = m.completed
	m.completed++
	m.inField, m.name, m.field = false, fieldOther, m.field[:0]
}

// take advances the parser by a fragment.
func (m *parser) take(f fragment) events {
	m.start()
	if m.state != atHeader {
		return m.takeBody(f)
	}
	switch o := f.octets; {
	case !f.start:
		m.collect(o)
		return 0
	case f.end && len(o) == len("\r\n"):
		m.endHeader()
		if m.state == atHeader {
			return headerEnds | partBegins
		}
		return headerEnds
	case (o[0] == ' ' || o[0] == '\t') && m.inField:
		m.collect(o)
		return 0
	case isField(o):
		m.endField()
		m.inField, m.name = true, nameOf(o)
		m.collect(o)
		return 0
	}
	m.endHeader()
	if m.state == atHeader { // of an embedded message that is not expected here
		m.part, m.completed, m.state = m.ended, m.completed-1, atText
		m.last.encoding = encoded // never converted, whatever its label is
	}
	return headerEnds | headerBroken | m.takeBody(f)
}

func (m *parser) takeBody(f fragment) events {
	if !f.whole() || !bytes.HasPrefix(f.octets, []byte("--")) || len(m.stack) == 0 {
		return 0
	}
	line := f.octets[2:]
	for i := len(m.stack) - 1; i >= 0; i-- {
		l := m.stack[i]
		rest, ok := bytes.CutPrefix(line, []byte(l.boundary))
		if !ok {
			continue
		}
		rest = bytes.TrimRight(rest, " \t\r\n")
		switch string(rest) {
		case "":
			m.stack = m.stack[:i+1]
			m.begin(header{digest: l.digest})
			return boundaryLine | partBegins
		case "--":
			m.stack = m.stack[:i]
			m.state = atText
			return boundaryLine
		}
	}
	return 0
}

// collect stores the relevant part of a field.
func (m *parser) collect(o []byte) {
	if m.name != fieldOther {
		m.field = append(m.field, o[:min(len(o), fieldMax-len(m.field))]...)
	}
}

// endField parses a complete field.
func (m *parser) endField() {
	if !m.inField {
		return
	}
	_, value, _ := strings.Cut(string(m.field), ":")
	value = strings.TrimSpace(strings.ReplaceAll(value, "\r\n", ""))
	h := &m.header
	switch m.name {
	case fieldVersion:
		h.versioned = true
	case fieldEncoding:
		h.encoding = encodingNamed(value)
	case fieldType:
		h.typed = true
		h.setType(value)
	}
	m.inField, m.name, m.field = false, fieldOther, m.field[:0]
}

// endHeader enters the part that follows a header.
func (m *parser) endHeader() {
	m.endField()
	h := &m.header
	if h.digest && !h.typed {
		h.kind = message
	}
	m.ended, m.last = m.part, *h
	switch {
	case h.encoding == encoded:
		m.state = atText
	case h.kind == message:
		m.begin(header{message: true})
	case h.kind == multipart && h.boundary == "":
		m.state = atText
	case h.kind == multipart && len(m.stack) >= depthMax:
		m.state, m.deep = atText, true
	case h.kind == multipart:
		m.stack = append(m.stack, level{h.boundary, h.isDigest})
		m.state = atText
	default:
		m.state = atBody
	}
}

func encodingNamed(value string) encoding {
	if i := strings.IndexByte(value, '('); i >= 0 { // a comment
		value = value[:i]
	}
	switch lower(strings.Trim(value, " \t;")) {
	case "", "7bit":
		return sevenBit
	case "8bit", "binary":
		return eightBit
	}
	return encoded
}

func (h *header) setType(value string) {
	name, parameters, err := mime.ParseMediaType(value)
	boundary := parameters["boundary"]
	if err != nil || boundary == "" {
		name, _, _ = strings.Cut(value, ";")
		name, _, _ = strings.Cut(name, "(")
		name = lower(strings.TrimSpace(name))
		boundary = looseBoundary(value)
	}
	h.kind, h.boundary = leaf, ""
	switch major, minor, _ := strings.Cut(name, "/"); {
	case major == "multipart":
		h.kind, h.boundary, h.isDigest = multipart, strings.TrimRight(boundary, " \t"), minor == "digest"
	case major == "message" && (minor == "rfc822" || minor == "global"):
		h.kind = message
	case name == "message/partial":
		h.kind = partial
	}
}

// looseBoundary finds the boundary in a malformed Content-Type.
func looseBoundary(value string) string {
	i := strings.Index(lower(value), "boundary=")
	if i < 0 {
		return ""
	}
	value = value[i+len("boundary="):]
	if text, ok := strings.CutPrefix(value, `"`); ok {
		text, _, _ = strings.Cut(text, `"`)
		return text
	}
	if i := strings.IndexAny(value, "; \t"); i >= 0 {
		value = value[:i]
	}
	return value
}

// isField reports whether a line begins a header field (RFC 5322 2.2; blanks before
// the colon are the obsolete syntax).
func isField(o []byte) bool {
	i := bytes.IndexByte(o, ':')
	if i < 0 {
		return false
	}
	name := bytes.TrimRight(o[:i], " \t")
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(name) > 0
}

func nameOf(o []byte) fieldName {
	name, _, _ := bytes.Cut(o, []byte(":"))
	switch lower(strings.TrimRight(string(name), " \t")) {
	case "content-type":
		return fieldType
	case "content-transfer-encoding":
		return fieldEncoding
	case "mime-version":
		return fieldVersion
	}
	return fieldOther
}

// lower is strings.ToLower for ASCII: the text keeps its length in all cases.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
