package header

import (
	"bytes"
	"errors"
)

// FieldMax is the size of the largest field that is edited, in octets with its name and
// line ends. Of a larger one only its first octets are matched by rules that remove fields;
// it is not replaced, and its addresses stay as they are.
const FieldMax = 64 << 10

// A Problem is a reason to refuse a message.
type Problem uint8

const (
	ProblemNone      Problem = iota
	ProblemNoFrom            // no From field, and no sender from whom to make one
	ProblemTwoFroms          // several From fields (RFC 5322 3.6)
	ProblemFrom              // From is no list of addresses
	ProblemHiddenBcc         // Bcc comes after a line that is no header field, and would be sent as text
)

// String returns the problem in words for a reply.
func (p Problem) String() string {
	return [...]string{"none", "From field is missing", "more than one From field", "From field is not a list of addresses",
		"Bcc field after a line that is not a header field"}[p]
}

// Facts are the values of fields that may be missing.
type Facts struct {
	Date      string // of now, as in DateLayout
	MessageID string // without the angle brackets
	Sender    string // of the envelope; "" for the null sender
}

// An Editor applies edits to one message at a time. The result does not depend on how the
// content is split into pieces. Call Begin, then Next for each piece, then End. An Editor
// belongs to one goroutine.
type Editor struct {
	edits   *Edits
	facts   Facts
	at      place
	line    []byte // the beginning of a line of which it is not known yet what it is
	name    []byte // of the field
	kind    Kind   // of the field; KindNone before the first
	field   []byte // the field so far, with fate kept
	fate    fate
	seen    [Kinds]int // fields of each kind
	present []bool     // by edits.adds: there is such a field
	out     []byte     // what Next returns
	open    bool       // the last octet of the content was not a line end
	problem Problem
}

// A place is what the next octet belongs to.
type place uint8

const (
	inBody  place = iota
	atStart       // a line of which it is not known yet what it is
	inField       // the current field
	inLoose       // text after a header that has ended without an empty line, with none until now
)

// A fate is the treatment of the field that passes.
type fate uint8

const (
	passed  fate = iota // goes on as it comes
	dropped             // is left out
	kept                // is kept, to be edited when it is complete
)

// nameMax is the length of a name beyond which a line belongs to no field; no line of a
// message should be longer (RFC 5322 2.1.1).
const nameMax = 998

// Begin starts with a new message.
func (e *Editor) Begin(edits *Edits, facts Facts) {
	*e = Editor{edits: edits, facts: facts, at: atStart, kind: KindNone, line: e.line[:0], name: e.name[:0], field: e.field[:0], out: e.out[:0], present: e.present[:0]}
	for range edits.adds {
		e.present = append(e.present, false)
	}
	const common = 4 << 10 // what an editor keeps that waits for its next message
	if cap(e.field) > common {
		e.field = nil
	}
	if cap(e.out) > common {
		e.out = nil
	}
}

// Next edits a piece of the content and returns the bytes to write in its place. They are valid
// until the next call.
func (e *Editor) Next(piece []byte) []byte {
	if e.at == inBody || len(piece) == 0 {
		return piece
	}
	e.out = e.out[:0]
	for len(piece) > 0 && e.at != inBody {
		n := bytes.IndexByte(piece, '\n') + 1
		ended := n > 0
		if !ended {
			n = len(piece)
		}
		e.part(piece[:n], ended)
		e.open = !ended
		piece = piece[n:]
	}
	e.out = append(e.out, piece...)
	return e.out
}

// End returns the bytes to write at the end of the content.
func (e *Editor) End() []byte {
	e.out = e.out[:0]
	switch {
	case e.at == inLoose:
		e.checkLoose()
	case e.at == inBody:
	case e.at == atStart && len(e.line) > 0:
		e.start(true)
	default:
		if e.open {
			e.put([]byte("\r\n"))
		}
		e.finish()
		e.complete()
		e.separate()
	}
	e.at = inBody
	return e.out
}

// Problem returns the reason why the message must be refused, as far as its content has
// passed.
func (e *Editor) Problem() Problem { return e.problem }

// part takes a part of one line: ended says that it is the last one.
func (e *Editor) part(p []byte, ended bool) {
	switch e.at {
	case inField:
		e.put(p)
	case inLoose:
		e.line = append(e.line, p[:min(len(p), looseMax-len(e.line))]...)
		e.out = append(e.out, p...)
		if !ended {
			return
		}
		if isEmpty(e.line) {
			e.at = inBody
			return
		}
		e.checkLoose()
		return
	default:
		e.line = append(e.line, p...)
		e.start(ended)
	}
	if ended && e.at == inField {
		e.at = atStart
	}
}

// start looks at the beginning of a line, and finds out what it belongs to.
func (e *Editor) start(ended bool) {
	line := e.line
	switch {
	case line[0] == ' ' || line[0] == '\t':
		if e.kind == KindNone {
			e.loose()
			return
		}
		e.resume()
		return
	case line[0] == '\r' && len(line) == 1 && !ended:
		return
	case isEmpty(line):
		e.finish()
		e.complete()
		e.out = append(e.out, line...)
		e.line, e.at = e.line[:0], inBody
		return
	}
	name, kind, known := beginning(line, e.kind == KindNone)
	switch {
	case !known && !ended && len(line) <= nameMax:
	case !known || kind == KindNone:
		e.loose()
	default:
		e.begin(name, kind)
		e.resume()
	}
}

// isEmpty reports whether a line is empty; a CR at the end of content is, too.
func isEmpty(line []byte) bool {
	return string(line) == "\r\n" || string(line) == "\n" || string(line) == "\r"
}

// resume gives the beginning of a line to the field.
func (e *Editor) resume() {
	e.at = inField
	e.put(e.line)
	e.line = e.line[:0]
}

// begin ends the field before a new one, and decides what becomes of the new one.
func (e *Editor) begin(name []byte, kind Kind) {
	e.finish()
	e.name, e.kind, e.fate = append(e.name[:0], name...), kind, passed
	e.seen[kind]++
	for i, r := range e.edits.adds {
		e.present[i] = e.present[i] || r.names(name)
	}
	switch {
	case kind.LeftOut() && e.edits.cfg.Submission:
		e.fate = dropped
	case e.edits.wants(name, kind):
		e.fate = kept
	}
}

// put takes octets of the current field.
func (e *Editor) put(p []byte) {
	switch e.fate {
	case passed:
		e.out = append(e.out, p...)
	case kept:
		e.field = append(e.field, p...)
		if len(e.field) > FieldMax {
			e.overflow()
		}
	}
}

// overflow lets go of a field that is too large to be edited.
func (e *Editor) overflow() {
	e.fate = passed
	if e.kind == KindFrom && e.edits.cfg.Submission {
		e.fail(ProblemFrom)
	}
	if _, stays := e.edits.apply(e.name, e.value()); !stays {
		e.fate = dropped
	} else {
		e.out = append(e.out, e.field...)
	}
	e.field = e.field[:0]
}

// value returns the value of the field that is kept: unfolded, without white space around
// it.
func (e *Editor) value() []byte {
	_, value, _ := bytes.Cut(e.field, []byte(":"))
	return bytes.TrimSpace(unfold(value))
}

// finish edits the field that is complete.
func (e *Editor) finish() {
	if e.fate != kept || len(e.field) == 0 {
		return
	}
	field := e.field
	before := e.value()
	after, stays := e.edits.apply(e.name, before)
	if stays && !bytes.Equal(before, after) {
		field = fold(e.name, after)
	}
	if stays && e.edits.addresses(e.kind) {
		field = e.edits.rewrite(e.kind, field)
	}
	switch {
	case !stays:
		e.seen[e.kind]--
	case e.kind == KindFrom && e.edits.cfg.Submission:
		e.checkFrom(field)
	}
	if stays {
		e.out = append(e.out, field...)
	}
	e.fate, e.field = passed, e.field[:0]
	if !stays {
		e.fate = dropped
	}
}

// checkFrom refuses a From field without an address.
func (e *Editor) checkFrom(field []byte) {
	if e.seen[KindFrom] > 1 {
		e.fail(ProblemTwoFroms)
	}
	count := 0
	list := List{Emit: func(m Mailbox) error {
		count++
		_, err := ParsePath(m.Address, "localhost")
		return err
	}}
	_, value, _ := bytes.Cut(field, []byte(":"))
	if err := errors.Join(list.Feed(value), list.End()); err != nil || count == 0 {
		e.fail(ProblemFrom)
	}
}

// fail records the first problem.
func (e *Editor) fail(p Problem) {
	if e.problem == ProblemNone {
		e.problem = p
	}
}

// complete adds the fields that the header lacks.
func (e *Editor) complete() {
	if e.edits.cfg.Submission {
		if e.seen[KindFrom] == 0 && e.facts.Sender == "" {
			e.fail(ProblemNoFrom)
		} else if e.seen[KindFrom] == 0 {
			e.add("From", e.facts.Sender)
		}
		if e.seen[KindDate] == 0 {
			e.add("Date", e.facts.Date)
		}
		if e.seen[KindMessageID] == 0 {
			e.add("Message-ID", "<"+e.facts.MessageID+">")
		}
	}
	for i, r := range e.edits.adds {
		if r.Action == Add || !e.present[i] {
			e.out = append(e.out, fold([]byte(r.Field), r.expand(nil, nil))...)
		}
	}
}

// AddedMessageID returns the value of the Message-ID field that was added, "" if none was. It is known after
// End.
func (e *Editor) AddedMessageID() string {
	if !e.edits.cfg.Submission || e.seen[KindMessageID] > 0 {
		return ""
	}
	return "<" + e.facts.MessageID + ">"
}

func (e *Editor) add(name, value string) {
	e.out = append(e.out, name+": "+value+"\r\n"...)
}

// separate writes the empty line that ends the header.
func (e *Editor) separate() {
	if e.edits.cfg.Submission {
		e.out = append(e.out, "\r\n"...)
	}
}

// loose ends the header at a line that cannot belong to it. Simple programs write no empty
// line after the header, or no header at all.
func (e *Editor) loose() {
	e.finish()
	e.complete()
	e.separate()
	e.out = append(e.out, e.line...)
	if !e.edits.cfg.Submission {
		e.line, e.at = e.line[:0], inBody
		return
	}
	e.at = inLoose
	whole := e.line[len(e.line)-1] == '\n'
	e.line = e.line[:min(len(e.line), looseMax)]
	if whole {
		e.checkLoose()
	}
}

// looseMax is the length of the part of a line of text that is searched for a field.
const looseMax = 64

// checkLoose looks at a line between a header that has ended without an empty line and the
// first empty line. It can also be the rest of a header with one bad line in it, and then the
// recipients of blind copies are in what everyone would read.
func (e *Editor) checkLoose() {
	name, _, found := bytes.Cut(e.line, []byte(":"))
	switch k := KindOf(bytes.Trim(name, " \t\r\n\x00")); {
	case found && (k == KindBcc || k == KindResentBcc):
		e.fail(ProblemHiddenBcc)
	}
	e.line = e.line[:0]
}
