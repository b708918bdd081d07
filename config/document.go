package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// This file is the only one that knows the TOML library. The library's decoder
// stops at the first value of a wrong type and tells no positions of values
// that are well-formed and wrong; its parser, which promises no stable API,
// tells them all.

// nestingMax bounds the depth of values. No parameter needs more than two.
const nestingMax = 8

// A reader turns a text into a tree, going on behind syntax errors so that one
// run finds as much as possible.
type reader struct {
	src     *source
	parser  unstable.Parser
	base    int // offset of the text that the parser has
	root    *table
	current *table // nil below a header that is wrong: whose keys are these?
	read    int    // offset behind the last expression that was read
}

// read parses the whole text and records what is wrong with its syntax.
func read(src *source) *table {
	r := &reader{src: src, root: newTable(span{}, madeByKey)}
	r.current = r.root
	for r.base < len(src.text) {
		r.parser.Reset(src.text[r.base:])
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

// checkWhole has the library decode a text in which nothing wrong has been
// found, because a few of TOML's rules, about what may be added to which table,
// are not worth stating twice.
func checkWhole(src *source) {
	var whole map[string]any
	err := toml.Unmarshal(src.text, &whole)
	var wrong *toml.DecodeError
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		start := src.starts[min(max(line, 1), len(src.starts))-1] + max(column, 1) - 1
		src.complain(span{start, start + 1}, Problem{Message: strings.TrimPrefix(wrong.Error(), "toml: ")})
	default:
		src.complain(span{}, Problem{Message: err.Error()})
	}
}

func (r *reader) expression(n *unstable.Node) {
	if n.Kind == unstable.KeyValue {
		r.read = r.spanOf(n.Raw).end
	} else if parts := r.key(n); len(parts) > 0 {
		r.read = r.src.endOfLine(parts[len(parts)-1].at.end)
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

func (r *reader) spanOf(raw unstable.Range) span {
	start := r.base + int(raw.Offset)
	return span{start, start + int(raw.Length)}
}

// A part is one of the names between the dots of a key.
type part struct {
	name string
	at   span
}

func (r *reader) key(n *unstable.Node) []part {
	var parts []part
	for it := n.Key(); it.Next(); {
		k := it.Node()
		parts = append(parts, part{string(k.Data), r.spanOf(k.Raw)})
	}
	return parts
}

// header opens the table that a [header] names.
func (r *reader) header(n *unstable.Node) *table {
	parts := r.key(n)
	t := r.descend(r.root, parts[:len(parts)-1])
	if t == nil {
		return nil
	}
	last := parts[len(parts)-1]
	at := span{parts[0].at.start, last.at.end}
	e := t.get(last.name)
	if e == nil {
		opened := newTable(at, madeByHeader)
		t.add(&entry{last.name, at, &node{kind: nodeTable, at: at, table: opened}})
		return opened
	}
	if e.value.kind != nodeTable || e.value.table.made != madeByKey {
		r.duplicate(at, parts, e)
		return e.value.table // its keys may be wrong too
	}
	e.value.table.made, e.value.table.at = madeByHeader, at
	return e.value.table
}

// arrayHeader opens a table of a [[list of tables]]. No parameter is one; it is
// kept so that the complaint can say so.
func (r *reader) arrayHeader(n *unstable.Node) *table {
	parts := r.key(n)
	t := r.descend(r.root, parts[:len(parts)-1])
	if t == nil {
		return nil
	}
	last := parts[len(parts)-1]
	at := span{parts[0].at.start, last.at.end}
	opened := newTable(at, madeByHeader)
	item := &node{kind: nodeTable, at: at, table: opened}
	if e := t.get(last.name); e != nil && e.value.kind != nodeList {
		r.duplicate(at, parts, e)
	} else if e != nil {
		e.value.items = append(e.value.items, item)
	} else {
		t.add(&entry{last.name, at, &node{kind: nodeList, at: at, items: []*node{item}}})
	}
	return opened
}

// descend follows, and makes, the tables that lead to the last part of a key.
// It returns nil if something else is in the way.
func (r *reader) descend(t *table, parts []part) *table {
	for i, p := range parts {
		e := t.get(p.name)
		if e == nil {
			made := newTable(p.at, madeByKey)
			e = &entry{p.name, p.at, &node{kind: nodeTable, at: p.at, table: made}}
			t.add(e)
		}
		if e.value.kind != nodeTable || e.value.table.made == madeInline {
			r.duplicate(span{parts[0].at.start, p.at.end}, parts[:i+1], e)
			return nil
		}
		t = e.value.table
	}
	return t
}

func (r *reader) keyValue(t *table, n *unstable.Node, depth int) {
	parts := r.key(n)
	last := parts[len(parts)-1]
	if t = r.descend(t, parts[:len(parts)-1]); t == nil {
		return
	}
	at := span{parts[0].at.start, last.at.end}
	if e := t.get(last.name); e != nil {
		r.duplicate(at, parts, e)
		return
	}
	whole := r.spanOf(n.Raw)
	t.add(&entry{last.name, last.at, r.value(n.Value(), r.behindEquals(last.at.end, whole.end), depth)})
}

// behindEquals returns where a value is: the parser does not tell it of lists
// and inline tables.
func (r *reader) behindEquals(start, end int) span {
	for start < end && strings.IndexByte(" \t=", r.src.text[start]) >= 0 {
		start++
	}
	return span{start, end}
}

func (r *reader) value(n *unstable.Node, at span, depth int) *node {
	v := &node{at: at, text: string(n.Data)}
	if n.Raw.Length > 0 && n.Kind != unstable.InlineTable {
		v.at = r.spanOf(n.Raw)
	}
	if depth == nestingMax {
		r.src.complain(v.at, Problem{Message: "values are nested too deeply"})
		v.kind = nodeList
		return v
	}
	switch n.Kind {
	case unstable.String:
		v.kind = nodeText
	case unstable.Integer:
		v.kind = nodeInteger
	case unstable.Float:
		v.kind = nodeFloat
	case unstable.Bool:
		v.kind = nodeBool
	case unstable.Array:
		v.kind = nodeList
		for it := n.Children(); it.Next(); {
			v.items = append(v.items, r.value(it.Node(), at, depth+1))
		}
	case unstable.InlineTable:
		v.kind, v.table = nodeTable, newTable(at, madeByKey)
		for it := n.Children(); it.Next(); {
			r.keyValue(v.table, it.Node(), depth+1)
		}
		v.table.made = madeInline
	default:
		v.kind = nodeTime
	}
	return v
}

func (r *reader) duplicate(at span, parts []part, first *entry) {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = quoteKey(p.name)
	}
	name, line := strings.Join(names, "."), r.src.lineAt(first.at.start)+1
	p := Problem{Message: fmt.Sprintf("%s is set a second time; the first is in line %d", name, line), Hint: "remove one of them"}
	if first.value.kind == nodeTable && first.value.table.made == madeByHeader {
		p = Problem{Message: fmt.Sprintf("the table %s begins a second time; the first is in line %d", name, line), Hint: "move these keys there"}
	}
	r.src.complain(at, p)
}

// assignment is how a line begins at which reading can go on.
var assignment = regexp.MustCompile(`^[ \t]*(\[\[?[ \t]*["'A-Za-z0-9_]|([A-Za-z0-9_-][A-Za-z0-9_.-]*|"[^"]*"|'[^']*')[ \t]*=)`)

// syntaxError records what the parser could not read, and returns where to go
// on: at the next line, or, if what could not be read may have many lines, at
// the next one that begins something new.
func (r *reader) syntaxError(wrong *unstable.ParserError) (next int) {
	src := r.src
	at := r.spanOf(r.parser.Range(wrong.Highlight))
	at.start = min(at.start, len(src.text))
	first, line := src.lineAt(r.unread()), src.lineAt(at.start)
	if strings.Contains(wrong.Message, "not terminated by") { // the place is the end of the file
		at.start, line = src.starts[first], first
		at.end = at.start + len(src.line(line))
	}
	text := src.line(line)
	begins := assignment.MatchString(text)
	from, many := line+1, line > first || strings.Count(text, "[") > strings.Count(text, "]")
	if line > first && begins && strings.TrimSpace(string(src.text[src.starts[line]:at.start])) == "" {
		from = line // the line is right: something above it has no end
	} else if strings.HasPrefix(strings.TrimSpace(text), "[") {
		r.current, many = nil, false
	}
	message, hint := explainSyntax(wrong.Message, text, at.start-src.starts[line])
	src.complain(at, Problem{Message: message, Hint: hint})
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
