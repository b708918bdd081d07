package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Tables get to package verp in their order, with what is set for all.
func TestVERPRules(t *testing.T) {
	c := mustParse(t, `verp_secret_file = "/s"
default_verp_delimiters = "-="
[verp.otp]
sender = "otp@*"
delimiters = ""
[verp.club]
tenant = "club*"
delimiters = "=+"
tags = false
[verp.bulk]
class = "bulk"
flow = "*@shop.example"
`)
	rules := c.VERPRules()
	for _, row := range []struct {
		class, tenant, flow string
		sender              mail.Address
		want                string
	}{
		{"bulk", "club-1", "x@shop.example", "otp@shop.example", ""}, {"bulk", "club-1", "x@shop.example", "x@shop.example", "=+"},
		{"bulk", "t", "x@shop.example", "x@shop.example", "-=tag"}, {"bulk", "t", "x@other.example", "x@other.example", ""}, {"normal", "t", "x@shop.example", "x@shop.example", ""},
	} {
		if got := rules.Choose(&mail.Flow{Class: row.class, Tenant: row.tenant, Flow: row.flow}, row.sender); got.String() != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
	if got := mustParse(t, "[verp.x]\nsender = \"a@*\"\n").VERPRules().Choose(&mail.Flow{}, "a@b.example"); got.String() != "+=" {
		t.Errorf("without secrets %v", got)
	}
	if !c.Flows().Dash || mustParse(t, "").Flows().Dash {
		t.Error("the delimiter is not known to the flows")
	}
}

// XVERP is for no client, or for those that are named, for all listeners or for one.
func TestXVERPTerms(t *testing.T) {
	c := mustParse(t, `listen = ":25"
smtpd_authorized_verp_clients = ["192.0.2.0/24"]
default_verp_delimiters = "=="
verp_delimiter_filter = "=%"
[[listener]]
address = ":587"
authorized_verp_clients = ["198.51.100.1"]
[[listener]]
address = ":588"
authorized_verp_clients = []
[[listener]]
address = "unix:/run/x"
`)
	var got []string
	for _, l := range terms(c) {
		v := l.VERP
		text := v.Delimiters.String() + " " + v.Filter
		for _, p := range v.Clients {
			text += " " + p.String()
		}
		if v.Unix {
			text += " unix"
		}
		got = append(got, text)
	}
	if want := "== =% 192.0.2.0/24|== =% 198.51.100.1/32|== =%|== =% 192.0.2.0/24 unix"; strings.Join(got, "|") != want {
		t.Errorf("%q\nwant %q", strings.Join(got, "|"), want)
	}
	if v := terms(mustParse(t, ""))[0].VERP; len(v.Clients) > 0 || v.Unix {
		t.Errorf("without configuration %+v", v)
	}
}

// What cannot be meant is said, and what loses reports is warned of.
func TestVERPMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"default_verp_delimiters = \"+\"\n":                                                      "is not two of the characters - = +",
		"default_verp_delimiters = \"+@\"\n":                                                     "is not two of the characters - = +",
		"default_verp_delimiters = \"+/\"\n":                                                     "is not two of the characters - = + such as",
		"default_verp_delimiters = \"+=\"\nverp_delimiter_filter = \"-=\"\n":                     "which verp_delimiter_filter permits",
		"verp_delimiter_filter = \"\"\n":                                                         "no character may be a delimiter then",
		"verp_delimiter_filter = \"-=@\"\n":                                                      "has a character that cannot be a delimiter",
		"verp_secret_file = \"secret\"\n":                                                        "neither an absolute path",
		"[verp.a]\nclass = \"bluk\"\n":                                                           `there is no class "bluk" (did you mean bulk?)`,
		"[verp.a]\ntags = true\n":                                                                "a tag needs a secret",
		"[verp.a]\ndelimiters = \"/=\"\n":                                                        "which verp_delimiter_filter permits",
		"[verp.a]\n[verp.b]\nsender = \"x@y.example\"\n":                                         "[verp.a] before it has no conditions",
		"[verp]\nsender = \"x@y.example\"\n":                                                     "write it under [verp.NAME]",
		"[feedback]\naddresses = \"a@b.example\"\nverp_tags = \"required\"\n":                    "tags cannot be checked without a secret",
		"[[feedback]]\naddresses = \"a@b.example\"\n[[feedback]]\naddresses = \"A@b.example\"\n": "a@b.example is in another table [[feedback]] already",
		"[[feedback]]\naddresses = \"a@b.example\"\nunparsed_to = \"c@d.example\"\n[[feedback]]\naddresses = \"@d.example\"\n": "come back for ever",
	} {
		_, err := Parse("a.toml", []byte(text), testEnvironment)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v\nlacks %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"[verp.a]\n": "it applies to mail of any sender", "[verp.a]\nsender = \"x@y.example\"\n": "", "[verp.a]\ndelimiters = \"\"\n": "",
		"[verp.a]\nsender = \"x@y.example\"\ndelimiters = \"+-\"\n": "jane-my@shop.example",
	} {
		var all []string
		for _, w := range mustParse(t, text).Warnings() {
			all = append(all, w.String())
		}
		if said := strings.Join(all, "\n"); (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%s: warnings %q, want %q", text, said, want)
		}
	}
}

// The file of secrets: the first one writes. What is wrong is said without them.
func TestVERPSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets")
	const good, old = "0123456789abcdef", "a much longer secret, with spaces"
	for _, row := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"# new\n" + good + "\n\n\t" + old + " \n", 0o600, ""},
		{good, 0o400, ""},
		{"\n# none\n", 0o600, "has no secret"},
		{good + "\n0123456789abcde\n", 0o600, ":2: the secret has fewer than 16 characters"},
		{strings.Repeat(good+"\n", 17), 0o600, "has 17 secrets"},
		{good, 0o644, "chmod 600"},
		{strings.Repeat(good, 5000), 0o600, "larger than"},
	} {
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, row.mode); err != nil {
			t.Fatal(err)
		}
		c := mustParse(t, "verp_secret_file = \""+path+"\"\n")
		secrets, err := c.LoadVERPSecrets()
		_, check := c.CheckFiles(time.Now())
		if row.want == "" {
			if err != nil || check != nil || string(secrets[0]) != good || len(secrets) == 2 && string(secrets[1]) != old {
				t.Errorf("%q: %q, %v, %v", row.text, secrets, err, check)
			}
		} else if err == nil || check == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), good[:15]) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.100q: %v, %v", row.text, err, check)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if secrets, err := mustParse(t, "").LoadVERPSecrets(); secrets != nil || err != nil {
		t.Errorf("%q, %v", secrets, err)
	}
	if _, err := mustParse(t, "verp_secret_file = \"/nowhere/x\"\n").LoadVERPSecrets(); err == nil {
		t.Error("a file that is not there")
	}
}
