// Package command has what all commands share: checks of arguments and flags, with a
// guess what was meant; the exit code and message of an error; and the streams of a
// command, which a test can replace.
package command

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// Streams are what a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Execute runs a command, or one below it, which refuses what it does not know.
func Execute(ctx context.Context, root *cobra.Command, args []string, s Streams) error {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(wrongFlag)
	checkArgs(root)
	guardFlags(root)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	if err := helpOfNothing(root, args); err != nil {
		return err
	}
	return root.ExecuteContext(ctx)
}

// Misuse returns an error with the usage of a command.
func Misuse(cmd *cobra.Command, err error) error {
	return exit.New(exit.Usage, err, "Usage: "+cmd.UseLine()+"\nTry \""+cmd.CommandPath()+" --help\".")
}

// Group returns a command that has only the commands below it; by itself it prints its
// help.
func Group(use, short, long string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(below...)
	return cmd
}
