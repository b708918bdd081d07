// Package user has the commands that change and list the users who may log in. They work on
// the file alone, so that the daemon need not run; it notices the change by itself.
package user

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/sasl"
)

// NewCommand returns the commands about users.
func NewCommand() *cobra.Command {
	return command.Group("user", "Add, list and remove the users who may log in", `Change and list the users who may log in on listeners with AUTH. They are in the file that the
parameter users names. The daemon notices a change within seconds.
See docs/authentication.md.`,
		newAddCommand(), newPasswdCommand(), newListCommand(), newRemoveCommand())
}

// place is where the users are.
func place() configfile.Named {
	return configfile.Named{What: "users", Parameter: "users", In: func(c *config.Config) string { return c.Logins.Users }}
}

// secret is how a password is read, and stored.
type secret struct {
	stdin     bool
	noSCRAM   bool
	onlySCRAM bool
}

func (s *secret) flags(f *pflag.FlagSet) {
	f.BoolVar(&s.stdin, "stdin", false, "read the password from the first line of the standard input, without asking")
	f.BoolVar(&s.noSCRAM, "no-scram", false, "store no keys for SCRAM: a stolen file then contains only a hash that is much harder to break")
	f.BoolVar(&s.onlySCRAM, "only-scram", false, "store no hash for PLAIN and LOGIN")
}

func (s *secret) kinds() users.Kinds {
	switch {
	case s.noSCRAM:
		return users.KindHash
	case s.onlySCRAM:
		return users.KindScram
	}
	return users.KindBoth
}

// read returns the password. It is never an argument: other users of the machine see
// those.
func (s *secret) read(cmd *cobra.Command) (string, error) {
	if s.stdin {
		return firstLine(cmd.InOrStdin())
	}
	in, ok := command.File(cmd.InOrStdin())
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", exit.New(exit.Usage, errors.New("the standard input is not a terminal"), "Use --stdin to read the password from a pipe.")
	}
	return askTwice(func(prompt string) (string, error) {
		fmt.Fprint(cmd.ErrOrStderr(), prompt)
		defer fmt.Fprintln(cmd.ErrOrStderr())
		text, err := term.ReadPassword(int(in.Fd()))
		return string(text), err
	})
}

// askTwice asks for a new password, which cannot be seen while it is typed.
func askTwice(ask func(prompt string) (string, error)) (string, error) {
	first, err := ask("Password: ")
	if err != nil {
		return "", exit.New(exit.IO, fmt.Errorf("read the password: %w", err), "")
	}
	second, err := ask("The same again: ")
	switch {
	case err != nil:
		return "", exit.New(exit.IO, fmt.Errorf("read the password: %w", err), "")
	case first != second:
		return "", exit.New(exit.Data, errors.New("the two passwords differ"), "Nothing was changed; try again.")
	}
	return first, nil
}

func firstLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, 2*sasl.PasswordMax)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", exit.New(exit.IO, fmt.Errorf("read the password: %w", err), "")
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}

func newAddCommand() *cobra.Command {
	at := place()
	var s secret
	cmd := &cobra.Command{
		Use:        "add NAME",
		SuggestFor: []string{"create", "new", "useradd"},
		Short:      "Add a user",
		Long: `Add a user. The password is asked for twice, or read with --stdin. If the file does not exist,
it is made, readable by its owner only. If root makes it for a daemon that runs as another user,
it is also readable by the group of the queue directory.`,
		Example: `  posthaste user add alice@example.com --config /etc/posthaste/posthaste.toml
  pwgen 20 1 | posthaste user add shop --stdin --file /etc/posthaste/users`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.Exclusive(cmd, "no-scram", "only-scram"); err != nil {
				return err
			}
			path, readers, err := at.Path()
			if err != nil {
				return err
			}
			if _, err := users.CheckName(args[0]); err != nil { // before a password is asked for
				return exit.New(exit.Usage, err, "")
			}
			password, err := s.read(cmd)
			if err != nil {
				return err
			}
			return codeOf(users.AddUser(path, args[0], password, s.kinds(), readers), args[0])
		},
	}
	at.AddFlags(cmd.Flags())
	s.flags(cmd.Flags())
	return cmd
}

func newPasswdCommand() *cobra.Command {
	at := place()
	var s secret
	cmd := &cobra.Command{
		Use:        "passwd NAME",
		SuggestFor: []string{"password", "change", "set"},
		Short:      "Change the password of a user",
		Long: `Change the password of a user. The new one is asked for twice, or read with --stdin. Clients
that have logged in stay logged in until they disconnect.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.Exclusive(cmd, "no-scram", "only-scram"); err != nil {
				return err
			}
			path, _, err := at.Path()
			if err != nil {
				return err
			}
			password, err := s.read(cmd)
			if err != nil {
				return err
			}
			return codeOf(users.SetPassword(path, args[0], password, s.kinds()), args[0])
		},
	}
	at.AddFlags(cmd.Flags())
	s.flags(cmd.Flags())
	return cmd
}

func newRemoveCommand() *cobra.Command {
	at := place()
	cmd := &cobra.Command{
		Use:        "remove NAME",
		SuggestFor: []string{"delete", "del", "rm", "drop"},
		Short:      "Remove a user",
		Long:       `Remove a user. Clients that have logged in stay logged in until they disconnect.`,
		Args:       cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := at.Path()
			if err != nil {
				return err
			}
			return codeOf(users.RemoveUser(path, args[0]), args[0])
		},
	}
	at.AddFlags(cmd.Flags())
	return cmd
}

func newListCommand() *cobra.Command {
	at := place()
	cmd := &cobra.Command{
		Use:        "list",
		SuggestFor: []string{"ls", "show"},
		Short:      "List the users and the mechanisms that they can log in with",
		Args:       cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := at.Path()
			if err != nil {
				return err
			}
			f, err := users.Open(path)
			if err != nil {
				return codeOf(err, "")
			}
			set := f.Users()
			out := bufio.NewWriter(cmd.OutOrStdout())
			for _, name := range set.Names() {
				fmt.Fprintf(out, "%s\t%s\n", name, set.Mechanisms(name))
			}
			return out.Flush()
		},
	}
	at.AddFlags(cmd.Flags())
	return cmd
}

// codeOf returns an error of the file with the program's exit code.
func codeOf(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, users.ErrExists):
		return exit.New(exit.Data, fmt.Errorf("%s: %w", name, err), "\"posthaste user passwd\" changes the password.")
	case errors.Is(err, users.ErrMissing):
		return exit.New(exit.NoInput, fmt.Errorf("%s: %w", name, err), "\"posthaste user list\" lists them.")
	case errors.Is(err, os.ErrPermission):
		return exit.New(exit.NoPerm, err, "Run it as the owner of the file, or as root.")
	case errors.Is(err, os.ErrNotExist):
		return exit.New(exit.NoInput, err, "")
	}
	return exit.New(exit.Data, err, "")
}
