package header

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
)

// An Action is the action of a rule on the fields that it matches.
type Action uint8

const (
	Remove     Action = iota // the field is left out
	Replace                  // the field gets another value
	Add                      // a field is added at the end of the header
	AddMissing               // the same if the header has none of the name
)

// A Rule edits the fields of one name.
type Rule struct {
	Name   string // of the rule, in errors
	Field  string // the fields' name; case does not matter
	Action Action
	// Match is a regular expression (RE2) that occurs in the values of the fields meant, as
	// they are unfolded; "" means all values. It is not for fields that are added.
	Match string
	// Value is that of the field that is added, or that replaces another: $1 and ${1} stand
	// for what the first group of Match has matched, $$ for a dollar sign. One line of
	// printable ASCII.
	Value string
}

// A Config describes the edits of headers. Its zero value has none.
type Config struct {
	// Submission makes the corrections that RFC 6409 8 allows: Date, Message-ID and From are
	// added if they are missing, and Bcc, Resent-Bcc and Return-Path are removed. A header with
	// several From fields, or with one that is not a list of addresses, is refused.
	Submission bool
	// Domain completes addresses: it is appended to one without "@", and to a domain
	// without a dot. "" leaves them alone.
	Domain string
	// Rules are applied to each field in their order, before addresses are completed and
	// rewritten.
	Rules []Rule
	// Rewrite returns the address to write in place of one in a field of addresses. nil
	// leaves all alone. It is called from the goroutines of all editors.
	Rewrite func(k Kind, a mail.Address) mail.Address
}

// Edits are a compiled Config. They do not change, so any number of editors share them.
type Edits struct {
	cfg   Config
	rules []rule
	adds  []*rule // those that add
}

// A rule is a compiled Rule.
type rule struct {
	Rule
	match *regexp.Regexp // nil: every value
	parts []valuePart    // of Value
}

// A valuePart is a part of a Value: text, and the group behind it.
type valuePart struct {
	text  string
	group int // noGroup at the end of a Value
}

const noGroup = -1

// valueMax is the length of the longest Value, in bytes.
const valueMax = 4096

// Compile returns the edits of a Config. The error joins all its mistakes.
func Compile(cfg Config) (*Edits, error) {
	e := &Edits{cfg: cfg, rules: make([]rule, len(cfg.Rules))}
	var wrong mistakes.List
	for i, r := range cfg.Rules {
		e.rules[i].Rule = r
		wrong.AddOf("header rule "+r.Name, e.rules[i].compile())
		if r.Action == Add || r.Action == AddMissing {
			e.adds = append(e.adds, &e.rules[i])
		}
	}
	return e, wrong.Join()
}

func (r *rule) compile() error {
	var wrong mistakes.List
	wrong.Unless(IsName([]byte(r.Field)), "%q is not the name of a header field", r.Field)
	adds := r.Action == Add || r.Action == AddMissing
	wrong.Unless(r.Action <= AddMissing, "no such action: %d", r.Action)
	wrong.Unless(!adds || r.Match == "", "a field that is added matches nothing")
	wrong.Unless(r.Action != Remove || r.Value == "", "a field that is removed gets no value")
	wrong.Unless(r.Action == Remove || strings.TrimSpace(r.Value) != "", "the value is missing")
	wrong.Unless(len(r.Value) <= valueMax, "the value is longer than %d bytes", valueMax)
	wrong.Unless(strings.IndexFunc(r.Value, func(c rune) bool { return c < ' ' || c > '~' }) < 0, "the value has characters other than printable ASCII")
	if r.Match != "" {
		match, err := regexp.Compile(r.Match)
		if err != nil {
			wrong.Add(err)
		}
		r.match = match
	}
	wrong.Add(r.split())
	return wrong.Join()
}

// split divides the value at its groups.
func (r *rule) split() error {
	groups := 0
	if r.match != nil {
		groups = r.match.NumSubexp()
	}
	text, value := "", r.Value
	for {
		before, rest, found := strings.Cut(value, "$")
		text += before
		if !found {
			r.parts = append(r.parts, valuePart{text, noGroup})
			return nil
		}
		digits := strings.TrimPrefix(rest, "{")
		end := len(digits) - len(strings.TrimLeft(digits, "0123456789"))
		digits, value = digits[:end], digits[end:]
		if strings.HasPrefix(rest, "$") {
			text, value = text+"$", rest[1:]
			continue
		}
		if strings.HasPrefix(rest, "{") && !strings.HasPrefix(value, "}") || digits == "" {
			return fmt.Errorf("the $ in %q names no group; write $1, or $$ for a dollar sign", "$"+rest)
		}
		if strings.HasPrefix(rest, "{") {
			value = value[1:]
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n > groups {
			return fmt.Errorf("%q names group %s, and match has %d", "$"+rest, digits, groups)
		}
		r.parts, text = append(r.parts, valuePart{text, n}), ""
	}
}

// Idle reports whether the edits never change anything.
func (e *Edits) Idle() bool {
	return !e.cfg.Submission && e.cfg.Domain == "" && e.cfg.Rewrite == nil && len(e.rules) == 0
}

// wants reports whether a field must be kept until its end, because something may be done
// with it then.
func (e *Edits) wants(name []byte, k Kind) bool {
	if k == KindFrom && e.cfg.Submission || e.addresses(k) {
		return true
	}
	for i := range e.rules {
		if e.rules[i].edits(name) {
			return true
		}
	}
	return false
}

// addresses reports whether addresses in fields of a kind may change.
func (e *Edits) addresses(k Kind) bool {
	return (k.OfSenders() || k.OfRecipients()) && (e.cfg.Domain != "" || e.cfg.Rewrite != nil)
}

// edits reports whether a rule is about fields that the header has under a name.
func (r *rule) edits(name []byte) bool {
	return (r.Action == Remove || r.Action == Replace) && r.names(name)
}

func (r *rule) names(name []byte) bool {
	return len(name) == len(r.Field) && strings.EqualFold(string(name), r.Field)
}

// apply returns the value of a field after the rules, and whether the field stays.
func (e *Edits) apply(name, value []byte) (after []byte, stays bool) {
	for i := range e.rules {
		r := &e.rules[i]
		if !r.edits(name) {
			continue
		}
		found := []int{}
		if r.match != nil {
			if found = r.match.FindSubmatchIndex(value); found == nil {
				continue
			}
		}
		if r.Action == Remove {
			return nil, false
		}
		value = r.expand(value, found)
	}
	return value, true
}

// expand returns the rule's value. Values come from messages, so no line end of theirs gets
// into a field.
func (r *rule) expand(value []byte, found []int) []byte {
	var b []byte
	for _, p := range r.parts {
		b = append(b, p.text...)
		if at := 2 * p.group; p.group != noGroup && at < len(found) && found[at] >= 0 {
			b = append(b, value[found[at]:found[at+1]]...)
		}
	}
	return bytes.TrimSpace(unfold(b))
}
