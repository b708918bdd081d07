package migrate

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/header"
)

// headerChecks translates header_checks, those of a cleanup service that a listener has for itself, and
// smtp_header_checks, to header rules.
func (t *translation) headerChecks(listeners []*listener) {
	for _, name := range []string{"header_checks", "smtp_header_checks"} {
		s := t.get(name)
		if s.set && s.text == "" {
			t.notNeeded("No field of headers is looked at", s.line())
		}
		t.checks(s, nonEmpty(s.line()), nil)
		t.otherwise("Nothing in these maps edits a field", s.line())
		if name == "smtp_header_checks" && s.text != "" {
			t.different(s, "Fields are edited when mail arrives, so that what is stored, signed and logged is what is sent.")
		}
	}
	for _, l := range listeners {
		o := t.option(l.service, "cleanup_service_name")
		if !o.set {
			continue
		}
		found := o.text == "cleanup"
		for i := range t.master {
			s := &t.master[i]
			if s.Name != o.text || s.Command != "cleanup" {
				continue
			}
			found = true
			if checks := t.option(s, "header_checks"); checks.set {
				var names []string
				for _, one := range l.tables {
					names = append(names, strings.Trim(one.get("name").value, `"`))
				}
				t.checks(checks, []string{optionLine(l.service, o.Entry), serviceLine(s), optionLine(s, checks.Entry)}, names)
			}
		}
		if !found {
			t.remark(NotUnderstood, fmt.Sprintf("master.cf has no cleanup service %q.", o.text), optionLine(l.service, o.Entry))
		}
		t.otherwise("Nothing is different for mail of these listeners", optionLine(l.service, o.Entry))
	}
	for i := range t.master {
		s := &t.master[i]
		if s.Command != "cleanup" {
			continue
		}
		for _, o := range s.Options {
			if o.Name != "header_checks" {
				t.otherOption(o, optionLine(s, o), true)
			} else {
				t.otherwise("No listener leads to these, or nothing in them edits a field", optionLine(s, o))
			}
		}
		t.otherwise("There are no processes for the parts of the program", serviceLine(s))
	}
}

// checks translates the maps of header checks, which lines of Postfix's files name; listeners are those to
// whose mail they apply, none for all.
func (t *translation) checks(s setting, lines []string, listeners []string) {
	tables, err := maincf.ParseTables(s.text)
	if err != nil {
		t.remark(NotUnderstood, "The value cannot be read: "+err.Error()+".", lines...)
		return
	}
	for _, one := range tables {
		if !one.HasExpressions() {
			t.remark(Lost, fmt.Sprintf("%s: %s. Write a table [[header_rule]] for each field (docs/submission.md).", one.String(), external(one)), slices.Clone(lines)...)
			continue
		}
		file, text, ok := t.read(s, one)
		if !ok {
			continue
		}
		all, wrong := maincf.ParseExpressions(file, text)
		t.understood(wrong)
		for _, e := range all {
			t.check(lines, cut(fmt.Sprintf("%s:%d: /%s/%s %s", path.Base(one.Name), e.Line, e.Pattern, e.Flags, e.Value)), e, listeners)
		}
	}
}

// check translates one expression: those that remove or replace fields of one name, or of a few.
func (t *translation) check(from []string, line string, e maincf.Expression, listeners []string) {
	action, rest, _ := strings.Cut(e.Value, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToUpper(action) {
	case "IGNORE", "STRIP", "REPLACE":
	case "DUNNO", "OK", "":
		t.notNeeded("It leaves fields as they are", line)
		return
	case "REJECT", "DISCARD", "HOLD", "WARN", "INFO", "FILTER", "REDIRECT", "BCC":
		t.remark(Lost, "Mail is not judged by its header; that is for a filter (a milter such as rspamd).", line)
		return
	case "PREPEND":
		t.remark(Lost, "A field is added to all mail of a listener, whatever else is in the header: write a [[header_rule]] with action = \"add\" or \"add-missing\".", line)
		return
	default:
		t.remark(NotUnderstood, fmt.Sprintf("The action %q is not known.", action), line)
		return
	}
	fields, match, ok := fieldsOf(e.Pattern)
	if !ok || e.Not || e.Within || strings.Trim(e.Flags, "i") != "" {
		t.remark(Lost, "The expression does not begin with the name of a field, such as /^Received:/. Write a table [[header_rule]] for each field.", line)
		return
	}
	if match != "" && strings.Count(e.Flags, "i")%2 == 0 {
		match = "(?i)" + match
	}
	if match != "" {
		if _, err := regexp.Compile(match); err != nil {
			t.remark(Lost, "The expression is not one of RE2, which has neither lookarounds nor references: write a table [[header_rule]].", line)
			return
		}
	}
	value := ""
	if strings.ToUpper(action) == "REPLACE" {
		name, after, found := strings.Cut(rest, ":")
		if !found || len(fields) != 1 || !strings.EqualFold(name, fields[0]) {
			t.remark(Lost, "A field is not replaced by one of another name: write two tables [[header_rule]], one that removes and one that adds.", line)
			return
		}
		value = strings.TrimSpace(after)
	}
	for _, field := range fields {
		if strings.EqualFold(field, "Received") && match == "" {
			t.remark(Different, "The Received field that this program adds itself stays, with the address of the client.", line)
		}
		one := t.doc.add("header_rule", append(slices.Clone(from), line)...)
		one.set("field", field)
		if match != "" {
			one.set("match", match)
		}
		if value != "" {
			one.set("action", "replace")
			one.set("value", group.ReplaceAllString(value, "$$${1}${2}${3}"))
		}
		if len(listeners) > 0 {
			one.set("listener", listeners)
			t.named = true
		}
	}
}

// group matches a reference to a group.
var group = regexp.MustCompile(`\$(?:\{(\d+)\}|\((\d+)\)|(\d+))`)

// beginning matches the beginning of an expression about fields of some names.
var beginning = regexp.MustCompile(`^\^(?:\(\?:([A-Za-z0-9|-]+)\)|\(([A-Za-z0-9|-]+)\)|([A-Za-z0-9-]+)):`)

// fieldsOf returns the fields that an expression about a header is for, and the one about their
// values.
func fieldsOf(pattern string) (fields []string, match string, ok bool) {
	m := beginning.FindStringSubmatch(pattern)
	if m == nil {
		return nil, "", false
	}
	for _, name := range strings.Split(m[1]+m[2]+m[3], "|") {
		if !header.IsName([]byte(name)) {
			return nil, "", false
		}
		fields = append(fields, name)
	}
	rest := pattern[len(m[0]):]
	if m[2] != "" && strings.Contains(rest, "(") {
		return nil, "", false // its groups have other numbers
	}
	// The value begins behind the white space.
	for _, space := range []string{`[[:space:]]*`, `[[:space:]]+`, `[ \t]*`, `\s*`, `\s+`, ` *`, ` +`, ` `} {
		if after, found := strings.CutPrefix(rest, space); found {
			rest = after
			break
		}
	}
	switch rest {
	case "", ".*", ".*$", ".", "$":
		return fields, "", true
	}
	if !strings.HasPrefix(rest, ".*") && !strings.HasPrefix(rest, "^") {
		rest = "^" + rest
	}
	return fields, strings.TrimPrefix(rest, ".*"), true
}
