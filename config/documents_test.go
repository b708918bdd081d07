package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// elsewhere matches what is not of this file but of credentials, patterns of replies or scenarios,
// and digests that are cut off.
var elsewhere = regexp.MustCompile(`(?m)^for = \["|^mechanisms = |^\[\[pattern\]\]|^description = |…`)

// around is what some examples need of the rest of the file.
const around = `
[[listener]]
address = "192.0.2.1:587"
name = "submission"
[[listener]]
address = "192.0.2.1:588"
name = "shop"
[transport.bulk]
[source.a]
address = ["192.0.2.1"]
[source.b]
address = ["192.0.2.2"]
[source.n1]
address = ["192.0.2.3"]
[source.n2]
address = ["192.0.2.4"]
[source.shop]
address = ["192.0.2.5"]
`

// What the documents show of a configuration can be copied into one.
func TestExamplesOfDocuments(t *testing.T) {
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil || len(documents) < 30 {
		t.Fatal(documents, err)
	}
	read := 0
	for _, document := range append(documents, "../README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```toml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if elsewhere.MatchString(block) {
				continue
			}
			read++
			env := Environment{Hostname: "mail.example.com"}
			if _, err := Parse(filepath.Base(document), []byte(block), env); err == nil {
				continue
			}
			if _, err := Parse(filepath.Base(document), []byte(block+around), env); err != nil {
				t.Errorf("%s, block %d:\n%s\n%v", document, i+1, block, err)
			}
		}
	}
	if read < 40 {
		t.Errorf("only %d examples were read", read)
	}
}
