package dsn

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What the manual shows an operator is what is sent: every example in it is
// cut from a golden file.
func TestManualShowsGoldens(t *testing.T) {
	manual, err := os.ReadFile("../docs/reports.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)<!-- from dsn/(\\S+) -->\n```\n(.*?)```\n").FindAllStringSubmatch(string(manual), -1)
	if len(examples) != strings.Count(string(manual), "<!-- from ") || len(examples) == 0 {
		t.Errorf("%d examples could be read", len(examples))
	}
	for _, e := range examples {
		file, err := os.ReadFile(e[1])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(file), "\n"+e[2]) {
			t.Errorf("not in %s:\n%s", e[1], e[2])
		}
	}
}
