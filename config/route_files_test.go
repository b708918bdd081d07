package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/route"
)

// loadWith writes files beside a configuration that names them by $DIR, and loads it.
func loadWith(t *testing.T, text string, files map[string]string) (*Config, string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "x.toml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "$DIR", dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, testEnvironment)
	return c, dir, err
}

// Routes in files are added to those of the configuration, expressions in the order of the files
// among them, and the core learns that routes depend on senders.
func TestRouteFiles(t *testing.T) {
	c, _, err := loadWith(t, "routes_file = [\"$DIR/routes\", \"$DIR/more\"]\nsender_routes_file = \"$DIR/senders\"\n[routes]\n\"b.example\" = \"relay:\"\n", map[string]string{
		"routes":  "# a comment\n\nz.example\trelay:[z.example]\r\n/^x/ error:\n  A.example   smtp:[a.example]:26  \n",
		"more":    "/^a/ relay:\nu@a.example :\n",
		"senders": "<> relay:[out.example]\nc.example relay:\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Route()
	if got, want := strings.Join(r.Rules, "; "), "b.example relay:; A.example smtp:[a.example]:26; u@a.example :; z.example relay:[z.example]; /^x/ error:; /^a/ relay:"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := strings.Join(r.SenderRules, "; "); got != "<> relay:[out.example]; c.example relay:" || !c.Driver().Qmgr.RoutesBySender {
		t.Errorf("by senders: %s", got)
	}
	var shown strings.Builder
	if err := c.Show(&shown, false, false); err != nil || strings.Contains(shown.String(), "z.example") {
		t.Error("routes of a file are shown as if they were in the configuration")
	}
}

// Each mistake is named with its file and line, and nothing is used then.
func TestMistakesInRouteFiles(t *testing.T) {
	_, dir, err := loadWith(t, "routes_file = [\"$DIR/routes\", \"$DIR/none\"]\n[routes]\n\"b.example\" = \"relay:\"\n", map[string]string{
		"routes": "a.example\nB.EXAMPLE relay:\nc.example rely:\n/(/ relay:\nd.example relay:\nd.example smtp:\n@ smtp:\n" + strings.Repeat("x", 70_000) + " smtp:\n"})
	if err == nil {
		t.Fatal("no complaint")
	}
	for _, want := range []string{
		"routes_file: $DIR/routes:1: \"a.example\" has no target",
		"$DIR/routes:2: \"B.EXAMPLE\" has a route already, in the configuration",
		"$DIR/routes:3: there is no transport \"rely\"",
		"$DIR/routes:4: ",
		"$DIR/routes:6: \"d.example\" has a route already, in $DIR/routes:5",
		"$DIR/routes:7: ",
		"$DIR/routes:8: ",
		"routes_file: open $DIR/none: no such file",
	} {
		if want = strings.ReplaceAll(want, "$DIR", dir); !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nhas no %q", err, want)
		}
	}
	for text, want := range map[string]string{
		"routes_file = \"routes\"":                 "not an absolute path",
		"routes_file = \"hash:/etc/postfix/x\"":    `write "/etc/postfix/x"`,
		"sender_routes_file = [\"regexp:/etc/x\"]": "begins with a slash",
	} {
		if _, err := Parse("x.toml", []byte(text+"\n"), testEnvironment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// Whatever is in a file, each route that is taken from it can be parsed again, and has one line.
func FuzzRouteLines(f *testing.F) {
	for _, text := range []string{"a.example relay:\n", "# x\n\n/a b/ smtp:[x]\n", "a.example\tsmtp:[x]:26\r\nA.example smtp:", "<> relay:", "/(/ smtp:"} {
		f.Add(text)
	}
	transports := Default(testEnvironment).Transports
	f.Fuzz(func(t *testing.T, text string) {
		r := routeReader{transports: transports, parse: route.ParseRule, places: make(map[string]string)}
		_ = r.lines("f", strings.NewReader(text)) // mistakes are no fault here
		if len(r.routes) != len(r.places) || len(r.routes) > strings.Count(text, "\n")+1 {
			t.Errorf("%q has %d routes for %d patterns", text, len(r.routes), len(r.places))
		}
		for _, one := range r.routes {
			if _, err := route.ParseRule(one.Pattern + " " + one.Target); err != nil {
				t.Errorf("%q: %v", one, err)
			}
		}
	})
}
