package scenario

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/sim"
)

// A field is a key of a table: what it sets, and what values it allows.
type field struct {
	name    string
	allowed string
	set     func(n *tomlfile.Node) *flaw
}

// A flaw is why a value cannot be used. A nil flaw is none.
type flaw struct {
	message, hint string
}

func flawf(format string, args ...any) *flaw { return &flaw{message: fmt.Sprintf(format, args...)} }

// fields sets the fields of a table, and complains about unknown keys. where is the
// table's name, "" for the top.
func (l *loader) fields(where string, t *tomlfile.Table, fields []field) {
	for _, e := range t.Entries {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.Name })
		if i < 0 {
			l.unknown(where, e, fields)
			continue
		}
		if f := fields[i].set(e.Value); f != nil {
			l.Complain(e.Value.At, tomlfile.Problem{Key: join(where, e.Name), Message: f.message, Allowed: fields[i].allowed, Hint: f.hint})
		}
	}
}

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

func (l *loader) unknown(where string, e *tomlfile.Entry, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	p := tomlfile.Problem{Key: join(where, e.Name), Message: "there is no such key", Hint: "the keys here are " + strings.Join(names, ", ")}
	if guess := near.Name(e.Name, names); guess != "" {
		p.Hint = "did you mean " + guess + "?"
	}
	l.Complain(e.At, p)
}

func mismatch(n *tomlfile.Node, want string) *flaw { return flawf("this is %v, not %s", n.Kind, want) }

func textField(name, allowed string, to *string) field {
	return field{name, allowed, func(n *tomlfile.Node) *flaw {
		if n.Kind != tomlfile.KindText {
			return mismatch(n, "text")
		}
		*to = n.Text
		return nil
	}}
}

func flagField(name string, to *bool) field {
	return field{name, "true or false", func(n *tomlfile.Node) *flaw {
		if n.Kind != tomlfile.KindBool {
			return mismatch(n, "true or false")
		}
		*to = n.Text == "true"
		return nil
	}}
}

func countField[N int | int64 | uint64](name string, low, high int64, to *N) field {
	allowed := fmt.Sprintf("a whole number from %d to %d", low, high)
	return field{name, allowed, func(n *tomlfile.Node) *flaw {
		v, f := count(n, low, high)
		if f == nil {
			*to = N(v)
		}
		return f
	}}
}

func count(n *tomlfile.Node, low, high int64) (int64, *flaw) {
	if n.Kind != tomlfile.KindInteger {
		return 0, mismatch(n, "a whole number")
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.Text, "_", ""), 0, 64)
	switch {
	case err != nil:
		return 0, flawf("%s is too large", n.Text)
	case v < low:
		return 0, flawf("%d is less than %d", v, low)
	case v > high:
		return 0, flawf("%d is more than %d", v, high)
	}
	return v, nil
}

func numberField(name string, low, high float64, to *float64) field {
	return field{name, fmt.Sprintf("a number from %g to %g", low, high), func(n *tomlfile.Node) *flaw {
		if n.Kind != tomlfile.KindInteger && n.Kind != tomlfile.KindFloat {
			return mismatch(n, "a number")
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64)
		if err != nil || math.IsNaN(v) || v < low || v > high {
			return flawf("%s is not from %g to %g", n.Text, low, high)
		}
		*to = v
		return nil
	}}
}

const timeForm = `a time such as "90s", "250ms" or "1h30m", or a number of seconds`

func timeField(name string, to *time.Duration) field {
	return field{name, timeForm, func(n *tomlfile.Node) (f *flaw) {
		*to, f = duration(n)
		return f
	}}
}

func duration(n *tomlfile.Node) (time.Duration, *flaw) {
	if n.Kind != tomlfile.KindText && n.Kind != tomlfile.KindInteger {
		f := mismatch(n, "a time")
		if n.Kind == tomlfile.KindFloat {
			f.hint = "there are no fractions of a unit; use a smaller one"
		}
		return 0, f
	}
	return durationText(n.Text)
}

func durationText(text string) (time.Duration, *flaw) {
	d, err := config.ParseDuration(strings.TrimSpace(text), time.Second)
	if err != nil {
		return 0, flawf("%v", err)
	}
	return d, nil
}

const spreadForm = `a time such as "90s"; a range such as "900ms..1100ms"; "exponential 1s" (its mean); "lognormal 1s 0.5" (its median and the deviation of its logarithm)`

func spreadField(name string, to *sim.Spread) field {
	return field{name, spreadForm, func(n *tomlfile.Node) (f *flaw) {
		if n.Kind != tomlfile.KindText && n.Kind != tomlfile.KindInteger {
			return mismatch(n, "a time or a distribution of times")
		}
		*to, f = spread(n.Text)
		return f
	}}
}

func spread(text string) (sim.Spread, *flaw) {
	words := strings.Fields(text)
	low, high, ranged := strings.Cut(text, "..")
	switch {
	case ranged:
		from, f := durationText(low)
		if f != nil {
			return sim.Spread{}, f
		}
		to, f := durationText(high)
		if f != nil {
			return sim.Spread{}, f
		}
		if to < from {
			return sim.Spread{}, flawf("%s is less than %s", strings.TrimSpace(high), strings.TrimSpace(low))
		}
		return sim.Uniform(from, to), nil
	case len(words) == 2 && words[0] == "exponential":
		d, f := durationText(words[1])
		return sim.Exponential(d), f
	case len(words) == 3 && words[0] == "lognormal":
		d, f := durationText(words[1])
		sigma, err := strconv.ParseFloat(words[2], 64)
		if f == nil && (err != nil || !(sigma >= 0 && sigma <= 5)) {
			f = flawf("%q is not a number from 0 to 5", words[2])
		}
		return sim.LogNormal(d, sigma), f
	case len(words) > 1:
		f := flawf("%q is not a distribution", text)
		if guess := near.Name(words[0], []string{"exponential", "lognormal"}); guess != "" {
			f.hint = "did you mean " + guess + "?"
		}
		return sim.Spread{}, f
	}
	d, f := durationText(text)
	return sim.Fixed(d), f
}

// A word is a name for a value.
type word[T any] struct {
	text  string
	value T
}

func wordField[T any](name string, to *T, words ...word[T]) field {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = w.text
	}
	quoted := `"` + strings.Join(names, `", "`) + `"`
	return field{name, "one of " + quoted, func(n *tomlfile.Node) *flaw {
		if n.Kind != tomlfile.KindText {
			return mismatch(n, "a word")
		}
		i := slices.Index(names, n.Text)
		if i < 0 {
			f := flawf("%q is not one of the words", n.Text)
			if guess := near.Name(n.Text, names); guess != "" {
				f.hint = fmt.Sprintf("did you mean %q?", guess)
			}
			return f
		}
		*to = words[i].value
		return nil
	}}
}

// listField reads a list of one kind of value; a single value is a list of one.
func listField[T any](name, allowed string, to *[]T, read func(n *tomlfile.Node) (T, *flaw)) field {
	return field{name, allowed, func(n *tomlfile.Node) *flaw {
		items := n.Items
		if n.Kind != tomlfile.KindList {
			items = []*tomlfile.Node{n}
		}
		*to = nil
		for _, item := range items {
			v, f := read(item)
			if f != nil {
				return f
			}
			*to = append(*to, v)
		}
		return nil
	}}
}

// tableField is a key that must be a table.
func tableField(name string, read func(t *tomlfile.Table)) field {
	return field{name, "a table: [" + name + "]", func(n *tomlfile.Node) *flaw {
		if n.Kind != tomlfile.KindTable {
			return &flaw{fmt.Sprintf("this is %v, not a table", n.Kind), "write its keys under [" + name + "]"}
		}
		read(n.Table)
		return nil
	}}
}

// tablesField is a key that must be a list of tables. where is the table that it
// is a key of.
func tablesField(where, name string, read func(t *tomlfile.Table)) field {
	header := "[[" + join(where, name) + "]]"
	return field{name, "a list of tables: " + header, func(n *tomlfile.Node) *flaw {
		if n.Kind == tomlfile.KindTable {
			return &flaw{"this is one table, not a list of tables", "write double brackets: " + header}
		}
		for _, item := range n.Items {
			if item.Kind != tomlfile.KindTable {
				return mismatch(item, "a table")
			}
		}
		if n.Kind != tomlfile.KindList {
			return mismatch(n, "a list of tables")
		}
		for _, item := range n.Items {
			read(item.Table)
		}
		return nil
	}}
}

// rangeField reads a number, or two with ".." between them.
func rangeField(name string, low, high int64, from, to *int) field {
	allowed := fmt.Sprintf(`a whole number from %d to %d, or a range such as "1..5"`, low, high)
	return field{name, allowed, func(n *tomlfile.Node) *flaw {
		if n.Kind == tomlfile.KindInteger {
			v, f := count(n, low, high)
			*from, *to = int(v), int(v)
			return f
		}
		first, last, ranged := strings.Cut(n.Text, "..")
		if n.Kind != tomlfile.KindText || !ranged {
			return mismatch(n, "a number or a range")
		}
		a, err1 := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
		b, err2 := strconv.ParseInt(strings.TrimSpace(last), 10, 64)
		if cmp.Or(err1, err2) != nil || a < low || b > high || a > b {
			return flawf("%q is not a range within %d..%d", n.Text, low, high)
		}
		*from, *to = int(a), int(b)
		return nil
	}}
}
