package tomlfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// This file is the only one that knows the TOML library. The library's decoder
// stops at the first value of a wrong type and has no positions of values that are
// well-formed and wrong; its parser, which promises no stable API, reports them
// all.

// nestingMax bounds the depth of values. No parameter needs more than two.
const nestingMax = 8

// A reader turns a text into a tree, going on behind syntax errors so that one
// run finds as much as possible.
type reader struct {
	src     *File
	parser  unstable.Parser
	base    int // offset of the text that the parser has
	root    *Table
	current *Table // nil below a header that is wrong: whose keys are these?
	read    int    // offset behind the last expression that was read
}

// Parse reads the whole text and records what is wrong with its syntax. What could
// be read is in the tree nevertheless; the same key is never in it twice.
func (s *File) Parse() *Table {
	r := &reader{src: s, root: newTable(Span{}, madeByKey)}
	r.current = r.root
	for r.base < len(s.text) {
		r.parser.Reset(s.text[r.base:])
		for r.parser.NextExpression() {
			r.expression(r.parser.Expression())
		}
		var wrong *unstable.ParserError
		if !errors.As(r.parser.Error(), &wrong) {
			break
		}
		r.base = r.syntaxError(wrong)
	}
	return r.root
}

// CheckWhole has the library decode the text if nothing wrong has been found,
// because a few of TOML's rules, about what may be added to which table, are not
// worth stating twice.
func (s *File) CheckWhole() {
	if s.Wrong() {
		return
	}
	var whole map[string]any
	err := toml.Unmarshal(s.text, &whole)
	var wrong *toml.DecodeError
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		start := s.starts[min(max(line, 1), len(s.starts))-1] + max(column, 1) - 1
		s.Complain(Span{start, start + 1}, Problem{Message: strings.TrimPrefix(wrong.Error(), "toml: ")})
	default:
		s.Complain(Span{}, Problem{Message: err.Error()})
	}
}

func (r *reader) expression(n *unstable.Node) {
	if n.Kind == unstable.KeyValue {
		r.read = r.spanOf(n.Raw).End
	} else if parts := r.key(n); len(parts) > 0 {
		r.read = r.src.endOfLine(parts[len(parts)-1].at.End)
	}
	switch n.Kind {
	case unstable.KeyValue:
		if r.current != nil {
			r.keyValue(r.current, n, 0)
		}
	case unstable.Table:
		r.current = r.header(n)
	case unstable.ArrayTable:
		r.current = r.arrayHeader(n)
	}
}

func (r *reader) spanOf(raw unstable.Range) Span {
	start := r.base + int(raw.Offset)
	return Span{start, start + int(raw.Length)}
}

// A part is one of the names between the dots of a key.
type part struct {
	name string
	at   Span
}

func (r *reader) key(n *unstable.Node) []part {
	var parts []part
	for it := n.Key(); it.Next(); {
		k := it.Node()
		parts = append(parts, part{string(k.Data), r.spanOf(k.Raw)})
	}
	return parts
}

// place returns the parts of a header's key, the table that the last of them will be
// in, nil if something else is in the way, and where the key stands.
func (r *reader) place(n *unstable.Node) (parts []part, in *Table, at Span) {
	parts = r.key(n)
	last := len(parts) - 1
	return parts, r.descend(r.root, parts[:last]), Span{parts[0].at.Start, parts[last].at.End}
}

// header opens the table that a [header] names.
func (r *reader) header(n *unstable.Node) *Table {
	parts, t, at := r.place(n)
	if t == nil {
		return nil
	}
	last := parts[len(parts)-1]
	e := t.Get(last.name)
	if e == nil {
		opened := newTable(at, madeByHeader)
		t.add(&Entry{last.name, at, &Node{Kind: KindTable, At: at, Table: opened}})
		return opened
	}
	if e.Value.Kind != KindTable || e.Value.Table.made != madeByKey {
		r.duplicate(at, parts, e)
		return e.Value.Table // its keys may be wrong too
	}
	e.Value.Table.made, e.Value.Table.At = madeByHeader, at
	return e.Value.Table
}

// arrayHeader opens a table of a [[list of tables]].
func (r *reader) arrayHeader(n *unstable.Node) *Table {
	parts, t, at := r.place(n)
	if t == nil {
		return nil
	}
	last := parts[len(parts)-1]
	opened := newTable(at, madeByHeader)
	item := &Node{Kind: KindTable, At: at, Table: opened}
	if e := t.Get(last.name); e != nil && e.Value.newest() == e.Value {
		r.duplicate(at, parts, e)
	} else if e != nil {
		e.Value.Items = append(e.Value.Items, item)
	} else {
		t.add(&Entry{last.name, at, &Node{Kind: KindList, At: at, Items: []*Node{item}}})
	}
	return opened
}

// descend follows, and makes, the tables that lead to the last part of a key.
// It returns nil if something else is in the way.
func (r *reader) descend(t *Table, parts []part) *Table {
	for i, p := range parts {
		e := t.Get(p.name)
		if e == nil {
			made := newTable(p.at, madeByKey)
			e = &Entry{p.name, p.at, &Node{Kind: KindTable, At: p.at, Table: made}}
			t.add(e)
		}
		v := e.Value.newest()
		if v.Kind != KindTable || v.Table.made == madeInline {
			r.duplicate(Span{parts[0].at.Start, p.at.End}, parts[:i+1], e)
			r.src.unread++ // what is below it belongs nowhere
			return nil
		}
		t = v.Table
	}
	return t
}

func (r *reader) keyValue(t *Table, n *unstable.Node, depth int) {
	parts := r.key(n)
	last := parts[len(parts)-1]
	if t = r.descend(t, parts[:len(parts)-1]); t == nil {
		return
	}
	at := Span{parts[0].at.Start, last.at.End}
	if e := t.Get(last.name); e != nil {
		r.duplicate(at, parts, e)
		return
	}
	whole := r.spanOf(n.Raw)
	t.add(&Entry{last.name, last.at, r.value(n.Value(), r.behindEquals(last.at.End, whole.End), depth)})
}

// behindEquals returns the position of a value, which the parser does not return
// for lists and inline tables.
func (r *reader) behindEquals(start, end int) Span {
	for start < end && strings.IndexByte(" \t=", r.src.text[start]) >= 0 {
		start++
	}
	return Span{start, end}
}

func (r *reader) value(n *unstable.Node, at Span, depth int) *Node {
	v := &Node{At: at, Text: string(n.Data)}
	if n.Raw.Length > 0 && n.Kind != unstable.InlineTable {
		v.At = r.spanOf(n.Raw)
	}
	if depth == nestingMax {
		r.src.Complain(v.At, Problem{Message: "values are nested too deeply"})
		v.Kind = KindList
		return v
	}
	switch n.Kind {
	case unstable.String:
		v.Kind = KindText
	case unstable.Integer:
		v.Kind = KindInteger
	case unstable.Float:
		v.Kind = KindFloat
	case unstable.Bool:
		v.Kind = KindBool
	case unstable.Array:
		v.Kind = KindList
		for it := n.Children(); it.Next(); {
			v.Items = append(v.Items, r.value(it.Node(), at, depth+1))
		}
	case unstable.InlineTable:
		v.Kind, v.Table = KindTable, newTable(at, madeByKey)
		for it := n.Children(); it.Next(); {
			r.keyValue(v.Table, it.Node(), depth+1)
		}
		v.Table.made = madeInline
	default:
		v.Kind = KindTime
	}
	return v
}

func (r *reader) duplicate(at Span, parts []part, first *Entry) {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = QuoteKey(p.name)
	}
	name, line := strings.Join(names, "."), r.src.lineAt(first.At.Start)+1
	p := Problem{Message: fmt.Sprintf("%s is set a second time; the first is in line %d", name, line), Hint: "remove one of them"}
	if first.Value.Kind == KindTable && first.Value.Table.made == madeByHeader {
		p = Problem{Message: fmt.Sprintf("the table %s begins a second time; the first is in line %d", name, line), Hint: "move these keys there"}
	}
	r.src.Complain(at, p)
}

// assignment is how a line begins at which reading can go on.
var assignment = regexp.MustCompile(`^[ \t]*(\[\[?[ \t]*["'A-Za-z0-9_]|([A-Za-z0-9_-][A-Za-z0-9_.-]*|"[^"]*"|'[^']*')[ \t]*=)`)

// syntaxError records what the parser could not read, and returns where to go
// on: at the next line, or, if what could not be read may have many lines, at
// the next one that begins something new.
func (r *reader) syntaxError(wrong *unstable.ParserError) (next int) {
	src := r.src
	src.unread++
	at := r.spanOf(r.parser.Range(wrong.Highlight))
	at.Start = min(at.Start, len(src.text))
	first, line := src.lineAt(r.unread()), src.lineAt(at.Start)
	if strings.Contains(wrong.Message, "not terminated by") { // the place is the end of the file
		at.Start, line = src.starts[first], first
		at.End = at.Start + len(src.line(line))
	}
	text := src.line(line)
	begins := assignment.MatchString(text)
	from, many := line+1, line > first || strings.Count(text, "[") > strings.Count(text, "]")
	if line > first && begins && strings.TrimSpace(string(src.text[src.starts[line]:at.Start])) == "" {
		from = line // the line is right: something above it has no end
	} else if strings.HasPrefix(strings.TrimSpace(text), "[") {
		r.current, many = nil, false
	}
	message, hint := explainSyntax(wrong.Message, text, at.Start-src.starts[line])
	src.Complain(at, Problem{Message: message, Hint: hint})
	for ; from < len(src.starts); from++ {
		if !many || assignment.MatchString(src.line(from)) {
			r.read = src.starts[from]
			return r.read
		}
	}
	return len(src.text)
}

// unread returns the offset of the first thing behind the last expression.
func (r *reader) unread() int {
	offset := max(r.read, r.base)
	for offset < len(r.src.text) {
		switch r.src.text[offset] {
		case ' ', '\t', '\r', '\n':
			offset++
		case '#':
			offset = r.src.endOfLine(offset)
		default:
			return offset
		}
	}
	return offset
}
