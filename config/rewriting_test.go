package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Maps are read from their files, and the rules are those of the parameters.
func TestLoadRewriting(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "canonical", "joe jane.doe\n@old.example @example.com\n")
	write(t, dir, "aliases", "team@example.com a@x.example, b@x.example\n")
	write(t, dir, "expressions", "/^(.*)-bounce@/ $1\n")
	c := mustParse(t, strings.ReplaceAll(`myorigin = "example.com"
user_domains = ["mail.example.com"]
canonical_maps = ["DIR/canonical", "regexp:DIR/expressions"]
canonical_classes = ["envelope_sender"]
masquerade_domains = "example.com"
virtual_alias_maps = "DIR/aliases"
always_bcc = "archive@example.com"
`, "DIR", dir))
	r, err := c.LoadRewriting()
	if err != nil {
		t.Fatal(err)
	}
	sender, _ := r.Sender("joe@mail.example.com")
	bounced, _ := r.Sender("list-bounce@x.example")
	team, _ := r.Expand("team@example.com")
	if sender != "jane.doe@example.com" || bounced != "list@example.com" || len(team) != 2 || r.SenderCopies("")[0] != "archive@example.com" || r.Header("joe@mail.example.com", true) != "joe@example.com" {
		t.Errorf("%s %s %s", sender, bounced, team)
	}
	if none, err := mustParse(t, "").LoadRewriting(); err != nil || !none.Idle() {
		t.Errorf("without maps: %v", err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Mistakes in all files are found at once, with the parameter, the file and the line.
func TestLoadRewritingRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "canonical", "a b@c.example d@e.example\nalone\n")
	write(t, dir, "aliases", "a |/bin/sh\n")
	write(t, dir, "expressions", "/(/ a\n")
	c := mustParse(t, strings.ReplaceAll(`canonical_maps = ["DIR/canonical", "DIR"]
virtual_alias_maps = ["DIR/aliases", "DIR/missing"]
sender_bcc_maps = "regexp:DIR/expressions"
`, "DIR", dir))
	_, err := c.LoadRewriting()
	for _, want := range []string{
		"canonical_maps: " + dir + "/canonical:1: there are 2 addresses", dir + `/canonical:2: "alone" has no value`, "canonical_maps: " + dir + " is not a file",
		"virtual_alias_maps: " + dir + `/aliases:1: "|/bin/sh" is a program`, "virtual_alias_maps: open " + dir + "/missing: no such file",
		"sender_bcc_maps: " + dir + "/expressions:1: the expression cannot be used",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

// What main.cf has does not always fit: the message says what to write.
func TestMapMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`canonical_maps = "hash:/etc/postfix/canonical"`: `write "/etc/postfix/canonical"`,
		`canonical_maps = "pcre:/etc/postfix/x"`:         `write "regexp:/etc/postfix/x"`,
		`canonical_maps = "mysql:/etc/x.cf"`:             "is a type of map that does not exist here",
		`canonical_maps = "canonical"`:                   "is not an absolute path",
		`canonical_classes = ["sender"]`:                 "envelope_sender",
		`masquerade_exceptions = "root@example.com"`:     "is not the name of a user",
		`masquerade_domains = "a b@c"`:                   "is not a domain",
		`recipient_delimiter = "+-"`:                     "is not one character",
		`always_bcc = "archive"`:                         "there is no domain in it",
		"virtual_alias_expansion_limit = 0":              "virtual_alias_expansion_limit",
	} {
		if _, err := Parse("x.toml", []byte(text+"\n"), testEnvironment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// Routes by sender get to package route as they are written, and the core learns that routes
// depend on senders.
func TestSenderRoutes(t *testing.T) {
	c := mustParse(t, "[routes]\n\"b.example\" = \"relay:\"\n\"/z/\" = \"relay:\"\n\"/a/\" = \"relay:\"\n[sender_routes]\n\"<>\" = \"relay:[x]\"\n\"/^list-/\" = \"relay:\"\n")
	r := c.Route()
	if strings.Join(r.Rules, "; ") != "b.example relay:; /z/ relay:; /a/ relay:" || strings.Join(r.SenderRules, "; ") != "<> relay:[x]; /^list-/ relay:" || !c.Driver().Qmgr.RoutesBySender {
		t.Errorf("%q %q", r.Rules, r.SenderRules)
	}
	if mustParse(t, "[routes]\n\"b.example\" = \"relay:\"\n").Driver().Qmgr.RoutesBySender {
		t.Error("routes depend on senders without a reason")
	}
	for text, want := range map[string]string{
		"[routes]\n\"<>\" = \"relay:\"\n":                               "x.toml:2:",
		"[sender_routes]\n\"/(/\" = \"relay:\"\n":                       "missing closing )",
		"[sender_routes]\n\"a.example\" = \"rely:\"\n":                  `there is no transport "rely"`,
		"[sender_routes]\n\"a.b\" = \"relay:\"\n\"A.b\" = \"relay:\"\n": "there is a route for the same senders in line 2",
	} {
		if _, err := Parse("x.toml", []byte(text), testEnvironment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
