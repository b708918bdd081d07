package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Keys get to package keyring as they are written, days as instants.
func TestDKIMKeys(t *testing.T) {
	c := mustParse(t, `queue_directory = "/q"
dkim_sign_by_sender = true
[dkim.b]
domain = ["Example.com", ".example.com"]
selector = "s1"
key = "b.pem"
valid_from = 2026-11-23
valid_until = "2026-11-24"
tenant = "t"
[dkim.a]
domain = "*"
signing_domain = "Bücher.example"
selector = "s2"
key = "/keys/a.pem"
class = "bulk"
`)
	r := c.Keyring()
	if !r.BySender || len(r.Keys) != 2 || c.DKIMDirectory() != "/q/dkim" {
		t.Fatalf("%+v", r)
	}
	day := mail.Instant(86_400_000_000_000)
	b, a := r.Keys[0], r.Keys[1]
	if b.Name != "b" || strings.Join(b.Domains, " ") != "example.com *.example.com" || b.Domain != "" || b.Selector != "s1" || b.File != filepath.Join("/q", "dkim", "b.pem") ||
		b.From != 20780*day || b.Until != 20782*day || b.Tenants[0] != "t" || b.Classes != nil {
		t.Errorf("%+v", b)
	}
	if a.Domain != "xn--bcher-kva.example" || a.File != "/keys/a.pem" || a.From != 0 || a.Until != 0 || a.Classes[0] != "bulk" {
		t.Errorf("%+v", a)
	}
}

// What is missing in a key, or cannot be meant, is said with its place.
func TestDKIMMistakes(t *testing.T) {
	const whole = "domain = \"x.example\"\nselector = \"s\"\nkey = \"k\"\n"
	for text, want := range map[string]string{
		"[dkim.a]\n": "this key signs for no domain|this key has no selector|this key has no file",
		"[dkim.a]\n" + whole + "selector = \"t\"\n":                                  "set a second time",
		"[dkim.a]\ndomain = \"a@x.example\"\n":                                       `"a@x.example" is not a domain (write the domain alone: "x.example")`,
		"[dkim.a]\ndomain = \"*\"\nselector = \"s\"\nkey = \"k\"\n":                  "signs in the name of one domain",
		"[dkim.a]\n" + whole + "valid_from = 2026-11-24\nvalid_until = 2026-11-23\n": "ends on 2026-11-23, before it begins on 2026-11-24",
		"[dkim.a]\n" + whole + "class = \"bluk\"\n":                                  `there is no class "bluk" (did you mean bulk?)`,
		"[dkim.a]\n" + whole + "[dkim.b]\n" + whole[:len(whole)-3] + "2\"\n":         "[dkim.a] has another key with the same record, s._domainkey.x.example",
		"[dkim.a]\nselector = \"a b\"\n":                                             `"a b" is not a selector`,
		"[dkim]\nselector = \"s\"\n":                                                 "this must be set for a named dkim",
		"[[dkim]]\n" + whole:                                                         "this is one table, not a list",
		"dkim_directory = \"\"\n":                                                    "the path is empty",
		"[dkim.a]\n" + whole + "valid_from = \"soon\"\n":                             "is not a date",
	} {
		_, err := Parse("a.toml", []byte(text), testEnvironment)
		for part := range strings.SplitSeq(want, "|") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s%v\nlacks %q", text, err, part)
			}
		}
	}
	mustParse(t, "[dkim.a]\n"+whole+"[dkim.b]\n"+whole) // one key for two kinds of mail
}

// The level of the line about a message that is not signed.
func TestUnsignedLog(t *testing.T) {
	for word, want := range map[string]string{"info": "INFO true", "warn": "WARN true", "no": "INFO false"} {
		level, ok := mustParse(t, "dkim_log_unsigned = \""+word+"\"\n").DKIM.Unsigned.Level()
		if got := level.String() + map[bool]string{true: " true", false: " false"}[ok]; got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
