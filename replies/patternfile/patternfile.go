// Package patternfile reads the patterns that classify replies from TOML files, and has
// the file that comes with the program.
//
// A file is a list of tables [[pattern]], of which the first that matches a reply gives
// its class. All mistakes of a file are reported at once, each with its line.
package patternfile

import (
	_ "embed" // the shipped file
	"fmt"
	"regexp"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/glob"
	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/replies"
)

//go:embed shipped.toml
var shipped []byte

// ShippedName is the name, in messages, of the file that comes with the program.
const ShippedName = "shipped.toml"

// Most is the maximum number of patterns in a file, and of values in a list.
const Most = 1000

// Shipped returns the patterns that come with the program.
func Shipped() []replies.Pattern {
	patterns, err := Parse(ShippedName, shipped)
	if err != nil {
		panic(fmt.Sprintf("the patterns in the program: %v", err)) // a test reads them
	}
	return patterns
}

// ShippedText returns the file that comes with the program.
func ShippedText() string { return string(shipped) }

// keys are those of a [[pattern]].
var keys = []string{"class", "receiver", "code", "status", "words", "text", "source"}

// Parse reads the text of a file. The error is a *tomlfile.Problems.
func Parse(name string, text []byte) ([]replies.Pattern, error) {
	r := reader{file: tomlfile.New(name, text)}
	root := r.file.Parse()
	for _, e := range root.Entries {
		if e.Name != "pattern" || e.Value.Kind != tomlfile.KindList {
			r.complain(e.At, e.Name, "this is not a [[pattern]]", "the file is a list of tables [[pattern]]")
			continue
		}
		if len(e.Value.Items) > Most {
			r.complain(e.At, e.Name, fmt.Sprintf("%d patterns, at most %d are allowed", len(e.Value.Items), Most), "")
			break
		}
		for _, item := range e.Value.Items {
			if item.Kind != tomlfile.KindTable {
				r.complain(item.At, e.Name, "this is "+item.Kind.String()+", not a table", "write [[pattern]] and its keys below it")
				continue
			}
			r.pattern(item.Table)
		}
	}
	r.file.CheckWhole()
	if err := r.file.Problems(); err != nil {
		return nil, err
	}
	return r.patterns, nil
}

type reader struct {
	file     *tomlfile.File
	patterns []replies.Pattern
}

func (r *reader) complain(at tomlfile.Span, key, message, hint string) {
	r.file.Complain(at, tomlfile.Problem{Key: key, Message: message, Hint: hint})
}

func (r *reader) pattern(t *tomlfile.Table) {
	p := replies.Pattern{Where: fmt.Sprintf("%s:%d", r.file.Name(), r.file.Line(t.At))}
	for _, e := range t.Entries {
		switch e.Name {
		case "class":
			each(r, e, func(s string) (err error) {
				var ok bool
				if p.Class, ok = replies.ParseClass(s); !ok {
					err = fmt.Errorf("%q is not a class; they are %s", s, strings.Join(replies.ClassNames(), ", "))
				}
				return err
			})
		case "source":
			each(r, e, func(s string) error { p.Source = s; return nil })
		default:
			if !r.condition(e, &p.Match) {
				hint := ""
				if guess := near.Name(e.Name, keys); guess != "" {
					hint = "did you mean " + guess + "?"
				}
				r.complain(e.At, e.Name, "unknown key; the keys are "+strings.Join(keys, ", "), hint)
			}
		}
	}
	if p.Class == replies.ClassNone && t.Get("class") == nil {
		r.complain(t.At, "pattern", "this pattern gives no class", `add such as class = "policy"`)
	}
	r.patterns = append(r.patterns, p)
}

// condition reads one condition, and reports whether it is one.
func (r *reader) condition(e *tomlfile.Entry, m *replies.Match) bool {
	switch e.Name {
	case "receiver":
		each(r, e, func(s string) error { m.MX = append(m.MX, Receiver(s)); return nil })
	case "code":
		each(r, e, func(s string) error { return collect(&m.Codes, s, replies.ParseCode) })
	case "status":
		each(r, e, func(s string) error { return collect(&m.Statuses, s, replies.ParseStatus) })
	case "words":
		each(r, e, func(s string) error { return collect(&m.Words, s, replies.NewWords) })
	case "text":
		each(r, e, func(s string) error {
			var one []*regexp.Regexp
			err := collect(&one, s, replies.NewText)
			if err == nil {
				m.Text = one[0]
			}
			return err
		})
	default:
		return false
	}
	return true
}

// Receiver returns the pattern of a host's name: .example.com is all below example.com.
func Receiver(text string) glob.Pattern {
	if strings.HasPrefix(text, ".") {
		text = "*" + text
	}
	return glob.New(strings.TrimSuffix(text, "."))
}

func collect[T any](to *[]T, text string, parse func(string) (T, error)) error {
	v, err := parse(text)
	if err == nil {
		*to = append(*to, v)
	}
	return err
}

// each calls set for a text, or for each of a list of texts. A whole number, such as a
// code, is a text, too.
func each(r *reader, e *tomlfile.Entry, set func(string) error) {
	items := []*tomlfile.Node{e.Value}
	if e.Value.Kind == tomlfile.KindList {
		if items = e.Value.Items; len(items) > Most {
			r.complain(e.At, e.Name, fmt.Sprintf("%d values, at most %d are allowed", len(items), Most), "")
			return
		}
	}
	single := e.Name == "class" || e.Name == "source" || e.Name == "text"
	switch {
	case len(items) == 0:
		r.complain(e.At, e.Name, "this list is empty", "leave the key out if any will do")
		return
	case single && e.Value.Kind == tomlfile.KindList:
		r.complain(e.At, e.Name, "this is a list, and must be one text", "")
		return
	}
	for _, n := range items {
		if n.Kind != tomlfile.KindText && (n.Kind != tomlfile.KindInteger || e.Name != "code") {
			r.complain(n.At, e.Name, "this is "+n.Kind.String()+", not text in quotes", "")
			continue
		}
		if n.Text == "" {
			r.complain(n.At, e.Name, "this text is empty", "leave the key out if any will do")
			continue
		}
		if err := set(n.Text); err != nil {
			r.complain(n.At, e.Name, err.Error(), "")
		}
	}
}
