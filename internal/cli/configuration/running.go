package configuration

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// NewReloadCommand returns the command that has the daemon read its configuration again.
func NewReloadCommand() *cobra.Command {
	var p socket.Finder
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the daemon read its configuration again, and say what that has changed",
		Long: `Have the running daemon read its configuration file again, wait until the new
configuration is in force, and show what has changed. With a mistake in the file the old
configuration stays in force as a whole, each mistake is shown, and the exit status is 78.

"posthaste config diff" shows beforehand what a reload would change.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			done, err := c.Reload(cmd.Context(), false)
			if err != nil {
				return refusal(cmd, err)
			}
			tellWarnings(cmd.ErrOrStderr(), done.Warnings)
			out := cmd.OutOrStdout()
			if len(done.Changes) == 0 {
				fmt.Fprintln(out, "Reloaded; no parameter has changed. Maps, certificates and the like were read again.")
			} else {
				fmt.Fprintf(out, "Reloaded; %s:\n", human.Count(len(done.Changes), "change"))
				tellChanges(out, done.Changes)
			}
			tellRestart(out, done.Restart)
			return nil
		},
	}
	p.AddFlags(cmd.Flags())
	return cmd
}

func newDiffCommand() *cobra.Command {
	var p socket.Finder
	cmd := &cobra.Command{
		Use:   "diff [FILE]",
		Short: "Show what a reload would change",
		Long: `Compare the configuration that the running daemon has in force with its file, or
with another one. Each line is a parameter with its value in force and the new one. What
takes effect only when the daemon is started again is marked with "restart".

Without FILE, the daemon reads the file that it was started with, and the files that this
file names. With FILE, the command itself reads FILE, but not the files that FILE names.
If there are mistakes, the exit status is 78.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var other *config.Config
			if len(args) > 0 {
				var err error
				if other, err = configfile.Read(args[0]); err != nil {
					return err
				}
			}
			c, err := p.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			changes, waiting, err := difference(cmd, c, other)
			if err != nil {
				return err
			}
			if len(changes) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "No parameter differs.")
			}
			tellChanges(cmd.OutOrStdout(), changes)
			tellRestart(cmd.OutOrStdout(), waiting)
			return nil
		},
	}
	p.AddFlags(cmd.Flags())
	return cmd
}

// difference returns what differs between the configuration in force and another one, or the
// daemon's file if that is nil, and which other parameters have waited for a restart since an earlier reload.
func difference(cmd *cobra.Command, c *client.Client, other *config.Config) (changes []admin.ConfigChange, waiting []string, err error) {
	now, err := c.Configuration(cmd.Context(), false, false)
	if err != nil {
		return nil, nil, err
	}
	if changes, err = differing(cmd, c, other, now.Text); err != nil {
		return nil, nil, err
	}
	for _, pending := range now.Pending {
		if !slices.ContainsFunc(changes, func(c admin.ConfigChange) bool { return c.Key == pending.Key }) {
			waiting = append(waiting, pending.Key)
		}
	}
	return changes, waiting, nil
}

// differing returns what differs between the configuration in force, a text, and another one.
func differing(cmd *cobra.Command, c *client.Client, other *config.Config, inForce string) ([]admin.ConfigChange, error) {
	if other == nil {
		would, err := c.Reload(cmd.Context(), true)
		if err != nil {
			return nil, refusal(cmd, err)
		}
		tellWarnings(cmd.ErrOrStderr(), would.Warnings)
		return would.Changes, nil
	}
	running, err := config.Parse("the configuration in force", []byte(inForce), configfile.Environment())
	if err != nil {
		return nil, exit.New(exit.Unavailable, fmt.Errorf("the daemon's configuration cannot be read here: %w", err), "Is the daemon of another version than this command?")
	}
	var changes []admin.ConfigChange
	for _, change := range config.Diff(running, other) {
		changes = append(changes, admin.ConfigChange(change))
	}
	return changes, nil
}

// showRunning prints the configuration in force.
func showRunning(cmd *cobra.Command, p *socket.Finder, changed, asJSON bool) error {
	c, err := p.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	now, err := c.Configuration(cmd.Context(), changed, asJSON)
	if err != nil {
		return err
	}
	notes := cmd.OutOrStdout()
	if asJSON {
		notes = cmd.ErrOrStderr()
	}
	for _, pending := range now.Pending {
		fmt.Fprintf(notes, "# %s is %s until the next start\n", pending.Key, orNothing(pending.Old))
	}
	_, err = io.WriteString(cmd.OutOrStdout(), now.Text)
	return err
}

// refusal shows each mistake of a file that the daemon has refused in a line of its own.
func refusal(cmd *cobra.Command, err error) error {
	var problem *client.Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusUnprocessableEntity {
		return err
	}
	for _, mistake := range problem.Errors {
		fmt.Fprintln(cmd.ErrOrStderr(), human.Plain(mistake.Message))
	}
	return exit.New(exit.Config, errors.New(human.Plain(problem.Detail)), "\"posthaste config check FILE\" finds the same mistakes.")
}

func tellChanges(out io.Writer, changes []admin.ConfigChange) {
	width := 0
	for _, c := range changes {
		width = max(width, min(len(c.Key), 50))
	}
	for _, c := range changes {
		line := fmt.Sprintf("  %-*s  %s", width, human.Plain(c.Key), changeText(&c))
		if c.Restart {
			line += "  (restart)"
		}
		fmt.Fprintln(out, line)
	}
}

// changeText is the value in force and the new one. A table has none: it is new, or gone.
func changeText(c *admin.ConfigChange) string {
	const table = "{}"
	switch {
	case c.Old == "" && c.New == table:
		return "new"
	case c.Old == table && c.New == "":
		return "removed"
	}
	return orNothing(c.Old) + " -> " + orNothing(c.New)
}

// orNothing is a value, or what stands for none.
func orNothing(value string) string {
	if value == "" {
		return "none"
	}
	return human.Plain(value)
}

func tellRestart(out io.Writer, keys []string) {
	if len(keys) > 0 {
		fmt.Fprintf(out, "Takes effect when the daemon is started again: %s\n", human.Plain(strings.Join(keys, ", ")))
	}
}

func tellWarnings(to io.Writer, warnings []admin.ConfigWarning) {
	for _, w := range warnings {
		fmt.Fprintf(to, "warning: line %d: %s: %s\n", w.Line, human.Plain(w.Key), human.Plain(w.Message))
	}
}
