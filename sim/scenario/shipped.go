package scenario

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/sim"
)

//go:embed shipped
var shipped embed.FS

// Shipped returns the names of the scenarios that come with the program, in
// alphabetical order.
func Shipped() []string {
	entries, _ := fs.ReadDir(shipped, "shipped") // it is part of the program
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".toml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// Text returns the file of a shipped scenario, for a user who wants to change it.
func Text(name string) ([]byte, error) {
	text, err := shipped.ReadFile("shipped/" + name + ".toml")
	if err != nil {
		hint := ""
		if guess := near.Name(name, Shipped()); guess != "" {
			hint = fmt.Sprintf("; did you mean %q?", guess)
		}
		return nil, fmt.Errorf("there is no scenario %q%s", name, hint)
	}
	return text, nil
}

// Open reads a shipped scenario.
func Open(name string) (*sim.Scenario, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return Parse(name+".toml", name, text, shipped)
}
