package configuration

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/config/migrate"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
)

const (
	// mainMax is the size of the largest main.cf and master.cf, and mapMax that of the largest
	// text of a map, in bytes.
	mainMax = 1 << 20
	mapMax  = 64 << 20
)

// An importer is one call of config import.
type importer struct {
	main, master string
	maps         map[string]string // files by the names of parameters, or by maps as main.cf has them
	credentials  string
}

func newConfigImportCommand() *cobra.Command {
	var i importer
	var maps []string
	cmd := &cobra.Command{
		Use:   "import [--master FILE] [--map NAME=FILE]… [--credentials FILE] MAIN.CF",
		Short: "Make a configuration file from that of Postfix",
		Long: `Make a configuration file from main.cf, or from the output of postconf -n, and from
master.cf and the texts of maps. The result is written to standard output, with the
lines that it was made from as comments. A list of what could not be carried over, and
what to do about it, is written to standard error.

The command looks for master.cf and maps beside main.cf, then where main.cf says. --master
and --map name other files. If a parameter has only one map, --map transport_maps=FILE
names its text; if it has several, --map hash:/etc/postfix/transport=FILE names that of
one of them. Maps are read from the texts that postmap reads, not from databases.
MAIN.CF may be "-" for standard input.

Passwords of smtp_sasl_password_maps are written only to the file that --credentials
names, which must not exist yet and which only its owner may read.

The result is checked as by "posthaste config check". The exit status is 0 if there
are no mistakes in it, and 78 otherwise. docs/migrating-from-postfix.md explains what
is different here, and how to switch over.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			i.main = args[0]
			i.maps = make(map[string]string)
			for _, m := range maps {
				at := strings.LastIndexByte(m, '=')
				if at <= 0 || at == len(m)-1 {
					return command.Misuse(cmd, fmt.Errorf("--map takes NAME=FILE, not %q", human.Plain(m)))
				}
				i.maps[m[:at]] = m[at+1:]
			}
			return i.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&i.master, "master", "", "the `file` master.cf (default: that beside main.cf)")
	f.StringArrayVar(&maps, "map", nil, "the text of a map, as `NAME=FILE`; may be given several times")
	f.StringVar(&i.credentials, "credentials", "", "the `file` to which logins at other servers are written")
	return cmd
}

func (i *importer) run(cmd *cobra.Command) error {
	in, err := i.input(cmd.InOrStdin())
	if err != nil {
		return err
	}
	r := migrate.Translate(in)
	if err := i.writeCredentials(r); err != nil {
		return err
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), r.TOML); err != nil {
		return err
	}
	errOut := cmd.ErrOrStderr()
	command.WritePlain(errOut, remarksText(r.Remarks))
	const name = "the result"
	cfg, err := config.LoadText(name, []byte(r.TOML), in.Environment)
	if err != nil {
		return err
	}
	expiring, err := cfg.CheckFiles(time.Now())
	if err != nil {
		return exit.New(exit.Config, err, "These files are named in the result. The daemon does not start until it can read them: put them in place, or change their names in the result, and run \"posthaste config check\" as the user that runs the daemon.")
	}
	command.WritePlain(errOut, cfg.Warn(name, expiring))
	_, err = fmt.Fprintln(errOut, "The result has no mistakes. Save it, and run \"posthaste config check\" as the user that runs the daemon.")
	return err
}

// input reads the files of Postfix, but for maps.
func (i *importer) input(stdin io.Reader) (migrate.Input, error) {
	in := migrate.Input{Environment: configfile.Environment(), Read: i.read}
	name, text, err := i.readMain(stdin)
	if err != nil {
		return in, err
	}
	in.Main, in.Problems = maincf.ParseMain(filepath.Base(name), text)
	if len(in.Main.Entries) == 0 {
		why := "there is no parameter in it"
		if len(in.Problems) > 0 {
			why = in.Problems[0].Text
		}
		return in, exit.New(exit.Config, fmt.Errorf("%s is not a main.cf: %s", name, why), "Name the file main.cf of Postfix, or the output of postconf -n.")
	}
	master, found := i.master, i.master != ""
	if !found && i.main != "-" {
		master = filepath.Join(filepath.Dir(i.main), "master.cf")
	}
	if master != "" {
		text, err := readText(master, mainMax)
		switch {
		case err == nil:
			var wrong []maincf.Problem
			in.Services, wrong = maincf.ParseMaster(filepath.Base(master), text)
			in.Problems = append(in.Problems, wrong...)
			if in.Services == nil {
				in.Services = []maincf.Service{} // there is a file, and nothing in it is a service
			}
		case found || !errors.Is(err, fs.ErrNotExist):
			return in, ofFile(err)
		}
	}
	if i.credentials != "" {
		if in.Credentials, err = filepath.Abs(i.credentials); err != nil {
			return in, err
		}
		if _, err := os.Lstat(in.Credentials); err == nil {
			return in, exit.New(exit.Usage, fmt.Errorf("%s exists", in.Credentials), "Name a file that does not: passwords are not written over others.")
		}
	}
	return in, nil
}

func (i *importer) readMain(stdin io.Reader) (name, text string, err error) {
	if i.main != "-" {
		text, err = readText(i.main, mainMax)
		return i.main, text, ofFile(err)
	}
	name = "standard input"
	all, err := io.ReadAll(io.LimitReader(stdin, mainMax+1))
	if err == nil && len(all) > mainMax {
		err = fmt.Errorf("%s is larger than %s", name, config.FormatSize(mainMax))
	}
	return name, string(all), err
}

// ofFile adds the exit code to an error of a file that the user has named.
func ofFile(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return exit.New(exit.NoPerm, err, "")
	}
	return exit.New(exit.NoInput, err, "")
}

// readText reads a file of which nothing is known.
func readText(name string, most int64) (string, error) {
	info, err := os.Stat(name) // a FIFO would be waited for
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%s is a directory", name)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %s", name, config.FormatSize(most))
	}
	return string(text), err
}

// read returns the text of a map, or of another file that main.cf names: that which the user names
// for it, the one beside main.cf, or the one at its path.
func (i *importer) read(parameter string, t maincf.Table) (name, text string, err error) {
	if named := cmp.Or(i.maps[t.Type+":"+t.Name], i.maps[parameter]); named != "" {
		text, err = readText(named, mapMax)
		return named, text, err
	}
	if i.main != "-" {
		beside := filepath.Join(filepath.Dir(i.main), filepath.Base(t.Name))
		if text, err = readText(beside, mapMax); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return beside, text, err
		}
	}
	if !filepath.IsAbs(t.Name) {
		return "", "", fs.ErrNotExist
	}
	text, err = readText(t.Name, mapMax)
	return t.Name, text, err
}

// writeCredentials writes the file of credentials, if there are any.
func (i *importer) writeCredentials(r *migrate.Result) error {
	if i.credentials == "" || r.Credentials == "" {
		return nil
	}
	f, err := os.OpenFile(i.credentials, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return exit.New(exit.IO, err, "Passwords could not be written; nothing else was.")
	}
	_, err = f.WriteString(r.Credentials)
	return errors.Join(err, f.Close())
}

// remarkTitles are the titles of the kinds of remarks.
var remarkTitles = map[migrate.Kind]string{
	migrate.NotUnderstood: "Not understood",
	migrate.Lost:          "Not carried over",
	migrate.Different:     "Carried over, with a difference",
	migrate.Todo:          "To do",
}

// remarksText returns the remarks for people.
func remarksText(all []migrate.Remark) string {
	var b strings.Builder
	for n := range all {
		r := &all[n]
		if n == 0 || all[n-1].Kind != r.Kind {
			count := len(slices.DeleteFunc(slices.Clone(all), func(other migrate.Remark) bool { return other.Kind != r.Kind }))
			fmt.Fprintf(&b, "%s (%d):\n\n", remarkTitles[r.Kind], count)
		}
		for _, at := range r.At {
			fmt.Fprintf(&b, "%s\n", at)
		}
		if r.Text != "" {
			indent := ""
			if len(r.At) > 0 {
				indent = "    "
			}
			b.WriteString(wrapped(r.Text, indent))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// wrapped returns a text in lines of at most 100 columns.
func wrapped(text, indent string) string {
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		if width > 0 && width+1+len(word) > 100-len(indent) {
			b.WriteByte('\n')
			width = 0
		}
		if width == 0 {
			b.WriteString(indent)
		} else {
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}
