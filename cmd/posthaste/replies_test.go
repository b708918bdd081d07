package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli/replies"
)

// An operator pastes a reply from the log, and sees what the program makes of it.
func TestRepliesExplain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "posthaste.toml")
	classes := filepath.Join(dir, "classes.toml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(classes, "[[pattern]]\nclass = \"reputation\"\nreceiver = \".mx.example.net\"\nwords = \"code b-17\"\nsource = \"a letter\"\n")
	write(path, "myhostname = \"a.example\"\nqueue_directory = \""+dir+"\"\nreply_classes = \"classes.toml\"\n"+`
[reply_rule.listed]
class = "reputation"
transport = "smtp"
times = 2
within = "10m"
backoff = "30m"
concurrency = 1
rate = "10/min"
for = "1h"
result = "temporary"
[reply_rule.stopped]
words = "write to us"
times = 3
suspend = "until-resumed"
[reply_rule.early]
stage = ["greeting", "mail"]
words = "we know you"
times = 5
in_a_row = true
sender_domains = 3
suspend = "2h"
[reply_rule.waits]
words = "wait for us"
suspend = "4h"
`)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"explain", "250 2.0.0 Ok"}, []string{"Nothing is refused"}},
		{[]string{"explain", "550 5.1.1 no"}, []string{"no-such-user", "RFC 3463", "none applies; without --config there are none"}},
		{[]string{"explain", "554 Mais non."}, []string{"Class:   other", "none matches"}},
		{[]string{"explain", "421-4.7.28 unusual rate of / 421 4.7.28 unsolicited mail", "--mx", "alt1.gmail-smtp-in.l.google.com", "--json"}, []string{`"class": "rate-limited"`, `"text": "unusual rate of\nunsolicited mail"`, `"source": "https://support.google.com`}},
		{[]string{"explain", "550 5.7.1 Code  B-17", "--mx", "a.mx.example.net", "--config", path}, []string{"Class:   reputation", "classes.toml:1 (a letter)", "[reply_rule.listed]",
			"the recipient is tried again", "no mail goes to the destination for 30m, after 2 such replies within 10m", "at most 1 connections and 10 messages in 1m for 1h"}},
		{[]string{"explain", "550 5.7.1 Code B-17", "--mx", "b.example", "--config", path, "--transport", "relay"}, []string{"Class:   policy", "none applies\n"}},
		{[]string{"explain", "550 5.7.1 Write to us", "--config", path}, []string{"the destination is suspended until it is resumed, after 3 such replies within 1h"}},
		{[]string{"explain", "550 5.7.1 Wait for us", "--config", path}, []string{"the destination is suspended for 4h\n"}},
		{[]string{"explain", "550 5.7.1 we know you", "--config", path, "--stage", "mail"}, []string{"[reply_rule.early]", "suspended for 2h, after 5 such replies in a row within 1h to senders of 3 domains"}},
		{[]string{"explain", "550 5.7.1 we know you", "--config", path, "--stage", "rcpt"}, []string{"none applies"}},
		{[]string{"explain", "550 5.7.1 we know you", "--config", path}, []string{"none applies"}},
		{[]string{"rules"}, []string{"[reply_rule.google-rate]"}},
		{[]string{"patterns"}, []string{"[[pattern]]"}},
	} {
		var out bytes.Buffer
		cmd := replies.NewCommand()
		cmd.SetArgs(c.args)
		cmd.SetOut(&out)
		if err := cmd.Execute(); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: no %q in\n%s", c.args, want, out.String())
			}
		}
	}
	write(classes, "[[pattern]]\nclass = \"bad\"\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", "no"}, "does not begin with a reply code"},
		{[]string{"explain", "550 no", "--stage", "helo"}, "not a stage of a conversation; there are greeting, ehlo,"},
		{[]string{"explain", "550 no", "--config", path}, "classes.toml:2:9"},
	} {
		cmd := replies.NewCommand()
		cmd.SetArgs(c.args)
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
