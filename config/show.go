package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// Show writes the effective configuration as TOML that Parse reads back to the
// same configuration. Values that the file does not set are marked as defaults.
// With onlyChanged, values equal to their defaults are left out, as postconf -n
// does. With asJSON, the same keys and values are written as one JSON object.
func (c *Config) Show(w io.Writer, onlyChanged, asJSON bool) error {
	s := &shower{c: c, onlyChanged: onlyChanged}
	tables := s.tables()
	var err error
	if asJSON {
		err = writeJSON(w, tables)
	} else {
		_, err = w.Write(formatTables(tables))
	}
	if err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	return nil
}

// A shownTable is a table as it is written.
type shownTable struct {
	path   []string // of its header; none for the top level
	listed bool     // one of several with this header
	lines  []shownLine
}

type shownLine struct {
	title string // begins a group
	name  string
	value any
	note  string // where the value comes from, unless the file sets it
}

// A shower selects what to show.
type shower struct {
	c           *Config
	onlyChanged bool
}

func (s *shower) tables() []shownTable {
	standard := Default(s.c.env)
	top := shownTable{}
	all := []shownTable{}
	for _, section := range sections {
		t := shownTable{}
		for _, p := range section.parameters {
			if line, ok := showLine(s, p, s.c, standard, fullName(section.table, p.name), "default"); ok {
				t.lines = append(t.lines, line)
			}
		}
		switch {
		case len(t.lines) == 0:
		case section.table == tableTop:
			t.lines[0].title = section.title
			top.lines = append(top.lines, t.lines...)
		default:
			t.path = []string{section.table}
			all = append(all, t)
		}
	}
	if len(top.lines) > 0 {
		all = append([]shownTable{top}, all...)
	}
	all = append(all, s.listenerTables()...)
	all = append(all, s.certificateTables()...)
	all = append(all, s.headerRuleTables()...)
	all = append(all, s.milterTables()...)
	all = append(all, s.transports()...)
	all = append(all, s.destinations()...)
	all = append(all, s.flowTables()...)
	all = append(all, s.warmupTables()...)
	all = append(all, s.sourceTables()...)
	all = append(all, s.dkimTables()...)
	all = append(all, s.replyRuleTables()...)
	all = append(all, s.verpTables()...)
	all = append(all, s.feedbackTables()...)
	for _, routes := range []shownTable{showRoutes(tableRoutes, s.c.Routes), showRoutes(tableSenderRoutes, s.c.SenderRoutes)} {
		if len(routes.lines) > 0 {
			all = append(all, routes)
		}
	}
	return all
}

// showLine returns the line of a parameter; ok is false if it must be left out.
func showLine[O any](s *shower, p parameter[O], o, standard *O, key, note string) (line shownLine, ok bool) {
	changed := s.c.explicit[key] || !p.equal(o, standard)
	line = shownLine{name: p.name, value: p.plain(o)}
	if !changed {
		line.note = note
	}
	return line, changed || !s.onlyChanged
}

func (s *shower) transports() []shownTable {
	var all []shownTable
	types := builtin()
	for _, name := range slices.Sorted(maps.Keys(s.c.Transports)) {
		t := s.c.Transports[name]
		kind, always := types[name]
		standard := s.c.Defaults
		standard.Type = kind
		shown := shownTable{path: []string{tableTransport, name}}
		for _, p := range transportParameters {
			if !p.concerns(t.Type) || p.name == "type" && always && !typeMayChange(name) {
				continue
			}
			note := "from " + p.global
			if p.global == "" {
				note = "default"
			}
			if line, ok := showLine(s, p, &t, &standard, fullName(transportTable(name), p.name), note); ok {
				shown.lines = append(shown.lines, line)
			}
		}
		if len(shown.lines) > 0 || !always {
			all = append(all, shown)
		}
	}
	return all
}

// destinations shows only the limits that are set; the others are the transport's.
func (s *shower) destinations() []shownTable {
	var all []shownTable
	for _, name := range slices.Sorted(maps.Keys(s.c.Destinations)) {
		d := s.c.Destinations[name]
		shown := shownTable{path: []string{tableDestination, name}}
		for _, p := range destinationParameters {
			if !p.equal(&d, &Destination{}) {
				shown.lines = append(shown.lines, shownLine{name: p.name, value: p.plain(&d)})
			}
		}
		all = append(all, shown)
	}
	return all
}

func showRoutes(table string, routes []Route) shownTable {
	t := shownTable{path: []string{table}}
	for _, r := range routes {
		t.lines = append(t.lines, shownLine{name: r.Pattern, value: r.Target})
	}
	return t
}

func formatTables(tables []shownTable) []byte {
	var b bytes.Buffer
	for i, t := range tables {
		if len(t.path) > 0 {
			if i > 0 {
				b.WriteByte('\n')
			}
			open, end := "[", "]"
			if t.listed {
				open, end = "[[", "]]"
			}
			b.WriteString(open + tableHeader(t.path) + end + "\n")
		}
		for j, line := range t.lines {
			if line.title != "" {
				if j > 0 {
					b.WriteByte('\n')
				}
				fmt.Fprintf(&b, "# %s\n", line.title)
			}
			text := tomlfile.QuoteKey(line.name) + " = " + literal(line.value)
			if line.note != "" {
				text = fmt.Sprintf("%-50s # %s", text, line.note)
			}
			b.WriteString(text + "\n")
		}
	}
	return b.Bytes()
}

func tableHeader(path []string) string {
	quoted := make([]string, len(path))
	for i, name := range path {
		quoted[i] = tomlfile.QuoteKey(name)
	}
	return strings.Join(quoted, ".")
}

func writeJSON(w io.Writer, tables []shownTable) error {
	root := make(map[string]any)
	for _, t := range tables {
		inner := root
		if t.listed {
			inner = make(map[string]any)
			list, _ := root[t.path[0]].([]any)
			root[t.path[0]] = append(list, inner)
			t.path = nil
		}
		for _, name := range t.path {
			next, ok := inner[name].(map[string]any)
			if !ok {
				next = make(map[string]any)
				inner[name] = next
			}
			inner = next
		}
		for _, line := range t.lines {
			inner[line.name] = line.value
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(root)
}
