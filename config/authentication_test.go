package config

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Mail programs log in where they connect as soon as there are users; other servers and
// programs on this machine are not asked to.
func TestAuthOfListeners(t *testing.T) {
	const listeners = `
[[listener]]
address = ":25"
[[listener]]
address = ":587"
purpose = "submission"
tls = "none"
[[listener]]
address = "unix:/run/x"
purpose = "submission"
[[listener]]
address = ":588"
purpose = "submission"
tls = "none"
auth = "off"
`
	const off, optional, required = inbound.AuthOff, inbound.AuthOptional, inbound.AuthRequired
	for text, want := range map[string][]inbound.AuthUse{
		listeners:                      {off, off, off, off},
		"users = \"/u\"\n" + listeners: {off, required, off, off},
		"users = \"/u\"\n" + strings.Replace(listeners, `":25"`, "\":25\"\nauth = \"optional\"", 1): {optional, required, off, off},
	} {
		c := mustParse(t, text)
		for i := range c.Listeners {
			got := c.Terms(&c.Listeners[i])
			if got.Auth != want[i] || (got.Mechanisms == smtp.AllMechanisms) != (want[i] != off) {
				t.Errorf("%s: listener %d: %s with %q, want %s", text, i, got.Auth, got.Mechanisms, want[i])
			}
		}
	}
}

// What cannot work is refused with the line, and with what to do.
func TestAuthMistakes(t *testing.T) {
	const users = "users = \"/u\"\n"
	const listener = "[[listener]]\naddress = \":587\"\npurpose = \"submission\"\ntls = \"none\"\n"
	for text, want := range map[string]string{
		listener + `auth = "required"`:                                            "there are no users who could log in",
		users + "[[listener]]\naddress = \"unix:/run/x\"\nauth = \"optional\"":    "clients of a unix socket may send anywhere",
		users + listener + `auth_mechanisms = []`:                                 "there is no mechanism",
		users + listener + `auth_mechanisms = ["PLAIN", "LOGIN"]`:                 "none of these is offered without TLS",
		users + listener + `auth_mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-256"]`: "SCRAM-SHA-256 is there twice",
		users + listener + `auth_mechanisms = ["CRAM-MD5"]`:                       "CRAM-MD5",
		`users = "users"`: "is not an absolute path",
		`smtpd_sender_login_maps = ["a@b.example"]`:      "is not a sender with users",
		`smtpd_sender_login_maps = ["@b.example alice"]`: `write "b.example"`,
		`smtpd_sender_login_maps = ["b.example Alice"]`:  `write "alice"`,
		`smtpd_sender_login_maps = ["b.example uid:0"]`:  "which is not allowed",
	} {
		_, err := Parse("f.toml", []byte(text), testEnvironment)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %q", text, err, want)
		}
	}
}
