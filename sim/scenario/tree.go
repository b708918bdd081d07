package scenario

import (
	"bytes"
	"errors"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/posthaste-mta/posthaste/config"
)

// A span is a piece of the file: octets from start to before end.
type span struct{ start, end int }

// A nodeKind is what a value is.
type nodeKind uint8

const (
	nodeText nodeKind = iota + 1
	nodeInteger
	nodeFloat
	nodeBool
	nodeTime
	nodeList
	nodeTable
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a date or time", "a list", "a table"}[k]
}

// A node is a value and where it is.
type node struct {
	kind  nodeKind
	at    span
	text  string // what it says; of numbers and bools: as written
	items []*node
	table *table
}

// A table is keys in the order of the file.
type table struct {
	at      span // of its header, or its first key
	entries []*entry
}

// An entry is a key and its value.
type entry struct {
	name  string
	at    span // of the key
	value *node
}

func (t *table) get(name string) *entry {
	for _, e := range t.entries {
		if e.name == name {
			return e
		}
	}
	return nil
}

// A source is the text of a file and what was found wrong with it.
type source struct {
	name     string
	text     []byte
	problems []placed
}

type placed struct {
	at span
	config.Problem
}

// problemsMax bounds the list: whoever has more has given us another file.
const problemsMax = 50

// complain records a problem; only Key, Message, Allowed and Hint of it count.
func (s *source) complain(at span, p config.Problem) {
	at.start = min(max(at.start, 0), len(s.text))
	at.end = min(max(at.end, at.start), len(s.text))
	first := bytes.LastIndexByte(s.text[:at.start], '\n') + 1
	line, _, _ := bytes.Cut(s.text[first:], []byte("\n"))
	p.File, p.Line = s.name, 1+bytes.Count(s.text[:first], []byte("\n"))
	p.Column = 1 + utf8.RuneCount(s.text[first:at.start])
	p.Source = strings.ToValidUTF8(strings.TrimSuffix(string(line), "\r"), "\ufffd")
	piece, _, _ := bytes.Cut(s.text[at.start:at.end], []byte("\n"))
	p.Length = max(1, utf8.RuneCount(piece))
	s.problems = append(s.problems, placed{at, p})
}

// err returns all problems in the order of the file, nil if there is none.
func (s *source) err() error {
	if len(s.problems) == 0 {
		return nil
	}
	sort.SliceStable(s.problems, func(i, j int) bool { return s.problems[i].at.start < s.problems[j].at.start })
	out := &config.Problems{}
	for i, p := range s.problems {
		if i == problemsMax {
			out.More = len(s.problems) - i
			break
		}
		out.List = append(out.List, p.Problem)
	}
	return out
}

// parse returns the file as a tree, nil if its syntax is wrong.
func (s *source) parse() *table {
	var whole map[string]any
	if err := toml.Unmarshal(s.text, &whole); err != nil {
		at := span{}
		var wrong *toml.DecodeError
		if errors.As(err, &wrong) {
			line, column := wrong.Position()
			at.start = s.offset(line, column)
			at.end = at.start + 1
		}
		s.complain(at, config.Problem{Message: strings.TrimPrefix(err.Error(), "toml: ")})
		return nil
	}
	b := builder{root: &table{}}
	b.current = b.root
	b.parser.Reset(s.text)
	for b.parser.NextExpression() {
		b.expression(b.parser.Expression())
	}
	return b.root
}

// offset returns where a line and a column, in octets from 1 on, are.
func (s *source) offset(line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(s.text[at:], '\n')
		if n < 0 {
			return len(s.text)
		}
		at += n + 1
	}
	return min(at+max(column, 1)-1, len(s.text))
}

// A builder makes a tree of a text whose syntax is known to be right.
type builder struct {
	parser  unstable.Parser
	root    *table
	current *table
}

func spanOf(r unstable.Range) span { return span{int(r.Offset), int(r.Offset + r.Length)} }

func (b *builder) expression(n *unstable.Node) {
	switch n.Kind {
	case unstable.KeyValue:
		b.keyValue(b.current, n)
	case unstable.Table, unstable.ArrayTable:
		t, last := b.descend(b.root, n)
		b.current = &table{at: last.at}
		value := &node{kind: nodeTable, at: last.at, table: b.current}
		e := t.get(last.name)
		switch {
		case n.Kind == unstable.ArrayTable && e == nil:
			t.entries = append(t.entries, &entry{last.name, last.at, &node{kind: nodeList, at: last.at, items: []*node{value}}})
		case n.Kind == unstable.ArrayTable:
			e.value.items = append(e.value.items, value)
		case e == nil:
			t.entries = append(t.entries, &entry{last.name, last.at, value})
		default:
			b.current = e.value.table // begun by a longer key
		}
	}
}

// descend follows all parts of a key but the last, making tables on the way,
// and returns the last.
func (b *builder) descend(t *table, n *unstable.Node) (*table, entry) {
	var last entry
	for it := n.Key(); it.Next(); {
		if last.name != "" {
			t = t.inner(last)
		}
		last = entry{name: string(it.Node().Data), at: spanOf(it.Node().Raw)}
	}
	return t, last
}

// inner returns the table below a key; of a list of tables, the last.
func (t *table) inner(key entry) *table {
	e := t.get(key.name)
	switch {
	case e == nil:
		made := &table{at: key.at}
		t.entries = append(t.entries, &entry{key.name, key.at, &node{kind: nodeTable, at: key.at, table: made}})
		return made
	case e.value.kind == nodeList:
		return e.value.items[len(e.value.items)-1].table
	}
	return e.value.table
}

func (b *builder) keyValue(t *table, n *unstable.Node) {
	t, last := b.descend(t, n)
	whole := spanOf(n.Raw)
	at := span{last.at.end, whole.end}
	text := b.parser.Raw(n.Raw)
	for at.start < at.end && strings.IndexByte(" \t=", text[at.start-whole.start]) >= 0 {
		at.start++
	}
	last.value = b.value(n.Value(), at)
	t.entries = append(t.entries, &last)
}

func (b *builder) value(n *unstable.Node, at span) *node {
	v := &node{at: at, text: string(n.Data)}
	if n.Raw.Length > 0 && n.Kind != unstable.InlineTable {
		v.at = spanOf(n.Raw)
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
			v.items = append(v.items, b.value(it.Node(), at))
		}
	case unstable.InlineTable:
		v.kind, v.table = nodeTable, &table{at: at}
		for it := n.Children(); it.Next(); {
			b.keyValue(v.table, it.Node())
		}
	default:
		v.kind = nodeTime
	}
	return v
}
