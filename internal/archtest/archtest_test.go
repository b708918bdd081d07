package archtest

import (
	"os"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

func rules(t *testing.T, name string) *Rules {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRules(name, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func check(t *testing.T, root, rulesName string) []Complaint {
	t.Helper()
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	complaints, err := Check(tree, rules(t, rulesName))
	if err != nil {
		t.Fatal(err)
	}
	return complaints
}

// This is the test that every contributor meets: the tree as it is now. Each line of
// its output says what to do; the rules and their language are in rules.txt.
func TestTree(t *testing.T) {
	for _, c := range check(t, "../..", "rules.txt") {
		t.Error(c)
	}
}

// A checker that finds nothing may be blind. testdata/bad is a module with
// one of every mistake; what is found there is recorded.
func TestBadTree(t *testing.T) {
	var out strings.Builder
	for _, c := range check(t, "testdata/bad", "testdata/bad/rules.txt") {
		out.WriteString(c.String() + "\n")
	}
	golden.File(t, "testdata/bad.golden", out.String())
}

// Nothing is wrong with testdata/good, though all of it comes close.
func TestGoodTree(t *testing.T) {
	for _, c := range check(t, "testdata/good", "testdata/good/rules.txt") {
		t.Error(c)
	}
}

// A rule that is misread allows everything: the parser must refuse what it
// does not understand, with the line.
func TestParseRules(t *testing.T) {
	const head = "std small = fmt\n[one] std small\n"
	for _, tc := range []struct{ name, text, want string }{
		{"good", head + "a:\nb: a\n  std os\n  module x.y/...\n  test z\ntests: q\nc/...: *\na never b", ""},
		{"garbage", "hello", `rules:1: cannot read "hello"`},
		{"no section", "a:", "rules:1: a: no [title] above it"},
		{"bad set", "std small fmt", "rules:1: want std NAME = PATTERN …"},
		{"bad section", "[one] fmt", "rules:1: want [title] std NAME… [pure]"},
		{"unknown import", head + "b: a", "rules:3: b: there is no rule for a above it"},
		{"cycle", head + "a: b\nb: a", "rules:3: a: there is no rule for b above it"},
		{"itself", head + "a: a", "rules:3: a: there is no rule for a above it"},
		{"twice", head + "a:\na:", "rules:4: a: there is a rule already"},
		{"detail of nothing", head + " std os", "rules:3: std: no package above it"},
		{"bad detail", head + "a:\n  also os", "rules:4: want std, module or test, not also"},
		{"fields", head + "a:\nfields 3 a b/...", ""},
		{"bad fields", head + "fields few a", "rules:3: want fields NUMBER PATTERN …"},
		{"never unknown", head + "a:\na never b", "rules:4: there is no rule for b above it"},
		{"never after all", head + "a:\nb: a\nc: b\nc never a", "rules: c never a, but the rules allow it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if _, err := ParseRules("rules", tc.text); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}

// The patterns decide what may be imported; a prefix of a name is not a
// folder above it.
func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"io", "io", true}, {"io", "io/fs", false}, {"io", "iota", false},
		{"mime/...", "mime", true}, {"mime/...", "mime/multipart", true}, {"mime/...", "mimetype", false},
		{"...", "net/http", true},
	} {
		if got := (patterns{tc.pattern}).match(tc.path); got != tc.want {
			t.Errorf("%s matches %s: %t", tc.pattern, tc.path, got)
		}
	}
}

func BenchmarkCheckTree(b *testing.B) {
	for b.Loop() {
		tree, err := Load("../..")
		if err != nil {
			b.Fatal(err)
		}
		text, err := os.ReadFile("rules.txt")
		if err != nil {
			b.Fatal(err)
		}
		r, err := ParseRules("rules.txt", string(text))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Check(tree, r); err != nil {
			b.Fatal(err)
		}
	}
}
