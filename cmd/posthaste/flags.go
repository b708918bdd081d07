package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A givenError says what is wrong with how a flag is given.
type givenError string

func (e givenError) Error() string { return string(e) }

// guardFlags has all flags of a command, and of those below it, refuse what is
// hardly ever meant: a second value for a flag that takes one, which would pass over the
// first; an empty value, which a variable of a script that is not set leaves behind and
// which would stand for the default; and a negative number.
func guardFlags(cmd *cobra.Command) {
	guard := func(f *pflag.Flag) {
		_, guarded := f.Value.(*guardedValue)
		if kind := f.Value.Type(); !guarded && kind != "bool" {
			several := strings.HasSuffix(kind, "Slice") || strings.HasSuffix(kind, "Array")
			if f.DefValue == "0s" || f.DefValue == "[]" {
				f.DefValue = "" // pflag does not see in our type that the help need not tell it
			}
			f.Value = &guardedValue{Value: f.Value, name: f.Name, several: several, empty: f.Name == "reason"}
		}
	}
	cmd.Flags().VisitAll(guard)
	cmd.PersistentFlags().VisitAll(guard)
	for _, c := range cmd.Commands() {
		guardFlags(c)
	}
}

// A guardedValue is the value of a flag that guardFlags looks after.
type guardedValue struct {
	pflag.Value
	name    string
	several bool // it may be given several times
	empty   bool // it may be empty
	given   bool
}

// Set implements pflag.Value.
func (v *guardedValue) Set(text string) error {
	switch kind := v.Type(); {
	case v.given && !v.several:
		return givenError("--" + v.name + " is given twice, and takes one value")
	case text == "" && !v.empty:
		return givenError("--" + v.name + " is given with an empty value")
	case strings.HasPrefix(text, "-") && (kind == "int" || kind == "uint64" || kind == "duration"):
		return givenError("--" + v.name + " takes nothing below 0, not \"" + plain(text) + "\"")
	}
	v.given = true
	return v.Value.Set(text)
}
