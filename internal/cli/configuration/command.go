// Package configuration has the commands that check, show and import the configuration, and
// reads its file for the other commands.
package configuration

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
)

// NewCommand returns the commands that check, show, compare and import the configuration.
func NewCommand() *cobra.Command {
	return command.Group("config", "Check, show, compare and import the configuration", "",
		newConfigCheckCommand(), newConfigShowCommand(), newDiffCommand(), newConfigImportCommand())
}

func newConfigCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Report all mistakes in a configuration file",
		Long: `Report all mistakes in a configuration file, each with its line, its column and the
allowed values. The exit status is 78 if there are mistakes. Warnings do not change
it. They are about values that have no effect, such as a limit that a stricter one
keeps from being reached, certificates that expire within 14 days, programs and users
that do not exist, and credentials that are never used.

The files that the configuration names are read, too: certificates, users, maps,
credentials, and private keys. Run the command as the user that runs the daemon, who
must be able to read them. A group that can read a file with secrets must be one of
that user's groups.

Run it before a reload: if the new configuration has a mistake, the daemon keeps
the old one, and says so in its log and to "posthaste reload".`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := configfile.Read(args[0])
			if err != nil {
				return err
			}
			expiring, err := cfg.CheckFiles(time.Now())
			if err != nil {
				return exit.New(exit.Config, err, "The daemon does not start, or keeps the old configuration, until these files can be read.")
			}
			command.WritePlain(cmd.ErrOrStderr(), cfg.Warn(args[0], expiring))
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no mistakes; the queue is in %s\n", args[0], cfg.QueueDirectory)
			return err
		},
	}
}

func newConfigShowCommand() *cobra.Command {
	var path string
	var changed, asJSON, example, running bool
	cmd := &cobra.Command{
		Use:        "show",
		SuggestFor: []string{"postconf"},
		Short:      "Show a configuration with its defaults, or an explained example",
		Long: `Show the configuration that a file results in: every parameter with its value, with
a mark where this is the default. The output is itself a valid configuration file.

Without --config it shows the built-in defaults. With --running it shows what the
running daemon has in force; --config then only says which daemon. With --example it
prints a file in which every parameter is explained and commented out.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(command.Exclusive(cmd, "example", "json"), command.Exclusive(cmd, "example", "config"), command.Exclusive(cmd, "example", "running")); err != nil {
				return err
			}
			if example {
				_, err := fmt.Fprint(cmd.OutOrStdout(), config.Example)
				return err
			}
			if running {
				return showRunning(cmd, &socket.Finder{Config: path}, changed, asJSON)
			}
			cfg, err := configfile.Read(path)
			if err != nil {
				return err
			}
			return cfg.Show(cmd.OutOrStdout(), changed, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&path, "config", "c", "", "configuration `file` (TOML); without it, the defaults")
	flags.BoolVar(&running, "running", false, "what the running daemon has in force")
	flags.BoolVarP(&changed, "changed", "n", false, "only what differs from the defaults, as postconf -n does")
	flags.BoolVar(&asJSON, "json", false, "as one JSON object")
	flags.BoolVar(&example, "example", false, "print a file in which every parameter is explained")
	return cmd
}
