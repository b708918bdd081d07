package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// expansion matches a reference that main.cf replaces by another parameter's value.
var expansion = regexp.MustCompile(`\$[({]?[A-Za-z_]+`)

// readText reads any text.
func readText(n *tomlfile.Node, want string) (string, *flaw) {
	if n.Kind != tomlfile.KindText {
		f := mismatch(n, want)
		if n.Kind == tomlfile.KindInteger || n.Kind == tomlfile.KindFloat || n.Kind == tomlfile.KindBool {
			f.hint = "write it in quotes: " + tomlfile.QuoteText(n.Text)
		}
		return "", f
	}
	if found := expansion.FindString(n.Text); found != "" {
		return "", &flaw{message: fmt.Sprintf("%s is not expanded: parameters cannot refer to others", found), hint: "write the value itself"}
	}
	if i := strings.IndexFunc(n.Text, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return "", &flaw{message: fmt.Sprintf("there is a control character %q in it", n.Text[i])}
	}
	return n.Text, nil
}

// text is a text that check, unless it is nil, validates.
func text(name, form string, check func(string) (message, hint string)) kind[string] {
	return kind[string]{
		name:  name,
		form:  form,
		plain: func(s string) any { return s },
		read: func(n *tomlfile.Node) (string, *flaw) {
			s, f := readText(n, withArticle(name))
			if f != nil || check == nil {
				return s, f
			}
			if message, hint := check(s); message != "" {
				return "", &flaw{message: message, hint: hint}
			}
			return s, nil
		},
	}
}

// optional is k with the empty text as an additional value.
func optional(k kind[string], empty string) kind[string] {
	inner := k.read
	k.limits = `or "" ` + empty
	k.read = func(n *tomlfile.Node) (string, *flaw) {
		if n.Kind == tomlfile.KindText && n.Text == "" {
			return "", nil
		}
		return inner(n)
	}
	return k
}

// A word is one of the values of a parameter with a fixed set of them.
type word[T comparable] struct {
	name  string
	value T
}

// words is a parameter with a fixed set of named values.
func words[T comparable](all ...word[T]) kind[T] {
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.name
	}
	return kind[T]{
		name:   "word",
		form:   strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1],
		closed: true,
		plain: func(v T) any {
			i := slices.IndexFunc(all, func(w word[T]) bool { return w.value == v })
			if i < 0 {
				return fmt.Sprint(v)
			}
			return all[i].name
		},
		read: func(n *tomlfile.Node) (none T, f *flaw) {
			s, f := readText(n, "a word")
			if f != nil {
				return none, f
			}
			if i := slices.Index(names, s); i >= 0 {
				return all[i].value, nil
			}
			return none, &flaw{message: tomlfile.QuoteText(s) + " is not one of the allowed words", hint: didYouMean(s, names)}
		},
	}
}

// list is any number of values: a list, or one text that separates them with
// commas or spaces, as in main.cf.
func list[T any](item kind[T], name string) kind[[]T] {
	return kind[[]T]{
		name:   "list of " + name,
		limits: item.limits,
		form:   item.form,
		plain: func(all []T) any {
			texts := make([]string, len(all))
			for i, v := range all {
				texts[i] = fmt.Sprint(item.plain(v))
			}
			return texts
		},
		read: func(n *tomlfile.Node) ([]T, *flaw) {
			if n.Kind != tomlfile.KindList && n.Kind != tomlfile.KindText {
				f := mismatch(n, "a list")
				if n.Kind == tomlfile.KindInteger {
					f.hint = "write [" + tomlfile.QuoteText(n.Text) + "]"
				}
				return nil, f
			}
			all := []T{}
			var flaws *flaw
			for _, one := range pieces(n) {
				v, f := item.read(one)
				if f != nil {
					if f.at == (tomlfile.Span{}) {
						f.at = one.At
					}
					f.next, flaws = flaws, f
				}
				all = append(all, v)
			}
			return all, flaws
		},
	}
}

// pieces returns the values of a list, or those in a text.
func pieces(n *tomlfile.Node) []*tomlfile.Node {
	if n.Kind == tomlfile.KindList {
		return n.Items
	}
	var all []*tomlfile.Node
	rest, offset := n.Text, 0
	for {
		skipped := len(rest) - len(strings.TrimLeft(rest, ", \t"))
		rest, offset = rest[skipped:], offset+skipped
		if rest == "" {
			return all
		}
		length := strings.IndexAny(rest, ", \t")
		if length < 0 {
			length = len(rest)
		}
		one := &tomlfile.Node{Kind: tomlfile.KindText, At: n.At, Text: rest[:length]}
		if n.At.End-n.At.Start == len(n.Text)+len(`""`) { // no escapes: offsets are those of the file
			one.At.Start = n.At.Start + 1 + offset
			one.At.End = one.At.Start + length
		}
		all = append(all, one)
		rest, offset = rest[length:], offset+length
	}
}

// footer is a text of any number of lines.
func footer() kind[string] {
	return kind[string]{
		name:  "text",
		form:  `lines are separated by \n`,
		plain: func(s string) any { return s },
		read: func(n *tomlfile.Node) (string, *flaw) {
			if n.Kind != tomlfile.KindText {
				_, f := readText(n, "a text")
				return "", f
			}
			s := strings.ReplaceAll(n.Text, "\r\n", "\n")
			if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }); i >= 0 {
				return "", &flaw{message: fmt.Sprintf("there is a control character %q in it", s[i])}
			}
			return s, nil
		},
	}
}

// schedulers are the scheduling algorithms. Those of Postfix can also be given by
// the names of its programs.
func schedulers() kind[qmgr.Scheduler] {
	return words(
		word[qmgr.Scheduler]{"preemptive", qmgr.Preemptive}, word[qmgr.Scheduler]{"round-robin", qmgr.RoundRobin}, word[qmgr.Scheduler]{"runner", qmgr.Runner},
		word[qmgr.Scheduler]{"qmgr", qmgr.Preemptive}, word[qmgr.Scheduler]{"oqmgr", qmgr.RoundRobin})
}

// feedback is the weight of one delivery.
func feedback() kind[window.Feedback] {
	return kind[window.Feedback]{
		name: "feedback", closed: true,
		form:  `a number from 0 to 1, a fraction such as "1/8", "1/concurrency" or "1/sqrt_concurrency", or "level"`,
		plain: func(f window.Feedback) any { return f.String() },
		read: func(n *tomlfile.Node) (window.Feedback, *flaw) {
			if n.Kind != tomlfile.KindText && n.Kind != tomlfile.KindInteger && n.Kind != tomlfile.KindFloat {
				return window.Feedback{}, mismatch(n, "feedback")
			}
			v, err := window.ParseFeedback(n.Text)
			if err != nil {
				reason, _, _ := strings.Cut(err.Error(), ";") // form has the rest
				return v, &flaw{message: reason}
			}
			return v, nil
		},
	}
}
