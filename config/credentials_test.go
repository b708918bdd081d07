package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/outbound/credential"
)

func credentialsOf(t *testing.T, text string) (*credential.Table, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Config{Credentials: path}
	table, err := c.LoadCredentials()
	return table, path, err
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2 \nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, _, err := credentialsOf(t, `
[relay]
for = ["[smtp.example.net]:587", "relay.example"]
user = "mia"
password = "hunter2 $x 'y"
mechanisms = ["PLAIN"]
tls = "optional"
secret_in_clear = true
[file]
for = "*"
user = "ben"
password_file = "`+file+`"
[token]
for = [".example.com"]
user = "zoe"
token_command = ["/bin/token", "two words", "$HOME"]
token_lifetime = "50m"
`)
	if err != nil {
		t.Fatal(err)
	}
	relay, byFile, token := table.Named("relay"), table.Named("file"), table.Named("token")
	if !relay.Password.Equal(credential.NewSecret("hunter2 $x 'y")) || relay.Protection != credential.Optional || !relay.InClear || relay.Mechanisms[0] != "PLAIN" || relay.User != "mia" {
		t.Errorf("%+v", relay)
	}
	if !byFile.Password.Equal(credential.NewSecret("hunter2 ")) || byFile.Protection != credential.Verified {
		t.Errorf("%+v", byFile)
	}
	if strings.Join(token.Credential.Token.Command, "|") != "/bin/token|two words|$HOME" || token.Credential.Token.Lifetime.Minutes() != 50 {
		t.Errorf("%+v", token.Credential.Token)
	}
	if table.For("[smtp.example.net]:587", true, "") != "relay" || table.For("x.example.com", false, "") != "token" || table.For("[other.example]", true, "") != "file" {
		t.Error("the nexthops are those of others")
	}
	if table, err := (&Config{}).LoadCredentials(); table != nil || err != nil {
		t.Errorf("without a file: %v", err)
	}
}

// What is wrong with the file is said with its line, and without anything that may be a password in
// the wrong place.
func TestCredentialsAreRefusedWithoutSecrets(t *testing.T) {
	const good = "[a]\nfor = [\"a.example\"]\nuser = \"u\"\n"
	for text, want := range map[string]string{
		"[a\npassword = \"hunter2\"":                            ":1:",
		good + "password = hunter2":                             ":4:",
		good + "password = \"hunter2":                           ":4:",
		good + "password = \"hunter2\\q\"":                      ":4:",
		good + "password = \"hunter2\"\npassword = \"hunter2\"": ":5:",
		good + "password = 123456":                              ":4: [a] password: this value cannot be used",
		good + "password = \"\"":                                ":4: [a] password",
		good + "passwort = \"hunter2\"":                         ":4: [a]: there is no key of this name; there are for, senders, user, password",
		good + "tls = \"hunter2\"\npassword = \"x\"":            ":4: [a] tls: this value cannot be used; allowed: verified, encrypted or optional",
		good + "token_file = \"hunter2\"":                       ":4: [a] token_file",
		good + "password_file = \"/nonexistent/x\"":             ":1: [a]: password_file: open /nonexistent/x",
		good + "token_command = [\"hunter2\"]":                  ":1: [a]: token_command: the program needs an absolute path",
		good + "mechanisms = [\"hunter2\"]\npassword = \"x\"":   ":4: [a] mechanisms: this value cannot be used",
		good:                     ":1: [a]: it needs one of password",
		"password = \"hunter2\"": ":1: password stands outside of all tables",
		good + "password = \"x\"\n[b]\nfor = [\"a.example\"]\nuser = \"u\"\npassword = \"hunter2\"": "credential b: for: a is for a.example, too",
	} {
		_, path, err := credentialsOf(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(want, "credential") && !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "123456") {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// Whatever the file has, it is refused with a line of it, or read without a panic; what is read is
// valid.
func FuzzCredentials(f *testing.F) {
	f.Add("[a]\nfor = [\"a.example\"]\nuser = \"u\"\npassword = \"x\"\n")
	f.Add("[a]\nfor = \"*\"\nuser = \"x\"\ntls = \"x\"\n")
	f.Add("a = 1\n[b.c]\nuser = {x}\n[[d]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "password_file") {
			return // which is read
		}
		all, _, errs := parseCredentials("file", []byte(text))
		for _, err := range errs {
			if !strings.HasPrefix(err.Error(), "file:") {
				t.Fatalf("%v", err)
			}
		}
		for i := range all {
			if err := all[i].Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
