package config

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Addresses of reports, and what is wrong with some.
func TestFeedback(t *testing.T) {
	const open = "local_part_limit = 200\nlisten = [\":25\"]\n"
	for _, c := range []struct{ text, wrong, warning string }{
		{open + "[feedback]\naddresses = [\"bounces@example.com\", \"@b.example.com\"]\nunparsed_to = \"people@example.com\"\n", "", ""},
		{"", "", ""},
		{open + "[feedback]\naddresses = [\"example.com\"]\n", "write \"@example.com\" for all addresses of a domain", ""},
		{open + "[feedback]\naddresses = [\"a b@example.com\"]\n", "neither an address nor a domain", ""},
		{open + "[feedback]\nunparsed_to = \"people@example.com\"\n", "without addresses", ""},
		{open + "[feedback]\naddresses = [\"bounces@example.com\"]\nunparsed_to = \"Bounces+x@example.com\"\n", "come back for ever", ""},
		{open + "[feedback]\naddresses = [\"bounces@example.com\"]\nverp_delimiters = \"@=\"\n", "not two of the characters", ""},
		{open + "[feedback]\naddresses = [\"bounces@example.com\"]\nverp_delimiters = \"+-\"\n", "", "is read as jane-my@shop.example"},
		{open + "[feedback]\naddresses = [\"Postmaster@example.com\"]\n", "", "read only by this program"},
		{"listen = [\":25\"]\n[feedback]\naddresses = [\"bounces@example.com\"]\n", "", "local_part_limit is 64"},
		{"local_part_limit = 200\nlisten = [\"127.0.0.1:25\"]\n[feedback]\naddresses = [\"bounces@example.com\"]\n", "", "only reports of this host itself"},
	} {
		cfg, err := Parse("test.toml", []byte(c.text), Environment{Hostname: "mta.example"})
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %q", c.text, err, c.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var about []string
		for _, w := range cfg.Warnings() {
			if strings.HasPrefix(w.Key, "feedback") {
				about = append(about, w.String())
			}
		}
		all := strings.Join(about, "\n")
		if c.warning == "" && all != "" || !strings.Contains(all, c.warning) {
			t.Errorf("%s: warnings %q, want %q", c.text, all, c.warning)
		}
		boxes, err := cfg.Mailboxes(nil)
		if _, ok := boxes.Match(mail.Address("bounces+jane=example.net@example.com")); err != nil || ok != strings.Contains(c.text, "bounces@") {
			t.Errorf("%s: %v, %v", c.text, ok, err)
		}
	}
}
