package qmgr_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A sequence in docs/scheduler.md: digits, perhaps a remark, and the script that it
// is the answer of, or none if it is that of the line above.
var documented = regexp.MustCompile(`(?m)^((?:\d+ ){3,}\d+)  +(?:.*?(qmgr/testdata/[a-z-]+\.txt)|[^|\n]*)$`)

// Each sequence that docs/scheduler.md shows is an answer of the script that it
// names. TestScripts sees to it that the script's answer is what the scheduler does.
func TestDocumentedSequences(t *testing.T) {
	text, err := os.ReadFile("../docs/scheduler.md")
	if err != nil {
		t.Fatal(err)
	}
	script, found := "", 0
	for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
		if m[2] != "" {
			answers, err := os.ReadFile("../" + m[2])
			if err != nil {
				t.Fatal(err)
			}
			script = string(answers)
		}
		if found++; !strings.Contains(script, "\n"+m[1]+"\n") {
			t.Errorf("the script named beside or above it has no answer %q", m[1])
		}
	}
	if found < 9 {
		t.Errorf("%d sequences found in the document", found)
	}
}
