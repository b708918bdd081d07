package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/pipe"
)

// programs returns the additional parameters of transports of type pipe.
func programs() []parameter[Transport] {
	all := []parameter[Transport]{
		transportParameter("command", commandLine(), func(t *Transport) *[]string { return &t.Pipe.Command },
			"The program that a transport of type pipe starts for each delivery, and its arguments, in which ${sender}, ${recipient}, ${original_recipient}, ${user}, ${extension}, ${mailbox}, ${domain}, ${nexthop}, ${size} and ${queue_id} are replaced; no shell is involved.",
			"Set it in every transport of type pipe."),
		transportParameter("command_flags", commandFlags(), func(t *Transport) *pipe.Flags { return &t.Pipe.Flags },
			"The form in which the program gets its arguments and the message, as letters of the flags of Postfix's pipe(8), which docs/transports.md explains.",
			"Set it to what the program's documentation says about Postfix, such as \"DRhu\"."),
		transportParameter("command_user", optional(text("user", `such as "vmail" or "vmail:mail"`, nil), "for the daemon's user"), func(t *Transport) *string { return &t.Pipe.User },
			"The user, or the user and the group with a colon between them, as which the program runs; only a daemon that runs as root can change it.",
			"Set it if the daemon runs as root; otherwise have the command change the user, with sudo for example."),
		transportParameter("command_directory", directory(), func(t *Transport) *string { return &t.Pipe.Directory },
			"The working directory of the program.",
			"Set it for programs that look for files there."),
		transportParameter("command_environment", list(environmentVariable(), "variables"), func(t *Transport) *[]string { return &t.Pipe.Environment },
			"Environment variables of the program, which has no others than these, PATH (/usr/bin:/bin), TZ and LANG.",
			"Set it for programs that need HOME, for example; other users of the machine may be able to read it, so it is no place for passwords."),
		transportParameter("command_time_limit", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour}), func(t *Transport) *time.Duration { return &t.Pipe.TimeLimit },
			"The time after which the program and its child processes are killed; the message is tried again later.",
			"Lower it for programs that hang, so that they do not occupy all deliveries of the transport."),
		transportParameter("null_sender", text("text", "", nil), func(t *Transport) *string { return &t.Pipe.NullSender },
			"The replacement of ${sender} in mail with the null sender, which reports have.",
			"Set it for programs that know another address for it."),
	}
	for i := range all {
		all[i] = all[i].forPipe()
	}
	return all
}

// directory is the path of a directory.
func directory() kind[string] {
	return filePath("/var/mail")
}

// commandLine is a program and its arguments.
func commandLine() kind[[]string] {
	return kind[[]string]{
		name: "list of texts",
		form: `such as ["/usr/bin/program", "-f", "${sender}", "${recipient}"]; write $$ for a dollar`,
		plain: func(all []string) any {
			return slices.Concat([]string{}, all)
		},
		read: func(n *tomlfile.Node) ([]string, *flaw) {
			if n.Kind != tomlfile.KindList {
				f := mismatch(n, "a list")
				if n.Kind == tomlfile.KindText {
					f.hint = "write each argument as a text of its own: " + literal(strings.Fields(n.Text))
				}
				return nil, f
			}
			var all []string
			for i, one := range n.Items {
				if one.Kind != tomlfile.KindText {
					f := mismatch(one, "a text")
					f.at = one.At
					return nil, f
				}
				if _, err := pipe.ParseArgument(one.Text); err != nil {
					return nil, &flaw{at: one.At, message: err.Error()}
				}
				if i == 0 && !filepath.IsAbs(one.Text) {
					return nil, &flaw{at: one.At, message: tomlfile.QuoteText(one.Text) + " is not an absolute path", hint: "write it from the root: the program is not searched for"}
				}
				all = append(all, one.Text)
			}
			return all, nil
		},
	}
}

// commandFlags are the flags of pipe(8).
func commandFlags() kind[pipe.Flags] {
	return kind[pipe.Flags]{
		name:   "flags",
		form:   `any of the letters B, D, F, O, R, X, h, q, u, . and >, such as "DRhu"`,
		closed: true,
		plain:  func(f pipe.Flags) any { return f.String() },
		read: func(n *tomlfile.Node) (pipe.Flags, *flaw) {
			s, f := readText(n, "flags")
			if f != nil {
				return 0, f
			}
			flags, err := pipe.ParseFlags(s)
			if err != nil {
				return 0, &flaw{message: err.Error()}
			}
			return flags, nil
		},
	}
}

// environmentVariable is a name and its value.
func environmentVariable() kind[string] {
	return text("variable", `such as "HOME=/var/mail"`, func(s string) (message, hint string) {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
			return tomlfile.QuoteText(s) + " has no name and value with = between them", ""
		}
		return "", ""
	})
}

// Pipe returns the configuration of package pipe.
func (c *Config) Pipe() pipe.Config {
	all := make(map[string]pipe.TransportConfig)
	for name, t := range c.Transports {
		if t.Type == TypePipe {
			t.Pipe.Delimiter = c.Rewriting.Delimiter
			all[name] = t.Pipe
		}
	}
	return pipe.Config{Dir: c.inQueueDirectory("programs"), Transports: all}
}

// checkPrograms complains about transports of type pipe that cannot deliver.
func (l *loader) checkPrograms() {
	for _, name := range slices.Sorted(maps.Keys(l.c.Transports)) {
		t, table := l.c.Transports[name], transportTable(name)
		switch {
		case t.Type != TypePipe || l.failed[fullName(table, "command")]:
		case len(t.Pipe.Command) == 0:
			l.complain("the program is missing", `write command = ["/path/of/program", "${recipient}"]`, fullName(table, "command"), table)
		case t.Pipe.Flags.Single() && t.RecipientLimit != 1:
			l.complain("with flags D and O there must be one recipient in each delivery: the header field is about one", "set destination_recipient_limit = 1 too",
				fullName(table, "command_flags"), fullName(table, "destination_recipient_limit"))
		}
	}
}
