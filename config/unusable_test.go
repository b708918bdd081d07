package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checked returns the warnings of config check about a file, each on a line behind its key and line.
func checked(t *testing.T, text string) string {
	t.Helper()
	c, err := Parse("test.toml", []byte(text), Environment{Hostname: "mta.example.com"})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	others, err := c.CheckFiles(time.Now())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c.Warn("test.toml", others)
}

// expectWarning fails unless there is exactly one warning, which begins and contains so; none if begins is "".
func expectWarning(t *testing.T, got, begins, contains string) {
	t.Helper()
	if begins == "" && got != "" || begins != "" && (strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, begins) || !strings.Contains(got, contains)) {
		t.Errorf("the warnings are\n%swant %q with %q", got, begins, contains)
	}
}

// A credential that no nexthop fits is never said, and mail goes without it: most often the two are spelled
// differently.
func TestCredentialsWithoutNexthop(t *testing.T) {
	for _, c := range []struct{ config, credentials, begins, contains string }{
		{`relayhost = "[smtp.example.net]:587"`, `for = ["[smtp.example.net]:587"]`, "", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["smtp.example.net"]`, "", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = [".example.net"]`, "", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["*"]`, "", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["other.example", "smtp.example.net:587"]`, "", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["[smtp.example.com]:587"]`, "test.toml:1: warning: credentials: [office] (FILE:2) is never used: for has no nexthop", "names [smtp.example.net]:587; write for as"},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["[smtp.example.net]"]`, "test.toml:1: warning: credentials: [office]", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["smtp.example.net:25"]`, "test.toml:1: warning: credentials: [office]", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["example.net"]`, "test.toml:1: warning: credentials: [office]", ""},
		{`relayhost = "[smtp.example.net]:587"`, "senders = [\"a@b.example\"]\nfor = [\"example.net\"]", "test.toml:1: warning: credentials: [office]", ""},
		{``, `for = ["example.net"]`, "", ""}, // a domain of recipients
		{``, `for = [".example.net"]`, "", ""},
		{``, `for = ["[smtp.example.net]:587"]`, "test.toml:1: warning: credentials: [office]", "it names none"},
		{``, `for = ["example.net:587"]`, "test.toml:1: warning: credentials: [office]", ""},
		{``, `for = ["*"]`, "test.toml:1: warning: credentials: [office]", ""},
		{"[routes]\n\"a.example\" = \"smtp:[relay.example]\"", `for = ["relay.example"]`, "", ""},
		{"[sender_routes]\n\"a.example\" = \"smtp:[relay.example]\"", `for = ["[relay.example]"]`, "", ""},
		{"[transport.smtp]\nfallback_relay = \"[relay.example]:26\"", `for = ["[relay.example]:26"]`, "", ""},
		{"[transport.slow]\nnexthop = \"[relay.example]:26\"\n[routes]\n\"a.example\" = \"slow:\"", `for = ["relay.example:26"]`, "", ""},
	} {
		file := writeCredentials(t, c.credentials)
		got := checked(t, "credentials = \""+file+"\"\n"+c.config+"\n")
		expectWarning(t, strings.ReplaceAll(got, file, "FILE"), c.begins, c.contains)
	}
}

// writeCredentials writes a file with one credential, in the second line.
func writeCredentials(t *testing.T, keys string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials.toml")
	if err := os.WriteFile(file, []byte("# mine\n[office]\nuser = \"mia\"\npassword = \"hunter2\"\n"+keys+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An address has no name that a certificate could be for: a credential that demands one is never said there.
func TestVerifiedCredentialForAnAddress(t *testing.T) {
	const address = `relayhost = "[192.0.2.1]:587"`
	for _, c := range []struct{ config, credentials, begins, contains string }{
		{address, `for = ["[192.0.2.1]:587"]`, "test.toml:2: warning: relayhost: credential [office] (FILE:2) demands a certificate for a name", `tls = "encrypted"`},
		{address, `for = ["*"]`, "test.toml:2: warning: relayhost: credential [office]", ""},
		{address, "senders = [\"mia@example.com\"]\nfor = [\"*\"]", "test.toml:2: warning: relayhost: credential [office]", ""},
		{address, "senders = [\"@example.com\", \"<>\"]\nfor = [\"*\"]", "test.toml:2: warning: relayhost: credential [office]", ""},
		{address + "\nsmtp_tls_security_level = \"dane\"\n[dns]\nservers = [\"127.0.0.1\"]", `for = ["*"]`, "test.toml:2: warning: relayhost: credential [office]", ""},
		{address + "\nsmtp_tls_security_level = \"verify\"", `for = ["*"]`, "test.toml:2: warning: relayhost: credential [office]", ""},
		{address, "tls = \"encrypted\"\nfor = [\"*\"]", "", ""},
		{address, "tls = \"optional\"\nfor = [\"*\"]", "", ""},
		{address + "\nsmtp_tls_security_level = \"fingerprint\"\nsmtp_tls_fingerprints = \"" + strings.Repeat("00", 32) + "\"", `for = ["*"]`, "", ""},
		{address + "\nsmtp_tls_security_level = \"secure\"\nsmtp_tls_match = \"mx.example.com\"", `for = ["*"]`, "", ""},
		{address + "\n[destination.x]\nnetworks = [\"192.0.2.0/24\"]\ndestination_rate = \"1/s\"", "tls = \"encrypted\"\nfor = [\"*\"]", "", ""},
		{`relayhost = "[smtp.example.net]:587"`, `for = ["*"]`, "", ""},
		{"[routes]\n\"a.example\" = \"smtp:[smtp.example.net], [192.0.2.1]\"", `for = ["smtp.example.net", "[192.0.2.1]"]`, "test.toml:3: warning: routes.\"a.example\": credential [office]", ""},
	} {
		file := writeCredentials(t, c.credentials)
		got := checked(t, "credentials = \""+file+"\"\n"+c.config+"\n")
		expectWarning(t, strings.ReplaceAll(got, file, "FILE"), c.begins, c.contains)
	}
}

// The daemon does not start if a program is to run as a user that there is none of.
func TestMissingUsers(t *testing.T) {
	const table = "[transport.boxes]\ntype = \"pipe\"\ndestination_recipient_limit = 1\ncommand = [\"/bin/sh\"]\n"
	for user, want := range map[string]string{"": "", "daemon": "", "nobody-of-this-name": "no user \"nobody-of-this-name\"", "daemon:nobody-of-this-name": "no group \"nobody-of-this-name\""} {
		text, begins := table, ""
		if user != "" {
			text += fmt.Sprintf("command_user = %q\n", user)
		}
		if want != "" {
			begins = "test.toml:5: warning: transport.boxes.command_user: this machine has " + want
		}
		expectWarning(t, checked(t, text), begins, "the daemon does not start")
	}
	expectWarning(t, checked(t, table+"command_user = \"root\"\n"), "test.toml:5: warning: transport.boxes.command_user: programs must not run as user or group root", "the daemon does not start")
}

// A listener for mail programs that no client can use causes a warning.
func TestUselessListeners(t *testing.T) {
	dir := t.TempDir()
	empty, some := filepath.Join(dir, "empty"), filepath.Join(dir, "users")
	if err := os.WriteFile(empty, []byte("# nobody yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(some, []byte("bob $argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$HgjxOI6ax85WfXptpOiYlJEe3uIIlEJzBowyiJdUM6s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener := func(address string) string {
		return "[[listener]]\naddress = \"" + address + "\"\nname = \"mua\"\npurpose = \"submission\"\ntls = \"none\"\n"
	}
	const useless, users = "warning: listener.mua.purpose: no client may submit mail here", "warning: users: "
	for _, c := range []struct{ text, begins, contains string }{
		{"mynetworks = []\n" + listener(":587"), "test.toml:5: " + useless, "posthaste/users"},
		{"mynetworks = []\n" + listener("127.0.0.1:587"), "test.toml:5: " + useless, ""},
		{listener("192.0.2.1:587"), "test.toml:4: " + useless, ""}, // mynetworks is this machine's loopback network
		{listener(":587"), "", ""},
		{listener("127.0.0.1:587"), "", ""},
		{"mynetworks = [\"192.0.2.0/24\"]\n" + listener("192.0.2.1:587"), "", ""},
		{"mynetworks = []\n" + listener("unix:/run/mua.sock"), "", ""},
		{"mynetworks = []\n" + listener(":587") + "xclient_networks = [\"192.0.2.9\"]\n", "", ""},
		{"mynetworks = []\nusers = \"" + some + "\"\n" + listener(":587"), "", ""},
		{"mynetworks = []\nusers = \"" + some + "\"\n" + listener(":587") + "auth = \"off\"\n", "test.toml:6: " + useless, ""},
		{"mynetworks = []\nrelay_clientcerts = [\"" + strings.Repeat("00", 32) + "\"]\n" + listener(":587"), "test.toml:6: " + useless, ""}, // there is no TLS
		{"mynetworks = []\n" + strings.Replace(listener(":25"), "submission", "relay", 1), "", ""},
		{"mynetworks = []\nusers = \"" + empty + "\"\n" + listener(":587"), "test.toml:2: " + users + empty + " has no users", "posthaste user add"},
	} {
		text := c.text
		if strings.Contains(text, "unix:") {
			text = strings.ReplaceAll(text, "tls = \"none\"\n", "")
		}
		expectWarning(t, checked(t, text), c.begins, c.contains)
	}
}

// A map with regular expressions that is not named as one is a map of keys, of which no address is one.
func TestMapsWithExpressions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"joe@a.example joe@b.example\n", ""},
		{"# /x/ y\n\n/^joe@/ joe@b.example\n", ":3: /^joe@/ looks like a regular expression"},
		{"a@a.example b@b.example,\n  c@b.example\n/sales-.*/i\tb@b.example\n", ":3: /sales-.*/i looks"},
		{"/joe@a.example joe@b.example\n", ""},
		{"/joe/b@a.example joe@b.example\n", ""},
		{"/" + strings.Repeat("x", 100) + "/ joe@b.example\n", ":1: /" + strings.Repeat("x", 59) + "… looks"},
	} {
		for _, prefix := range []string{"", "regexp:"} {
			file := filepath.Join(t.TempDir(), "map")
			text := c.text
			if prefix != "" {
				text = "/^joe@/ joe@b.example\n"
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			begins := ""
			if c.want != "" && prefix == "" {
				begins = "test.toml:2: warning: virtual_alias_maps: " + file + c.want
			}
			got := checked(t, "# a comment\nvirtual_alias_maps = [\""+prefix+file+"\"]\n")
			expectWarning(t, got, begins, "write \"regexp:"+file+"\"")
		}
	}
}

// A transport that demands REQUIRETLS, unlike the others, where nothing proves which hosts are a domain's.
func TestRequireTLSWithoutDNSSEC(t *testing.T) {
	const dns, trusted = "[dns]\nservers = [\"192.0.2.53\"]\n", "[dns]\nservers = [\"192.0.2.53\"]\ntrust_ad = true\n"
	const strict = "[transport.smtp]\nrequiretls = true\n"
	for _, c := range []struct {
		text  string
		warns bool
	}{
		{"smtp_requiretls = false\n" + strict + dns, true},
		{"smtp_requiretls = false\n" + strict + trusted, false},
		{"smtp_requiretls = false\n" + strict + "[dns]\nservers = [\"127.0.0.1\"]\n", false},
		{"smtp_requiretls = true\n" + strict + dns, false}, // the default
		{"smtp_requiretls = false\n" + dns, false},
		{"smtp_requiretls = false\n" + strict + "tls_security_level = \"secure\"\n" + dns, false},
		{"smtp_requiretls = false\n" + strict + "tls_security_level = \"verify\"\n" + dns, true},
		{"smtp_requiretls = false\n" + strict + "nexthop = \"[relay.example]\"\n" + dns, false},
		{"smtp_requiretls = false\n" + strict + "nexthop = \"relay.example\"\n" + dns, true},
		{"smtp_requiretls = false\n[transport.unused]\nrequiretls = true\n" + dns, false},
	} {
		begins := ""
		if c.warns {
			begins = "test.toml:3: warning: transport.smtp.requiretls: mail with REQUIRETLS reaches only"
		}
		expectWarning(t, checked(t, c.text), begins, trustFix)
	}
}
