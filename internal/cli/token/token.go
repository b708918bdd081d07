// Package token has the commands that make, list and remove the tokens with which programs
// use the administration API over the network. They work on the file alone, so that the
// daemon need not run; it reads the file at its start and at a reload.
package token

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/tokens"
)

// NewCommand returns the commands about tokens.
func NewCommand() *cobra.Command {
	return command.Group("token", "Make, list and remove tokens for the administration API", `Make, list and remove the tokens with which programs use the administration API on the
addresses of admin_listen. The file that admin_tokens names has a hash of each. The daemon
reads it when it starts, and at "posthaste reload". See docs/api.md.`,
		newAddCommand(), newListCommand(), newRemoveCommand())
}

// place is where the tokens are.
func place() configfile.Named {
	return configfile.Named{What: "tokens", Parameter: "admin_tokens", In: func(c *config.Config) string { return c.Remote.Tokens }}
}

func newAddCommand() *cobra.Command {
	at := place()
	var scope, expires string
	cmd := &cobra.Command{
		Use:        "add NAME",
		SuggestFor: []string{"create", "new", "issue"},
		Short:      "Make a token and print it",
		Long: `Make a token and print it. It cannot be printed again, because the file has only its hash.
NAME is shown in the log with every order that is given with the token. With the scope read,
a program may look at everything, including the contents of mail; with operate, it may also
give orders.

If the file does not exist, it is made, readable by its owner only. If root makes it for a
daemon that runs as another user, it is also readable by the group of the queue directory.`,
		Example: `  posthaste token add dashboard --scope read --config /etc/posthaste/posthaste.toml
  posthaste token add deploy --scope operate --expires 90d --file /etc/posthaste/tokens`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := tokens.Token{Name: args[0]}
			var err error
			if t.Scope, err = tokens.ParseScope(scope); err != nil {
				return command.Misuse(cmd, fmt.Errorf("--scope: %w", err))
			}
			if expires != "" {
				age, err := admin.ParseAge(expires)
				if err != nil || age < 24*time.Hour {
					return command.Misuse(cmd, fmt.Errorf("--expires takes a time of a day or more, such as 30d or 12w, not %q", expires))
				}
				t.Until = time.Now().UTC().AddDate(0, 0, 1).Add(age).Truncate(24 * time.Hour)
			}
			path, readers, err := at.Path()
			if err != nil {
				return err
			}
			secret, err := tokens.Add(path, t, readers)
			if errors.Is(err, os.ErrNotExist) {
				return exit.New(exit.NoInput, err, "Make the directory first.")
			}
			if err != nil {
				return codeOf(err, t.Name)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "This token is shown only once. A running daemon knows it after \"posthaste reload\".")
			_, err = fmt.Fprintln(cmd.OutOrStdout(), secret)
			return err
		},
	}
	at.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&scope, "scope", "read", "what the token allows: `read` or operate")
	cmd.Flags().StringVar(&expires, "expires", "", "the `time` after which the token is no longer valid, such as 30d (default: no limit)")
	return cmd
}

func newListCommand() *cobra.Command {
	at := place()
	cmd := &cobra.Command{
		Use:        "list",
		SuggestFor: []string{"ls", "show"},
		Short:      "List the tokens with their names, scopes and ends",
		Args:       cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, _, err := at.Path()
			if err != nil {
				return err
			}
			set, err := tokens.Open(path)
			if err != nil {
				return codeOf(err, "")
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			for _, t := range set.All() {
				until := "always"
				switch {
				case !t.Valid(time.Now()):
					until = "expired"
				case !t.Until.IsZero():
					until = "until " + t.Until.Format(time.DateOnly)
				}
				fmt.Fprintf(out, "%s\t%s\t%s\n", t.Name, t.Scope, until)
			}
			return out.Flush()
		},
	}
	at.AddFlags(cmd.Flags())
	return cmd
}

func newRemoveCommand() *cobra.Command {
	at := place()
	cmd := &cobra.Command{
		Use:        "remove NAME",
		SuggestFor: []string{"delete", "del", "rm", "revoke"},
		Short:      "Remove a token",
		Long:       `Remove a token. A running daemon refuses it after "posthaste reload".`,
		Args:       cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := at.Path()
			if err != nil {
				return err
			}
			if err := tokens.Remove(path, args[0]); err != nil {
				return codeOf(err, args[0])
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), "A running daemon refuses it after \"posthaste reload\".")
			return err
		},
	}
	at.AddFlags(cmd.Flags())
	return cmd
}

// codeOf returns an error of the file with the program's exit code.
func codeOf(err error, name string) error {
	switch {
	case errors.Is(err, tokens.ErrExists):
		return exit.New(exit.Data, fmt.Errorf("%s: %w", name, err), "Remove it first, or choose another name.")
	case errors.Is(err, tokens.ErrMissing):
		return exit.New(exit.NoInput, fmt.Errorf("%s: %w", name, err), "\"posthaste token list\" lists them.")
	case errors.Is(err, os.ErrPermission):
		return exit.New(exit.NoPerm, err, "Run it as the owner of the file, or as root.")
	case errors.Is(err, os.ErrNotExist):
		return exit.New(exit.NoInput, err, "\"posthaste token add\" makes it.")
	}
	return exit.New(exit.Data, err, "")
}
