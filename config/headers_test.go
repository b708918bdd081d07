package config

import (
	"strings"
	"testing"
)

// The purpose of a listener decides whether headers are completed and corrected, unless the file
// says otherwise. A rule without listeners applies to all of them.
func TestHeaders(t *testing.T) {
	c := mustParse(t, `[[certificate]]
cert = "/c"
key = "/k"
[[listener]]
address = ":25"
name = "mx"
[[listener]]
address = ":587"
name = "submission"
purpose = "submission"
complete_domain = "example.com"
[[listener]]
address = ":465"
name = "raw"
purpose = "submissions"
fix_header = false
[[header_rule]]
field = "A"
[[header_rule]]
field = "B"
listener = ["mx", "submission_socket"]
`)
	all := c.headers()
	for name, want := range map[string]struct {
		fixes  bool
		domain string
		rules  int
	}{
		"mx": {false, "", 2}, "submission": {true, "example.com", 1}, "raw": {false, "", 1}, "": {false, "", 2}, otherListeners: {false, "", 1},
	} {
		if got := all[name]; got.Submission != want.fixes || got.Domain != want.domain || len(got.Rules) != want.rules {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
	rules, err := c.LoadRewriting()
	if err != nil {
		t.Fatal(err)
	}
	edits, err := c.Edits(rules)
	if err != nil || len(edits.Listeners) != 4 || edits.Others.Header.Idle() {
		t.Errorf("%+v %v", edits, err)
	}
}

// Mistakes in rules are found when the file is read, with their lines and what to do.
func TestHeaderRuleMistakes(t *testing.T) {
	const listener = "[[listener]]\naddress = \":25\"\nname = \"mx\"\n"
	for text, want := range map[string]string{
		"[[header_rule]]\n":                                                                      "1:3: header_rule.1.field: this rule is for no field",
		"[[header_rule]]\nfield = \"A:\"\n":                                                      `2:9: header_rule.1.field: "A:" is not the name of a header field`,
		"[[header_rule]]\nfield = \"A B\"\n":                                                     "is not the name of a header field",
		"[header_rule]\nfield = \"A\"\n":                                                         "write double brackets",
		"[[header_rule]]\nheader = \"A\"\n":                                                      "unknown parameter",
		"[[header_rule]]\nfield = \"A\"\nmatch = \"(\"\n":                                        "3:9: header_rule.1.match: \"(\" cannot be used: error parsing regexp: missing closing )",
		"[[header_rule]]\nfield = \"A\"\nmatch = \"(?<!a)b\"\n":                                  "error parsing regexp",
		"[[header_rule]]\nfield = \"A\"\nvalue = \"x\"\n":                                        "3:9: header_rule.1.value: a field that is removed has no value",
		"[[header_rule]]\nfield = \"A\"\naction = \"add\"\n":                                     "1:3: header_rule.1.value: the value is missing",
		"[[header_rule]]\nfield = \"A\"\naction = \"add\"\nvalue = \"$1\"\n":                     "4:9: header_rule.1.value: \"$1\" names group 1, and match has 0",
		"[[header_rule]]\nfield = \"A\"\naction = \"replace\"\nvalue = \"$2\"\nmatch = \"(y)\"":  "4:9: header_rule.1.value: \"$2\" names group 2, and match has 1",
		"[[header_rule]]\nfield = \"A\"\naction = \"replace\"\nvalue = \"5 $\"\nmatch = \"(y)\"": "names no group",
		"[[header_rule]]\nfield = \"A\"\naction = \"add\"\nvalue = \"é\"\n":                      "printable ASCII",
		"[[header_rule]]\nfield = \"A\"\naction = \"add\"\nvalue = \"x\"\nmatch = \"y\"":         "5:9: header_rule.1.match: a field that is added matches nothing",
		listener + "[[header_rule]]\nfield = \"A\"\nlistener = [\"mxx\"]\n":                      `there is no listener "mxx" (did you mean mx?)`,
		listener + "complete_domain = \"example.com\"\n":                                         "4:19: listener.mx.complete_domain: a server must not complete the addresses of mail that it relays",
	} {
		_, err := Parse("x.toml", []byte(text), testEnvironment)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
