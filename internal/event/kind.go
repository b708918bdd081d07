package event

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// Version is that of the declarations. It grows when a field or an event is removed or gets another
// meaning or type, and not when one is added. The line "started" has it in the field log_schema.
const Version = 1

// A Type is what the value of a field is.
type Type uint8

// The types. In lines of text all of them are words; Parts have slashes between them there.
const (
	Text    Type = iota + 1 // JSON: a string
	Integer                 // JSON: a number without a fraction
	Number                  // JSON: a number
	Seconds                 // a duration in seconds; JSON: a number
	Parts                   // three durations in seconds; JSON: an array of numbers
	Flag                    // JSON: true or false
	Time                    // RFC 3339; JSON: a string
)

// String returns the word for the documentation.
func (t Type) String() string {
	return [...]string{"", "text", "integer", "number", "seconds", "three times seconds", "true or false", "time"}[t]
}

// A Field is one that an event may have.
type Field struct {
	Name     string
	Type     Type
	Required bool // each event of this kind has it
	Meaning  string
}

// A Kind is a kind of event.
type Kind struct {
	Name    string
	Level   string // of its lines: "info", or two levels with "or" between them
	Meaning string
	Fields  []Field
}

var byName = func() map[string]*Kind {
	all := make(map[string]*Kind, len(kinds))
	for i := range kinds {
		all[kinds[i].Name] = &kinds[i]
	}
	return all
}()

// Kinds returns the declarations.
func Kinds() []Kind { return slices.Clone(kinds) }

// Names returns the names of all events.
func Names() []string {
	all := make([]string, len(kinds))
	for i := range kinds {
		all[i] = kinds[i].Name
	}
	return all
}

// Declared reports whether a line with this message is an event.
func Declared(name string) bool { return byName[name] != nil }

// Check returns what is wrong with an event: a field that is not declared, one of another type, one that
// is there twice, or that is missing. Lines that are not events are right.
func Check(name string, attrs []slog.Attr) error {
	k := byName[name]
	if k == nil {
		return nil
	}
	var wrong []string
	seen := make(map[string]bool, len(attrs))
	for a := range fields(attrs) {
		i := slices.IndexFunc(k.Fields, func(f Field) bool { return f.Name == a.Key })
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Sprintf("%s is not declared", a.Key))
		case !k.Fields[i].Type.has(a.Value):
			wrong = append(wrong, fmt.Sprintf("%s is declared as %v and is of kind %v: %v", a.Key, k.Fields[i].Type, a.Value.Kind(), a.Value))
		case seen[a.Key]:
			wrong = append(wrong, a.Key+" is there twice")
		}
		seen[a.Key] = true
	}
	for _, f := range k.Fields {
		if f.Required && !seen[f.Name] {
			wrong = append(wrong, f.Name+" is missing")
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("event %s: %s", name, strings.Join(wrong, "; "))
	}
	return nil
}

// fields yields attributes, those in groups without a name among them.
func fields(attrs []slog.Attr) func(func(slog.Attr) bool) {
	return func(yield func(slog.Attr) bool) { each(attrs, yield) }
}

func each(attrs []slog.Attr, yield func(slog.Attr) bool) bool {
	for _, a := range attrs {
		switch {
		case a.Equal(slog.Attr{}):
		case a.Value.Kind() == slog.KindGroup && a.Key == "":
			if !each(a.Value.Group(), yield) {
				return false
			}
		case !yield(a):
			return false
		}
	}
	return true
}

// has reports whether a value is of this type.
func (t Type) has(v slog.Value) bool {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString:
		return t == Text
	case slog.KindInt64, slog.KindUint64:
		return t == Integer
	case slog.KindFloat64:
		return t == Number
	case slog.KindDuration:
		return t == Seconds
	case slog.KindBool:
		return t == Flag
	case slog.KindTime:
		return t == Time
	}
	switch v.Any().(type) {
	case *logline.Delays:
		return t == Parts
	case error:
		return t == Text
	}
	return false
}

// fieldText returns the value of a field as text, and whether it is there.
func fieldText(attrs []slog.Attr, name string) (value string, has bool) {
	for a := range fields(attrs) {
		if a.Key == name {
			return a.Value.String(), true
		}
	}
	return "", false
}
