package config

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// unreadMax is the number of unreadable pieces at which a file that sets no known
// parameter is considered to be a file of another kind.
const unreadMax = 10

// setting matches the beginning of a line that sets a parameter or opens a table,
// in this file or in main.cf.
var setting = regexp.MustCompile(`(?m)^[ \t]*\[{0,2}[ \t]*["']?([A-Za-z0-9_-]+)["']?[ \t]*[=.\]]`)

// isSomethingElse reports whether a file is not a configuration file, and then
// complains of that alone: complaints about each of its lines would not help.
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
	src.Only(tomlfile.Span{}, tomlfile.Problem{Message: "this is not a configuration file: it is not TOML, and sets no known parameter", Hint: hint})
	return true
}
