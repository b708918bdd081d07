package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// Administrators read the reference and the example, and the program follows the
// table of parameters: they must agree. UPDATE=1 writes both files.
func TestGeneratedFiles(t *testing.T) {
	golden.File(t, "../docs/config.md", Reference())
	golden.File(t, "posthaste.toml", example())
}

// An administrator removes "#" characters one by one, so the example must be valid
// with none and with all of them removed, and it must contain the defaults.
func TestExample(t *testing.T) {
	env := Environment{Hostname: "mail.example.com"}
	if _, err := Parse("example", []byte(example()), env); err != nil {
		t.Fatalf("as it is: %v", err)
	}
	var all strings.Builder
	for line := range strings.Lines(example()) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") && strings.TrimSpace(line) != "#" {
			line = line[1:]
		}
		all.WriteString(line)
	}
	c, err := Parse("example", []byte(all.String()), env)
	if err != nil {
		t.Fatalf("without #:\n%v", err)
	}
	for _, change := range Diff(Default(env), c) {
		switch change.Key {
		case "listen", "listener.submission", `certificate."/etc/posthaste/mail.example.com.pem"`, "header_rule.1", "milter.opendkim", "transport.bulk", "destination.provider", "class.otp", "tenant.shop", "source.a", "source.b", "warmup.slow", "pool.bulk", "pool.main", "dkim.rsa", "dkim.ed25519", "reply_rule.busy", "verp.mailings", "feedback.1", `routes."example.com"`, `routes.".example.com"`, `routes."user@example.org"`, `sender_routes."news.example.com"`:
		default:
			t.Errorf("%s is %s in the example, and its default is %s", change.Key, change.New, change.Old)
		}
	}
	if got := len(Diff(Default(env), c)); got != 22 {
		t.Errorf("%d differences from the defaults, want the listener, the certificate, the header rule, the milter, the transport, the destination, the class, the tenant, two sources, a plan, two pools, two keys, a rule on replies, a rule on senders, a table of reports, three routes and one by sender", got)
	}
}

// Every table is in the example, and named where a table is not known: one that is missing there is
// found only by an administrator who knows of it.
func TestEveryTableIsNamed(t *testing.T) {
	_, err := Parse("file", []byte("[wrong]\n"), Environment{})
	if err == nil {
		t.Fatal("there is a table [wrong]")
	}
	for _, name := range tableNames() {
		written := "[" + name + "]"
		switch {
		case slices.Contains(namedTables, name):
			written = "[" + name + ".NAME]"
		case slices.Contains(listedTables, name):
			written = "[[" + name + "]]"
		}
		if !strings.Contains(err.Error(), written) {
			t.Errorf("%s is not among the tables: %v", written, err)
		}
		if !strings.Contains(example(), "\n#"+strings.TrimSuffix(written, "NAME]")) {
			t.Errorf("%s is not in the example", written)
		}
	}
}

// Every parameter must be explained: a knob that we cannot explain is one that an
// administrator cannot set.
func TestEveryParameterIsExplained(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range Parameters() {
		key := p.Table + "." + p.Name
		if seen[key] {
			t.Errorf("%s: there are two of them", key)
		}
		seen[key] = true
		if p.Type == "" || p.Default == "" {
			t.Errorf("%s: no type or default", key)
		}
		if strings.Contains(p.Change, ". ") {
			t.Errorf("%s: %q is not one sentence", key, p.Change)
		}
		// A description of one long sentence has to be read twice.
		for _, text := range []string{p.Meaning, p.Change} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q does not end with a period", key, text)
			}
			for sentence := range strings.SplitSeq(text, ". ") {
				if n := len(strings.Fields(sentence)); n > 45 {
					t.Errorf("%s: a sentence of %d words, want at most 45: %q", key, n, sentence)
				}
			}
		}
		if !strings.Contains(p.Change, " ") || len(p.Change) < 20 {
			t.Errorf("%s: %q does not say when to change it", key, p.Change)
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d parameters: the table has lost some", len(seen))
	}
}

// A name that is documented as not supported must not exist.
func TestForeignNames(t *testing.T) {
	for _, p := range Parameters() {
		if note, ok := Foreign(p.Name); ok {
			t.Errorf("%s exists, and is said not to: %s", p.Name, note)
		}
	}
}
