// Package cli is the command line of posthaste: the tree of its commands, and the
// programs that it stands in for.
//
// # Procedure
//
// Run looks at the name it was called by. Under the name of a program of Postfix
// (package postfix) it reads that program's options; under any other name it is a tree
// of commands, each family in a package below this one. An error that reaches Run knows
// its exit code (package exit), as in sysexits(3), or package command finds one.
//
// The queue commands know only the administration API (admin/client), so they work on
// a daemon of any size, and sendmail only the daemon's submission socket. The daemon
// itself is internal/daemon, which package service runs.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configuration"
	"github.com/posthaste-mta/posthaste/internal/cli/demo"
	"github.com/posthaste-mta/posthaste/internal/cli/dkim"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/postfix"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/receiver"
	"github.com/posthaste-mta/posthaste/internal/cli/recording"
	"github.com/posthaste-mta/posthaste/internal/cli/replies"
	"github.com/posthaste-mta/posthaste/internal/cli/report"
	"github.com/posthaste-mta/posthaste/internal/cli/service"
	"github.com/posthaste-mta/posthaste/internal/cli/simulation"
	"github.com/posthaste-mta/posthaste/internal/cli/token"
	"github.com/posthaste-mta/posthaste/internal/cli/top"
	"github.com/posthaste-mta/posthaste/internal/cli/user"
	"github.com/posthaste-mta/posthaste/internal/cli/version"
)

// Run runs the program under the name it was called by. Output that could not be
// written is an error even if the command does not check for it: most commands write
// with fmt, and cobra writes the help.
func Run(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	out := &command.Output{Writer: s.Out}
	s.Out = out
	code := call(ctx, name, args, s)
	if code != exit.OK || out.Err == nil {
		return code
	}
	if _, other := postfix.Programs()[name]; !other {
		name = "posthaste"
	}
	return command.Complain(s.Err, name, exit.New(exit.IO, out.Err, ""))
}

func call(ctx context.Context, name string, args []string, s command.Streams) exit.Code {
	if call, ok := postfix.Programs()[name]; ok {
		if len(args) == 1 && args[0] == "--help" && name != "sendmail" {
			return postfix.Help(name, s.Out)
		}
		return call(ctx, name, args, s)
	}
	return command.Complain(s.Err, "posthaste", command.Execute(ctx, NewRootCommand(), args, s))
}

// commands are the subcommands.
func commands() []*cobra.Command {
	return []*cobra.Command{
		service.NewCommand(),
		configuration.NewCommand(),
		configuration.NewReloadCommand(),
		configuration.NewLogCommand(),
		queue.NewCommand(),
		queue.NewExplainCommand(),
		queue.NewEventsCommand(),
		top.NewCommand(),
		postfix.NewSendmailCommand(),
		dkim.NewCommand(),
		user.NewCommand(),
		token.NewCommand(),
		replies.NewCommand(),
		report.NewCommand(),
		demo.NewCommand(),
		receiver.NewCommand(),
		recording.NewVerifyCommand(),
		simulation.NewCommand(),
		newTraceCommand(),
		version.NewCommand(),
	}
}

// newTraceCommand returns the commands for recordings of the scheduler, and the one that watches connections.
func newTraceCommand() *cobra.Command {
	cmd := recording.NewTraceCommand()
	cmd.AddCommand(queue.NewTraceSMTPCommand())
	return cmd
}

// NewRootCommand returns the program under its own name, with all of its commands.
func NewRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "posthaste",
		Short: "An outbound mail queue manager",
		Long: `Posthaste accepts mail, stores it safely on disk, and delivers it fast without
overloading the receivers.

When called by the name sendmail, mailq, postcat, postqueue, postsuper or qshape, it
behaves like the program of that name.`,
		Version: version.String(),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(commands()...)
	root.SetVersionTemplate("posthaste {{.Version}}\n")
	command.AddCobraCommands(root)
	return root
}
