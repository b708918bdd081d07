package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that the daemon does not start without, or refuses at a reload, must be found by
// "config check", or the mistake appears at the worst moment.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no PEM, no program\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, wrong, warning string }{
		{"nothing", "", "", ""},
		{"a signing key", "[dkim.a]\ndomain = \"example.com\"\nselector = \"s\"\nkey = \"DIR/none.pem\"", "dkim key a: open DIR/none.pem: no such file", ""},
		{"an invalid signing key", "[dkim.a]\ndomain = \"example.com\"\nselector = \"s\"\nkey = \"DIR/plain\"", "dkim key a: ", ""},
		{"authorities", "smtp_tls_ca_file = \"DIR/none.pem\"", "tls_ca_file: open DIR/none.pem: no such file", ""},
		{"authorities without any", "[transport.own]\ntls_ca_file = \"DIR/plain\"", "tls_ca_file: DIR/plain has no certificate", ""},
		{"our certificate", "smtp_tls_cert_file = \"DIR/none.pem\"", "tls_cert_file: open DIR/none.pem: no such file", ""},
		{"a program", "[transport.p]\ntype = \"pipe\"\ncommand = [\"DIR/none\"]", "",
			"transport.p.command: DIR/none: there is no such file; mail of this transport waits until there is one"},
		{"a file that is no program", "[transport.p]\ntype = \"pipe\"\ncommand = [\"DIR/plain\"]", "", "DIR/plain: this is not a program"},
	} {
		in := strings.NewReplacer("DIR", dir)
		cfg, err := Parse("x.toml", []byte(in.Replace(c.text)), testEnvironment)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		warnings, err := cfg.CheckFiles(time.Unix(1e9, 0))
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || strings.Count(err.Error(), in.Replace(c.wrong)) != 1) {
			t.Errorf("%s: %v\nwant, once: %q", c.name, err, in.Replace(c.wrong))
		}
		if text := cfg.Warn("x.toml", warnings); (c.warning == "") != (text == "") || !strings.Contains(text, in.Replace(c.warning)) {
			t.Errorf("%s: warnings %q, want %q", c.name, text, in.Replace(c.warning))
		}
	}
}

// The name of one of Postfix's parameters is answered with what stands for it here, not with
// a similar word of another meaning.
func TestForeignNamesPrecedeGuesses(t *testing.T) {
	for text, want := range map[string]string{
		"smtpd_tls_cert_file = \"/x\"":                             "[[certificate]]",
		"smtpd_tls_security_level = \"may\"":                       "[[listener]]",
		"header_checks = \"regexp:/x\"":                            "[[header_rule]]",
		"sender_dependent_relayhost_maps = \"hash:/x\"":            "[sender_routes]",
		"[transport.p]\ntype = \"pipe\"\nargv = \"/x\"":            "it is called command,",
		"[transport.p]\ntype = \"pipe\"\nuser = \"vm\"":            "it is called command_user",
		"[transport.p]\ntype = \"pipe\"\nflags = \"DR\"":           "it is called command_flags",
		"[[header_rule]]\nfield = \"A\"\nlistener = [\"zzzzzzz\"]": "there are ",
	} {
		_, err := Parse("x.toml", []byte(text), testEnvironment)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
