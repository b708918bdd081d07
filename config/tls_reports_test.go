package config

import (
	"strings"
	"testing"
)

// Reports need a name, and something to report on; what is missing is said.
func TestTLSReports(t *testing.T) {
	const counted = "smtp_tls_security_level = \"mta-sts\"\n"
	const key = "[dkim.x]\ndomain = \"x.example\"\nselector = \"s\"\nkey = \"k\"\n"
	for _, c := range []struct{ text, mistake, warning string }{
		{"", "", ""},
		{counted + "[tls_reports]\norganization = \"Example\"\n" + key, "", ""},
		{"[destination.x]\ndomains = [\"x.example\"]\ntls_security_level = \"mta-sts\"\n[tls_reports]\norganization = \"Example\"\n" + key, "", ""},
		{"[tls_reports]\norganization = \"Example\"\n" + key, "", "no policies are looked for"},
		{counted + "[tls_reports]\norganization = \"Example\"\n", "", "must not be mailed"},
		{"[tls_reports]\ncontact = \"x\"\n", "without organization", ""},
		{"[tls_reports]\nexclude = [\"a.example\"]\n", "without organization", ""},
		{"[tls_reports]\norganization = \"a\\nb\"\n", "control character", ""},
		{"[tls_reports]\norganization = \"a\"\nfrom = \"me\"\n", "there is no domain", ""},
	} {
		cfg, err := Parse("test.toml", []byte(c.text), testEnvironment)
		if (err != nil) != (c.mistake != "") || err != nil && !strings.Contains(err.Error(), c.mistake) {
			t.Errorf("%s: %v, want %q", c.text, err, c.mistake)
		}
		if err != nil {
			continue
		}
		if from := cfg.TLSReportsFrom(); from.Local() != "tls-reports" || from.Domain() != cfg.Hostname {
			t.Error(from)
		}
		var list []string
		for _, w := range cfg.Warnings() {
			list = append(list, w.String())
		}
		if got := strings.Join(list, "\n"); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
			t.Errorf("%s: %q, want %q", c.text, got, c.warning)
		}
	}
}
