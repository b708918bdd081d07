package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// An Input is a configuration of Postfix.
type Input struct {
	Main     *maincf.Main
	Services []maincf.Service // of master.cf; nil if there is none, for the usual ones
	// Problems are those of the texts of both.
	Problems []maincf.Problem
	// Read returns the text of a map or another file that a parameter names, and its name for
	// messages. The error says why there is none.
	Read func(parameter string, t maincf.Table) (file, text string, err error)
	// Credentials is the path of the file that the credentials will be written to; "" for none.
	Credentials string
	// Environment is that of the configuration (config.Parse).
	Environment config.Environment
}

// A Result is what a configuration has become.
type Result struct {
	TOML string
	// Credentials is the text of the file of credentials, "" if there are none. It has passwords.
	Credentials string
	// Remarks are in the order of their kinds, and of the lines that they are about.
	Remarks []Remark
}

// A Kind is what a remark is about.
type Kind uint8

const (
	// NotUnderstood is for lines and values that are no configuration of Postfix.
	NotUnderstood Kind = iota
	// Lost is for what was not carried over.
	Lost
	// Different is for what was carried over and is not the same here.
	Different
	// Todo is for what must be done before the configuration does what the old one did.
	Todo
)

// A Remark is something that the administrator should know of the result.
type Remark struct {
	Kind Kind
	// At are the lines that it is about, as "main.cf:12: name = value".
	At []string
	// Text says what it is, and what to do.
	Text string
}

// A translation is the work on one configuration.
type translation struct {
	in         Input
	doc        *document
	remarks    []Remark
	indexes    map[remarkKey]int // numbers of remarks
	notes      []note            // what is not needed, for the end of the document
	secrets    []string
	master     []maincf.Service
	domains    map[string]bool // to which there is a route already
	reported   map[string]bool // parameters whose value could not be expanded
	used       map[string]bool // transports that routes name
	creds      *credentials
	accepted   []string            // relay_domains, so far
	policies   map[string][]string // domains of destinations, by the names of these
	files      map[string][]string // of maps, by the names of their parameters here
	aliasLines []string            // aliases of local users as lines of a map, for the end of the document
	named      bool                // milters or rules name listeners, which need their tables for that
}

// A note is lines of Postfix's files, and why they need nothing here.
type note struct {
	text string
	at   []string
}

// Translate translates a configuration. The result is one that config.Parse accepts, as far as
// this package knows; the caller has it checked, with the files that it names.
func Translate(in Input) *Result {
	t := &translation{in: in, doc: newDocument(), indexes: make(map[remarkKey]int), reported: make(map[string]bool), used: make(map[string]bool), domains: make(map[string]bool), creds: &credentials{}, policies: make(map[string][]string), files: make(map[string][]string)}
	t.findSecrets()
	for _, p := range in.Problems {
		t.remark(NotUnderstood, "", p.Error())
	}
	t.services()
	t.host()
	t.incoming()
	t.outgoing()
	t.routes()
	for _, e := range in.Main.Entries {
		t.answer(e)
	}
	t.transportTables()
	text := t.settle()
	slices.SortStableFunc(t.remarks, func(a, b Remark) int { return cmp.Compare(a.Kind, b.Kind) })
	return &Result{TOML: text, Credentials: t.creds.text(), Remarks: t.remarks}
}

// A remarkKey is what two remarks have in common that are one.
type remarkKey struct {
	kind Kind
	text string
}

// remark records a remark about lines; the same text is recorded once, with all its lines.
func (t *translation) remark(kind Kind, text string, at ...string) {
	for i := range at {
		at[i] = t.redact(at[i])
	}
	text = t.redact(text)
	key := remarkKey{kind, text}
	if i, known := t.indexes[key]; known && text != "" {
		t.remarks[i].At = appendNew(t.remarks[i].At, at...)
		return
	}
	t.indexes[key] = len(t.remarks)
	t.remarks = append(t.remarks, Remark{kind, at, text})
}

func (t *translation) lost(s setting, format string, args ...any) {
	t.remark(Lost, fmt.Sprintf(format, args...), s.line())
}

func (t *translation) different(s setting, format string, args ...any) {
	t.remark(Different, fmt.Sprintf(format, args...), s.line())
}

func (t *translation) todo(s setting, format string, args ...any) {
	t.remark(Todo, fmt.Sprintf(format, args...), s.line())
}

// notNeeded records lines that need nothing here.
func (t *translation) notNeeded(text string, at ...string) {
	for i := range t.notes {
		if n := &t.notes[i]; n.text == text {
			n.at = appendNew(n.at, at...)
			return
		}
	}
	t.notes = append(t.notes, note{text, at})
}

// settle writes the document, and takes out what package config refuses until it refuses
// nothing, or nothing that can be taken out.
func (t *translation) settle() string {
	for {
		text := t.doc.text(t.notes, t.aliasLines, t.redact)
		_, err := config.Parse("the result", []byte(text), t.in.Environment)
		var problems *tomlfile.Problems
		if !errors.As(err, &problems) {
			return text
		}
		removed := false
		done := make(map[*assignment]bool)
		for _, p := range problems.List {
			s, table := t.doc.at(p.Line)
			if s == nil { // a problem of what is not there, such as a parameter that a table lacks
				if table = t.doc.of(p.Key); table != nil && len(table.settings) > 0 {
					s = table.settings[0]
				}
			}
			if s == nil || done[s] {
				continue
			}
			done[s] = true
			removed = t.takeOut(s, table, p) || removed
		}
		if !removed {
			return text
		}
	}
}

// takeOut turns a setting that package config refuses into a comment, and its whole table if it
// is one already. It reports whether there was something left to take out.
func (t *translation) takeOut(s *assignment, table *table, p tomlfile.Problem) bool {
	why := p.Message
	if p.Allowed != "" {
		why += " (allowed: " + p.Allowed + ")"
	}
	if s.refused && (table == nil || table.refused) {
		return false
	}
	what, at := s.name+" = "+s.value, s.origins
	if table != nil {
		what = table.title() + " " + what
		if s.refused {
			what, table.refused = table.title(), true
		}
		if len(at) == 0 || table.refused {
			at = table.origins
		}
	}
	s.refused = true
	t.remark(Lost, fmt.Sprintf("%s cannot be set here: %s.", what, strings.TrimSuffix(why, ".")), slices.Clone(at)...)
	return true
}
