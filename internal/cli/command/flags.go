package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
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
				f.DefValue = "" // pflag does not recognize zero values of our type
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
		return givenError("--" + v.name + " takes nothing below 0, not \"" + human.Plain(text) + "\"")
	}
	v.given = true
	return v.Value.Set(text)
}

// Repetition returns the command line that repeats a command, as a shell wants it.
func Repetition(cmd *cobra.Command) string {
	words := strings.Fields(cmd.CommandPath())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value
		if guarded, ok := value.(*guardedValue); ok {
			value = guarded.Value
		}
		switch list, many := value.(pflag.SliceValue); {
		case many:
			for _, text := range list.GetSlice() {
				words = append(words, quoted("--"+f.Name+"="+text))
			}
		case f.Value.Type() == "bool" && f.Value.String() == "true":
			words = append(words, "--"+f.Name)
		default:
			words = append(words, quoted("--"+f.Name+"="+f.Value.String()))
		}
	})
	for _, arg := range cmd.Flags().Args() {
		words = append(words, quoted(arg))
	}
	return strings.Join(words, " ")
}

// quoted returns a word as a shell wants it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:@,+%", r)
	}
	if strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// Exclusive refuses more than one of some flags.
func Exclusive(cmd *cobra.Command, names ...string) error {
	var given []string
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return Misuse(cmd, errors.New(strings.Join(given, " and ")+" exclude each other"))
	}
	return nil
}

// wrongFlag says what is wrong with a flag, and what was probably meant.
func wrongFlag(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		invalid *pflag.InvalidValueError
		given   givenError
	)
	switch {
	case errors.As(err, &given):
		return Misuse(cmd, given)
	case errors.As(err, &unknown):
		if near := nearFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return exit.New(exit.Usage, err, "Did you mean \"--"+near+"\"?")
		}
	case errors.As(err, &invalid):
		takes := map[string]string{"int": "a whole number", "uint": "a whole number", "uint64": "a whole number", "duration": "a time such as 200ms or 5s", "bool": "true or false"}
		f := invalid.GetFlag()
		err = fmt.Errorf("--%s takes %s, not %q", f.Name, cmp.Or(takes[f.Value.Type()], f.Value.Type()), human.Plain(invalid.GetValue()))
	}
	return Misuse(cmd, err)
}

// nearFlag returns the flag that is most like a name; "" if none is. Cobra
// looks only for commands that are alike, so the flags are dressed up as such.
func nearFlag(cmd *cobra.Command, name string) string {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := flags.SuggestionsFor(name); len(name) > 1 && len(near) == 1 {
		return near[0]
	}
	return ""
}
