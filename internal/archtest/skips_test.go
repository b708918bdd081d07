package archtest

import (
	"os"
	"strings"
	"testing"
)

// A test that skips itself wherever it is run looks like one that passes. skips.txt has
// those that may, and where they do not.
func TestSkips(t *testing.T) {
	tree, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	table, ci := read("skips.txt"), read("../../.ci/run")
	for _, c := range Skips(tree, table, ci) {
		t.Error(c)
	}
	// And what is wrong is found.
	for _, c := range []struct{ old, new, want string }{
		{"milter TestOpenDKIM milter", "# ", "TestOpenDKIM may skip itself"},
		{"spool longWithoutRaces test", "# ", "TestHostsCrash may skip itself"},
		{"milter TestOpenDKIM milter", "milter TestOpenDKIM dkim", "no command of the stage dkim of .ci/run runs TestOpenDKIM of milter"},
		{"spool TestBacklog spool -spool.backlog", "spool TestBacklog spool POSTHASTE_RUNS", "no command of the stage spool of .ci/run runs TestBacklog of spool POSTHASTE_RUNS"},
		{"spool longWithoutRaces test", "spool longWithoutRaces spool", "longWithoutRaces is a helper"},
		{"milter TestOpenDKIM milter", "milter TestOpenDKIM milter\nmilter TestNone test", "TestNone of milter does not exist"},
		{"milter TestOpenDKIM milter", "milter TestOpenDKIM milter\nmilter TestOpenDKIM", "want PACKAGE TEST STAGE"},
	} {
		changed := strings.Replace(table, c.old, c.new, 1)
		var all strings.Builder
		for _, found := range Skips(tree, changed, ci) {
			all.WriteString(found.String() + "\n")
		}
		if changed == table || !strings.Contains(all.String(), c.want) {
			t.Errorf("%q for %q: no %q in:\n%s", c.new, c.old, c.want, all.String())
		}
	}
	changed := strings.Replace(ci, "-run TestOpenDKIM", "-run TestOther", 1)
	found := Skips(tree, table, changed)
	if len(found) != 1 || !strings.Contains(found[0].Text, "no command of the stage milter of .ci/run runs TestOpenDKIM") {
		t.Errorf("a stage that does not run the test: %v", found)
	}
}
