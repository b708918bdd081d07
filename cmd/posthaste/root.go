package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/posthaste-mta/posthaste/admin/client"
)

// streams are what a command reads and writes.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// commands are the subcommands. Each has a file of its own.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newServeCommand(),
		newConfigCommand(),
		newQueueCommand(),
		newSendmailCommand(),
		newDemoCommand(),
		newSinkCommand(),
		newVerifyCommand(),
		newSimCommand(),
		newTraceCommand(),
		newVersionCommand(),
	}
}

// newRootCommand returns the program as it is called by its own name.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "posthaste",
		Short: "An outbound mail queue",
		Long: `Posthaste takes mail in, keeps it safe on disk, and delivers it fast without
overrunning whoever receives it.

Called by the name sendmail, mailq, postqueue, postsuper or qshape, it behaves
like the program of that name.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(commands()...)
	root.SetVersionTemplate("posthaste {{.Version}}\n")
	root.SetFlagErrorFunc(wrongFlag)
	addCobraCommands(root)
	checkArgs(root)
	guardFlags(root)
	return root
}

// misuse says how a command is to be called.
func misuse(cmd *cobra.Command, err error) error {
	return &exit{exitUsage, err, "Usage: " + cmd.UseLine() + "\nTry \"" + cmd.CommandPath() + " --help\"."}
}

// checkArgs makes all commands tell a wrong command line by its exit code.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil && slices.Contains(args, "") {
				err = &exit{exitUsage, errors.New("an argument is empty"), "Usage: " + cmd.UseLine() + "\nTry \"" + cmd.CommandPath() + " --help\"."}
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
			var known *exit
			if errors.As(err, &known) {
				return err
			}
			return misuse(cmd, wrongArgs(cmd, check, args))
		}
	}
	for _, c := range cmd.Commands() {
		checkArgs(c)
	}
}

// wrongArgs tells which argument a command has no use for, or that one is
// missing.
func wrongArgs(cmd *cobra.Command, check cobra.PositionalArgs, args []string) error {
	for n := len(args) - 1; n >= 0; n-- {
		if check(cmd, args[:n]) == nil {
			return fmt.Errorf("unexpected argument %q", plain(args[n]))
		}
	}
	return errors.New("an argument is missing")
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
		return misuse(cmd, given)
	case errors.As(err, &unknown):
		if near := nearFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return &exit{exitUsage, err, "Did you mean \"--" + near + "\"?"}
		}
	case errors.As(err, &invalid):
		takes := map[string]string{"int": "a whole number", "uint": "a whole number", "uint64": "a whole number", "duration": "a time such as 200ms or 5s", "bool": "true or false"}
		f := invalid.GetFlag()
		err = fmt.Errorf("--%s takes %s, not %q", f.Name, cmp.Or(takes[f.Value.Type()], f.Value.Type()), plain(invalid.GetValue()))
	}
	return misuse(cmd, err)
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

// unknownCommand says what was probably meant: a command of a similar name, or
// one further down.
func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(name)
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
	return &exit{exitUsage, errors.New("there is no command " + cmd.CommandPath() + " " + plain(name)), hint}
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

// addCobraCommands adds the commands that cobra makes, and has them refuse what
// they do not know: by themselves they print help and end with 0.
func addCobraCommands(root *cobra.Command) {
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

// The names of the daemon's sockets in its queue directory, and where that is
// if nobody says.
const (
	adminSocket    = "admin.sock"
	submitSocket   = "submit.sock"
	localQueue     = "posthaste-data"
	systemQueue    = "/var/spool/posthaste"
	queueDirectory = "POSTHASTE_QUEUE_DIRECTORY" // environment variable
)

// A place says where the daemon is.
type place struct {
	socket    string // of the administration API or for mail, as is asked for
	directory string
	config    string
	system    bool // not to look in the working directory
}

// addFlags adds the flags that say where the daemon is.
func (p *place) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.socket, "socket", "", "the daemon's administration `socket`")
	f.StringVar(&p.directory, "queue-directory", "", "the daemon's queue `directory` (default $"+queueDirectory+", ./"+localQueue+
		" if it is there, or "+systemQueue+")")
	f.StringVarP(&p.config, "config", "c", "", "take it from the daemon's configuration `file`")
}

// check refuses a place that is told in two ways, of which one would be passed over.
func (p *place) check() error {
	var given []string
	for _, one := range [][2]string{{"--socket", p.socket}, {"--queue-directory", p.directory}, {"--config", p.config}} {
		if one[1] != "" {
			given = append(given, one[0])
		}
	}
	if len(given) > 1 {
		return usageError("%s exclude each other: each says where the daemon is", strings.Join(given, " and "))
	}
	return nil
}

// admin returns the path of the administration socket.
func (p *place) admin() (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	if p.socket != "" {
		return p.socket, nil
	}
	if p.config != "" {
		cfg, err := placeConfig(p.config)
		if err != nil {
			return "", err
		}
		if cfg.AdminSocket == "" {
			return "", &exit{exitConfig, errors.New("the daemon has no administration socket"), "Set admin_socket in " + p.config + "."}
		}
		return cfg.AdminSocketPath(), nil
	}
	return filepath.Join(p.queue(), adminSocket), nil
}

// submit returns the path of the socket that takes mail.
func (p *place) submit() (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	if p.socket != "" {
		return p.socket, nil
	}
	if p.config != "" {
		cfg, err := placeConfig(p.config)
		if err != nil {
			return "", err
		}
		if cfg.SubmissionSocket == "" {
			return "", &exit{exitConfig, errors.New("the daemon has no submission socket"), "Set submission_socket in " + p.config + "."}
		}
		return cfg.SubmissionSocketPath(), nil
	}
	return filepath.Join(p.queue(), submitSocket), nil
}

// queue returns the queue directory. A program that stands in for sendmail is
// called from anywhere, directories that others can write in among them, so it
// does not take mail to a socket that happens to be there.
func (p *place) queue() string {
	if p.directory != "" {
		return p.directory
	}
	if directory := os.Getenv(queueDirectory); directory != "" {
		return directory
	}
	if !p.system {
		if info, err := os.Stat(localQueue); err == nil && info.IsDir() {
			return localQueue
		}
	}
	return systemQueue
}

// dial returns a client of the daemon.
func (p *place) dial() (*client.Client, error) {
	socket, err := p.admin()
	if err != nil {
		return nil, err
	}
	return client.New(socket), nil
}

// file returns the file that is behind a stream.
func file(stream any) (*os.File, bool) {
	if out, ok := stream.(*output); ok {
		stream = out.Writer
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// terminal returns the width of a stream's terminal in columns; 0 if it is
// none.
func terminal(stream any) int {
	f, ok := file(stream)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}
