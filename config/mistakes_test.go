package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// A mistake is a line of a configuration file with something wrong in it.
type mistake struct {
	what  string
	key   string // what the line sets, if not the parameter under test
	value string // as written
	given string // what a message must name; "" for the value as written
	hint  string // a part of the hint that there must be; "" if there need be none
}

// Every parameter explains every mistake that people make: in one line, as logs show
// it, the message names the file, the line, the parameter, what was given, and what is
// allowed or was meant. A plain run tries a fifth of them, in each parameter others, and
// the stage random of .ci/run all.
func TestMistakesInEveryParameter(t *testing.T) {
	t.Parallel()
	all := Parameters()
	tried := 0
	for _, p := range all {
		for _, m := range slices.Concat(mistypings(p, all), wrongTypes(p), outOfRange(p), wrongTexts(p)) {
			if tried++; tried%17 == 0 || golden.Runs(0) > 0 {
				explained(t, p, m)
			}
		}
		duplicate(t, p)
		misplaced(t, p)
	}
	if tried < 20*len(all) {
		t.Errorf("only %d mistakes in %d parameters", tried, len(all))
	}
	t.Logf("%d mistakes in %d parameters", tried, len(all))
}

// explained checks the message about one mistake.
func explained(t *testing.T, p Parameter, m mistake) {
	t.Helper()
	name := p.Name
	if m.key != "" {
		name = m.key
	}
	table, full := tableOf(p), name
	text := "# a comment\n"
	if header, known, of := listed(p); header != "" {
		text += header + known
		full = of + "." + name
	} else if table != "" {
		text += "[" + table + "]\n"
		full = table + "." + name
	}
	if p.Table == tableDestination && p.Name != "domains" {
		text += "domains = [\"a.test\"]\n"
	} else if p.Table == tableDestination {
		text += "mx = [\"a.test\"]\n"
	}
	switch {
	case p.Table == tableTenant && p.Name == "client":
		text += "user = [\"x\"]\n"
	case p.Table == tableTenant:
		text += "client = [\"192.0.2.1\"]\n"
	case p.Table == tableSource && p.Name != "address":
		text += "address = [\"192.0.2.1\"]\n"
	case p.Name == "max_share":
		text += "priority = \"strict\"\n"
	}
	text += name + " = " + m.value + "\n"
	line := strings.Count(text, "\n")
	_, err := Parse("typo.toml", []byte(text), testEnvironment)
	var problems *tomlfile.Problems
	if !errors.As(err, &problems) {
		t.Errorf("%s: %s = %s is accepted: %v", m.what, full, m.value, err)
		return
	}
	checkProblems(t, []byte(text), problems)
	one := problems.List[0]
	said := one.Error()
	given := m.given
	if given == "" {
		given = strings.Trim(m.value, `"'`)
	}
	switch {
	case one.File != "typo.toml", one.Line != line, !strings.HasPrefix(said, fmt.Sprintf("typo.toml:%d:", line)):
		t.Errorf("%s: %s = %s: the place is wrong: %s", m.what, full, m.value, said)
	case one.Key != full:
		t.Errorf("%s: %s = %s: the key is %q", m.what, full, m.value, one.Key)
	case !strings.Contains(said, given):
		t.Errorf("%s: %s = %s: the value is not named: %s", m.what, full, m.value, said)
	case m.hint != "" && !strings.Contains(one.Hint, m.hint) && !asNear(given, m.hint, one.Hint):
		t.Errorf("%s: %s = %s: no hint %q: %s", m.what, full, m.value, m.hint, said)
	case m.key == "" && !strings.Contains(said, p.Allowed):
		t.Errorf("%s: %s = %s: what is allowed (%s) is not named: %s", m.what, full, m.value, p.Allowed, said)
	}
}

// listed returns the header of a list of tables, other parameters that a table in it has,
// and its full name; "" for parameters of other tables.
func listed(p Parameter) (header, known, full string) {
	switch {
	case p.Table == tableCertificate && p.Name == "cert":
		return "[[certificate]]\n", "key = \"/k\"\n", "certificate.1"
	case p.Table == tableCertificate:
		return "[[certificate]]\n", "cert = \"/c\"\n", `certificate."/c"`
	case p.Table == tableHeaderRule:
		return "[[header_rule]]\n", map[bool]string{true: "", false: "field = \"A\"\n"}[p.Name == "field"], "header_rule.1"
	case p.Table == tableFeedback:
		return "[[feedback]]\n", "", "feedback.1"
	case p.Table == tableMilter && p.Name == "address":
		return "[[milter]]\n", "name = \"x\"\n", "milter.x"
	case p.Table == tableMilter && p.Name == "name":
		return "[[milter]]\n", "address = \"inet:h:1\"\n", "milter.\"inet:h:1\""
	case p.Table == tableMilter:
		return "[[milter]]\n", "name = \"x\"\naddress = \"inet:h:1\"\n", "milter.x"
	case p.Table == tableListener && p.Name == "name":
		return "[[listener]]\n", "address = \":25\"\n", `listener."[::]:25"`
	case p.Table == tableListener && p.Name == "address":
		return "[[listener]]\n", "name = \"x\"\n", "listener.x"
	case p.Table == tableListener:
		return "[[listener]]\n", "name = \"x\"\naddress = \":25\"\n", "listener.x"
	}
	return "", "", ""
}

// asNear reports whether a hint names something that is as near to what was given as what
// was meant.
func asNear(given, meant, hint string) bool {
	guess, _, _ := strings.Cut(strings.TrimPrefix(hint, "did you mean "), "?")
	return slices.Contains(near.Names(given, []string{guess, meant}, 1), guess)
}

// tableOf returns the header of the table that a parameter is in.
func tableOf(p Parameter) string {
	if namesTables(p.Table) {
		return p.Table + ".x"
	}
	return p.Table
}

// mistypings are misspelled names of a parameter: a letter too few, one too many, two
// exchanged, a hyphen.
func mistypings(p Parameter, all []Parameter) (list []mistake) {
	add := func(key string) {
		real := slices.ContainsFunc(all, func(o Parameter) bool { return o.Name == key })
		_, foreign := Foreign(key)
		if key != p.Name && !real && !foreign {
			list = append(list, mistake{what: "misspelled", key: key, value: "1", given: key, hint: p.Name})
		}
	}
	n := p.Name
	for i := 1; i < len(n); i += 3 {
		add(n[:i] + n[i+1:])
		add(n[:i] + n[i:i+1] + n[i:])
		if i+1 < len(n) {
			add(n[:i] + n[i+1:i+2] + n[i:i+1] + n[i+2:])
		}
	}
	add(strings.ReplaceAll(n, "_", "-"))
	add(n + "s")
	return list
}

func wrongTypes(p Parameter) (list []mistake) {
	for what, value := range map[string]string{"table": "{}", "date": "1979-05-27", "tables": "[[]]", "float": "1.5e3", "bool": "true", "list": "[true]"} {
		m := mistake{what: what, value: value}
		switch what {
		case "table", "tables", "list":
			m.given = "a " // it has no words of its own
		case "date":
			if p.Type == "date" {
				continue
			}
		case "bool":
			if p.Type == "true or false" || strings.Contains(p.Allowed, "true or false") {
				continue
			}
		}
		list = append(list, m)
	}
	return list
}

var (
	rangeBoth = regexp.MustCompile(`^from (\S+) to ([^\s,]+)`)
	rangeLow  = regexp.MustCompile(`^at least ([^\s,]+)`)
	rangeHigh = regexp.MustCompile(`^at most ([^\s,]+)`)
)

// outOfRange are values next to the ends of a parameter's range, and negative ones.
func outOfRange(p Parameter) (list []mistake) {
	var low, high string
	if m := rangeBoth.FindStringSubmatch(p.Range); m != nil {
		low, high = m[1], m[2]
	} else if m := rangeLow.FindStringSubmatch(p.Range); m != nil {
		low = m[1]
	} else if m := rangeHigh.FindStringSubmatch(p.Range); m != nil {
		high = m[1]
	}
	zero := strings.Contains(p.Range, "0 means") || strings.Contains(p.Range, "or 0 for")
	switch p.Type {
	case "whole number", "percentage":
		var n int
		if _, err := fmt.Sscan(low, &n); err == nil && (n != 1 || !zero) {
			list = append(list, mistake{what: "too small", value: fmt.Sprint(n - 1)})
		}
		if _, err := fmt.Sscan(high, &n); err == nil && (n != -1 || !zero) {
			list = append(list, mistake{what: "too large", value: fmt.Sprint(n + 1)})
		}
		if !strings.HasPrefix(low, "-") {
			list = append(list, mistake{what: "negative", value: "-1"})
		}
		list = append(list, mistake{what: "too large", value: "9223372036854775807"},
			mistake{what: "too large", value: "99999999999999999999"}, mistake{what: "in quotes", value: `"7"`})
	case "time":
		if d, err := ParseDuration(low, time.Second); err == nil && d > 1 {
			list = append(list, mistake{what: "too short", value: fmt.Sprintf("%q", FormatDuration(d-1))})
		}
		if d, err := ParseDuration(high, time.Second); err == nil && high != "" {
			list = append(list, mistake{what: "too long", value: fmt.Sprintf("%q", FormatDuration(d+1))})
		}
		list = append(list, mistake{what: "negative", value: `"-5s"`}, mistake{what: "negative", value: "-5"},
			mistake{what: "too long", value: `"99999w"`}, mistake{what: "too long", value: "9223372036854775807"})
	case "size":
		if n, err := ParseSize(low); err == nil && n > 0 && (n != 1 || !zero) {
			list = append(list, mistake{what: "too small", value: fmt.Sprint(n - 1)})
		}
		if n, err := ParseSize(high); err == nil {
			list = append(list, mistake{what: "too large", value: fmt.Sprint(n + 1)})
		}
		list = append(list, mistake{what: "negative", value: `"-5M"`}, mistake{what: "negative", value: "-5"}, mistake{what: "too large", value: `"99999999999G"`})
	}
	return list
}

// wrongTexts are texts that are invalid for a parameter: empty, with a wrong unit, a
// misspelled word.
func wrongTexts(p Parameter) (list []mistake) {
	switch p.Type {
	case "whole number", "percentage", "true or false":
		list = append(list, mistake{what: "empty", value: `""`, given: `""`}, mistake{what: "word", value: `"many"`}, mistake{what: "unit", value: `"5 m"`})
	case "time":
		list = append(list, mistake{what: "empty", value: `""`, given: `""`}, mistake{what: "unit", value: `"5x"`}, mistake{what: "unit", value: `"5 minutes"`},
			mistake{what: "fraction", value: `"1.5h"`}, mistake{what: "word", value: `"never"`}, mistake{what: "two units", value: `"5m3"`})
	case "size":
		list = append(list, mistake{what: "empty", value: `""`, given: `""`}, mistake{what: "unit", value: `"5X"`}, mistake{what: "unit", value: `"5 M"`}, mistake{what: "unit", value: `"5MB"`})
	case "word":
		list = append(list, mistake{what: "empty", value: `""`, given: `""`}, mistake{what: "word", value: `"no-such-word"`})
		for _, word := range strings.Split(strings.ReplaceAll(p.Allowed, " or ", ", "), ", ") {
			if len(word) > 3 {
				list = append(list, mistake{what: "misspelled", value: fmt.Sprintf("%q", word[:1]+word[2:]), hint: word})
			}
		}
	}
	return list
}

// duplicate sets a parameter twice.
func duplicate(t *testing.T, p Parameter) {
	t.Helper()
	text := ""
	if table := tableOf(p); table != "" {
		text = "[" + table + "]\n"
	}
	first := strings.Count(text, "\n") + 1
	text += p.Name + " = 1\n" + p.Name + " = 2\n"
	_, err := Parse("typo.toml", []byte(text), testEnvironment)
	var problems *tomlfile.Problems
	if !errors.As(err, &problems) || !slices.ContainsFunc(problems.List, func(one tomlfile.Problem) bool {
		return one.Line == first+1 && strings.Contains(one.Error(), p.Name) && strings.Contains(one.Error(), fmt.Sprint("line ", first))
	}) {
		t.Errorf("%s, set twice: %v", p.Name, err)
	}
}

// misplaced sets a parameter in each table that it is not part of.
func misplaced(t *testing.T, p Parameter) {
	t.Helper()
	for _, table := range []string{"", "spool", "dns", "log", "transport.x", "destination.x", "routes"} {
		kind, _, _ := strings.Cut(table, ".")
		if kind == p.Table || slices.Contains(namesOf(kind), p.Name) {
			continue
		}
		text := p.Name + " = 1\n"
		if kind == tableDestination {
			text = "domains = [\"a.test\"]\n" + text
		}
		if table != "" {
			text = "[" + table + "]\n" + text
		}
		_, err := Parse("typo.toml", []byte(text), testEnvironment)
		var problems *tomlfile.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s.%s in [%s] is accepted: %v", p.Table, p.Name, table, err)
			continue
		}
		one := problems.List[0]
		if want := "[" + p.Table; one.Hint == "" || p.Table != "" && !strings.Contains(one.Hint, want) && !strings.Contains(one.Hint, p.Name) {
			t.Errorf("%s.%s in [%s]: no hint where it belongs: %s", p.Table, p.Name, table, one.Error())
		}
	}
}
