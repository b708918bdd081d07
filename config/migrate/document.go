package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// A document is the TOML that is being made.
type document struct {
	top    *table
	tables []*table
	lines  map[int]place // settings by the lines that they were written to last
}

// A place is a setting in its table, nil for the top level.
type place struct {
	setting *assignment
	table   *table
}

// A table is a table of the document.
type table struct {
	kind, name string // "transport", "slow"; name is "" for those of a list, and of routes
	listed     bool
	origins    []string
	comment    string // above it
	settings   []*assignment
	index      map[string]*assignment // by name
	refused    bool                   // it is no more than a comment
}

// An assignment is a key with its value.
type assignment struct {
	name    string // as written, in quotes if it needs them
	value   string // in TOML
	origins []string
	comment string // behind the origins
	refused bool   // package config refuses it, so it is no more than a comment
}

func newDocument() *document { return &document{top: &table{}} }

// title returns how the table is called in remarks.
func (t *table) title() string {
	switch {
	case t.listed:
		return "[[" + t.kind + "]]"
	case t.name != "":
		return "[" + t.kind + "." + tomlfile.QuoteKey(t.name) + "]"
	}
	return "[" + t.kind + "]"
}

// set sets a key of the table; a value that is there already is replaced. value is a string, an
// int, a bool or a list of strings.
func (t *table) set(name string, value any, origins ...string) *assignment {
	key := tomlfile.QuoteKey(name)
	if l := t.index[key]; l != nil {
		l.value = literal(value)
		l.add(origins...)
		return l
	}
	l := &assignment{name: key, value: literal(value)}
	if t.index == nil {
		t.index = make(map[string]*assignment)
	}
	t.index[key] = l
	l.add(origins...)
	t.settings = append(t.settings, l)
	return l
}

func (l *assignment) add(origins ...string) {
	for _, o := range origins {
		if o != "" && !slices.Contains(l.origins, o) {
			l.origins = append(l.origins, o)
		}
	}
}

// has reports whether the table sets a key.
func (t *table) has(name string) bool { return t.get(name) != nil }

func (t *table) get(name string) *assignment { return t.index[tomlfile.QuoteKey(name)] }

// remove takes a key out of the table.
func (t *table) remove(name string) {
	key := tomlfile.QuoteKey(name)
	t.settings = slices.DeleteFunc(t.settings, func(l *assignment) bool { return l.name == key })
	delete(t.index, key)
}

// table returns the table of a kind and name, which is created if it is not there.
func (d *document) table(kind, name string) *table {
	for _, t := range d.tables {
		if t.kind == kind && t.name == name && !t.listed {
			return t
		}
	}
	t := &table{kind: kind, name: name}
	d.tables = append(d.tables, t)
	return t
}

// find returns the table of a kind and name, or nil.
func (d *document) find(kind, name string) *table {
	for _, t := range d.tables {
		if t.kind == kind && t.name == name && !t.listed {
			return t
		}
	}
	return nil
}

// add adds a table to the list of a kind.
func (d *document) add(kind string, origins ...string) *table {
	t := &table{kind: kind, listed: true, origins: origins}
	d.tables = append(d.tables, t)
	return t
}

// literal writes a value in TOML.
func literal(value any) string {
	switch v := value.(type) {
	case string:
		return tomlfile.QuoteText(v)
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	case []string:
		all := make([]string, len(v))
		length := 0
		for i, s := range v {
			all[i] = tomlfile.QuoteText(s)
			length += len(all[i]) + 2
		}
		if length > 100 {
			return "[\n  " + strings.Join(all, ",\n  ") + ",\n]"
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	panic(fmt.Sprintf("a %T cannot be written", value))
}

// tableOrder is the order of the tables.
var tableOrder = []string{"listener", "certificate", "header_rule", "milter", "transport", "destination", "source", "pool", "routes", "sender_routes", "feedback"}

// at returns what was written to a line, counted from 1; a line of a table's header is that of
// its first setting.
func (d *document) at(number int) (*assignment, *table) {
	p := d.lines[number]
	return p.setting, p.table
}

// of returns the table of a parameter's full name, such as transport.slow.type; nil if there is none.
func (d *document) of(key string) *table {
	for _, t := range d.tables {
		if !t.listed && strings.HasPrefix(key, t.kind+"."+tomlfile.QuoteKey(t.name)) {
			return t
		}
	}
	return nil
}

// text writes the document; notes, and aliases that belong into a file of their own, are written at
// its end, as comments.
func (d *document) text(notes []note, aliases []string, redact func(string) string) string {
	w := writer{redact: redact, lines: make(map[int]place)}
	w.comment("This file was made from a configuration of Postfix by \"posthaste config import\". Above each parameter is what it was made from.")
	w.put("")
	order := topOrder()
	slices.SortStableFunc(d.top.settings, func(a, b *assignment) int { return order[a.name] - order[b.name] })
	for _, l := range d.top.settings {
		w.line(l, nil)
	}
	slices.SortStableFunc(d.tables, func(a, b *table) int {
		return slices.Index(tableOrder, a.kind) - slices.Index(tableOrder, b.kind)
	})
	for _, t := range d.tables {
		if len(t.settings) == 0 {
			continue
		}
		w.put("")
		if t.comment != "" {
			w.comment(t.comment)
		}
		for _, o := range t.origins {
			w.origin(o)
		}
		if t.refused {
			w.put("#" + t.title())
		} else {
			w.mark(t.settings[0], t)
			w.put(t.title())
		}
		for _, l := range t.settings {
			w.line(l, t)
		}
	}
	if len(notes) > 0 {
		w.put("")
		w.comment("What follows is not needed here.")
	}
	for _, n := range notes {
		w.put("#")
		w.comment(n.text + ":")
		for _, o := range n.at {
			w.origin("  " + o)
		}
	}
	if len(aliases) > 0 {
		w.put("")
		w.comment("Aliases of local users, for a file that virtual_alias_maps names:")
		w.put("#")
	}
	for _, a := range aliases {
		w.origin(a)
	}
	d.lines = w.lines
	return w.b.String()
}

// A writer writes a document, and knows the lines.
type writer struct {
	b      strings.Builder
	number int // of lines so far
	redact func(string) string
	lines  map[int]place
}

func (w *writer) put(s string) {
	w.b.WriteString(s)
	w.b.WriteByte('\n')
	w.number += 1 + strings.Count(s, "\n")
}

// mark notes that the next line is that of a setting.
func (w *writer) mark(l *assignment, t *table) { w.lines[w.number+1] = place{l, t} }

func (w *writer) line(l *assignment, t *table) {
	for _, o := range l.origins {
		w.origin(o)
	}
	if l.comment != "" {
		w.comment(l.comment)
	}
	text := l.name + " = " + l.value
	if l.refused || t != nil && t.refused {
		w.put("#" + strings.ReplaceAll(text, "\n", "\n#"))
		return
	}
	for i := range 1 + strings.Count(text, "\n") {
		w.lines[w.number+1+i] = place{l, t}
	}
	w.put(text)
}

// origin writes a line of Postfix's files as a comment.
func (w *writer) origin(s string) { w.put("# " + strings.ReplaceAll(w.redact(s), "\n", " ")) }

// comment writes a text as comments, in lines of at most 100 characters.
func (w *writer) comment(s string) {
	width := 0
	var row []string
	for _, word := range strings.Fields(w.redact(s)) {
		if width > 0 && width+1+len(word) > 98 {
			w.put("# " + strings.Join(row, " "))
			row, width = nil, 0
		}
		row = append(row, word)
		width += 1 + len(word)
	}
	w.put("# " + strings.Join(row, " "))
}

// topOrder returns the order of the top-level parameters, which is that of the reference.
func topOrder() map[string]int {
	order := make(map[string]int)
	for _, p := range config.Parameters() {
		if p.Table == "" {
			order[tomlfile.QuoteKey(p.Name)] = len(order) + 1
		}
	}
	return order
}
