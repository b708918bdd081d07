package scenario

import (
	"strings"
	"testing"
	"testing/fstest"
)

// Mistakes that are easily made and were reported misleadingly or not at all: a
// user who reads the complaint must know what to change.
func TestMisleadingMistakes(t *testing.T) {
	const rest = "[arrivals.x]\nto = \"a\"\nmessages = 1\npattern = \"once\"\n"
	for _, c := range []struct{ name, text, want string }{
		{"no until", "[site.a]\n[[site.a.outage]]\nfrom = \"1h\"\n" + rest, "s.toml:2:3: site.a.outage: until is missing: when does this outage end?"},
		{"until before from", "[site.a]\n[[site.a.outage]]\nfrom = \"1h\"\nuntil = \"1m\"\n" + rest, "s.toml:2:3: site.a.outage: this outage ends before it begins"},
		{"agents have no such limit", "[site.a]\nmails_per_connection = 7\n" + rest, "s.toml:2:1: site.a.mails_per_connection: this means nothing in mode agents"},
		{"nor in a change", "[site.a]\n[[site.a.change]]\nat = \"1m\"\nidle_limit = \"2s\"\n" + rest, "s.toml:4:1: site.a.change.idle_limit: this means nothing in mode agents"},
		{"some run has", "[site.a]\nmails_per_connection = 7\n" + rest + "[[run]]\nname = \"1\"\n[[run]]\nname = \"2\"\nmode = \"relay\"\n", ""},
		{"a configuration", "myhostname = \"mta.example.com\"\nlisten = [\":25\"]\n[transport.bulk]\nprocess_limit = 3\n", "s.toml:1:1: this looks like a configuration of the daemon, not like a scenario"},
		{"parameters in the wrong place", "default_process_limit = 3\n[site.a]\n" + rest, "s.toml:1:1: default_process_limit: there is no such key"},
	} {
		_, err := Parse("s.toml", "s", []byte(c.text), fstest.MapFS{})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		case c.want != "" && strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: more than one complaint: %v", c.name, err)
		}
	}
}
