// Package postfix stands in for programs of Postfix: sendmail, mailq, postcat, postqueue,
// postsuper and qshape. Each reads the options of the original. Most call a queue
// command; postcat asks the administration API, and sendmail submits mail to the
// daemon's socket.
package postfix

import (
	"context"
	"fmt"
	"io"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
)

// A Program is another program that this one stands in for.
type Program func(ctx context.Context, name string, args []string, s command.Streams) exit.Code

// Programs are the names under which the program behaves like another one, if
// a link of that name leads to it.
func Programs() map[string]Program {
	return map[string]Program{
		"sendmail":  sendmail,
		"mailq":     mailq,
		"postcat":   postcat,
		"postqueue": postqueue,
		"postsuper": postsuper,
		"qshape":    qshape,
	}
}

// usageOf returns the usage of a program; sendmail has a help text instead.
func usageOf(name string) string {
	return "Usage: " + map[string]string{
		"mailq":     "mailq [-q]",
		"postcat":   "postcat [-e] [-h] [-b] -q queue-id…",
		"postqueue": "postqueue -p | -j | -f | -i queue-id | -s site",
		"postsuper": "postsuper [-d | -e | -f | -h | -H | -r] {queue-id | ALL [area…] | -}",
		"qshape":    "qshape [-s] [-n rows] [incoming | active | deferred | hold]…",
	}[name]
}

// Help explains a front end, and leads to the commands that can do
// more.
func Help(name string, out io.Writer) exit.Code {
	fmt.Fprintf(out, `%s

This is posthaste under another name. Its queue directory is $%s,
or %s by default. See also "posthaste queue --help".
`, usageOf(name), socket.QueueVariable, socket.SystemQueue)
	return exit.OK
}
