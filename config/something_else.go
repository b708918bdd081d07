package config

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// unreadMax is how many pieces of a file that sets nothing known may be no TOML
// before it is taken for a file of another kind.
const unreadMax = 10

// setting is how a line begins that sets a parameter or opens a table, in this file
// or in main.cf.
var setting = regexp.MustCompile(`(?m)^[ \t]*\[{0,2}[ \t]*["']?([A-Za-z0-9_-]+)["']?[ \t]*[=.\]]`)

// isSomethingElse tells whether a file is no configuration at all, and complains of
// that alone: a complaint about each of its lines would help nobody.
func isSomethingElse(src *tomlfile.File, text []byte) bool {
	const hint = `"posthaste config show --example" prints one to start from`
	if bytes.IndexByte(text, 0) >= 0 {
		src.Only(tomlfile.Span{}, tomlfile.Problem{Message: "this is not a configuration file: it is not text", Hint: hint})
		return true
	}
	if src.Unread() < unreadMax {
		return false
	}
	known := append(namesOf(tableTop), tableNames()...)
	for _, found := range setting.FindAllSubmatch(text, -1) {
		name := string(found[1])
		if _, ok := foreign[name]; ok || slices.Contains(known, name) {
			return false
		}
	}
	src.Only(tomlfile.Span{}, tomlfile.Problem{Message: "this is not a configuration file: it is not TOML, and sets no parameter that there is", Hint: hint})
	return true
}
