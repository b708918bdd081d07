package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// checkArgs gives errors of the arguments of all commands their exit code.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil && slices.Contains(args, "") {
				err = exit.New(exit.Usage, errors.New("an argument is empty"), "Usage: "+cmd.UseLine()+"\nTry \""+cmd.CommandPath()+" --help\".")
			}
			if err == nil {
				return nil
			}
			if cmd.HasAvailableSubCommands() && len(args) > 0 {
				// What takes arguments besides may have got too many of them.
				if cmd.SuggestionsMinimumDistance = 2; check(cmd, args[:1]) != nil || len(cmd.SuggestionsFor(args[0])) > 0 {
					return unknownCommand(cmd, args[0])
				}
			}
			var known *exit.Error
			if errors.As(err, &known) {
				return err
			}
			return Misuse(cmd, wrongArgs(cmd, check, args))
		}
	}
	for _, c := range cmd.Commands() {
		checkArgs(c)
	}
}

// wrongArgs names the argument that a command does not take, or says that one is
// missing.
func wrongArgs(cmd *cobra.Command, check cobra.PositionalArgs, args []string) error {
	for n := len(args) - 1; n >= 0; n-- {
		if check(cmd, args[:n]) == nil {
			return fmt.Errorf("unexpected argument %q", human.Plain(args[n]))
		}
	}
	return errors.New("an argument is missing")
}

// unknownCommand says what was probably meant: a command of a similar name, or
// one further down.
func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(name)
	slices.Sort(near)
	near = slices.Compact(near) // cobra has one twice that it finds by its name and by SuggestFor
	starts := func(s string) bool { return strings.HasPrefix(s, name) }
	if slices.ContainsFunc(near, starts) {
		near = slices.DeleteFunc(near, func(s string) bool { return !starts(s) })
	}
	for _, c := range cmd.Commands() {
		for _, below := range c.Commands() {
			if below.Name() == name || below.HasAlias(name) || slices.Contains(below.SuggestFor, name) {
				near = append(near, below.CommandPath())
			}
		}
	}
	hint := "Try \"" + cmd.CommandPath() + " --help\"."
	if len(near) > 0 {
		hint = "Did you mean \"" + strings.Join(near, "\" or \"") + "\"?"
	}
	return exit.New(exit.Usage, errors.New("there is no command "+cmd.CommandPath()+" "+human.Plain(name)), hint)
}

// helpOfNothing refuses to explain a command that does not exist, of which cobra would
// show the help of the one above, with status 0.
func helpOfNothing(root *cobra.Command, args []string) error {
	if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasAvailableSubCommands() || cmd.Args == nil || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil
	}
	return cmd.Args(cmd, rest[:1])
}

// AddCobraCommands adds the commands that cobra makes, and has them refuse what
// they do not know: by themselves they print help and end with 0.
func AddCobraCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if found, rest, _ := root.Find(args); len(rest) > 0 {
					return unknownCommand(found, rest[0])
				}
				return nil
			}
		case "completion":
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
