package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	name := filepath.Base(os.Args[0])
	os.Exit(int(run(context.Background(), name, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})))
}

// run does what the program was called for, under the name it was called by. What could
// not be written is an error, whether the command looks at that itself or not: most of
// them write with fmt, and the help is cobra's.
func run(ctx context.Context, name string, args []string, s streams) exitCode {
	out := &output{Writer: s.out}
	s.out = out
	code := call(ctx, name, args, s)
	if code != exitOK || out.err == nil {
		return code
	}
	if _, other := frontEnds()[name]; !other {
		name = "posthaste"
	}
	return complain(s.err, name, &exit{code: exitIO, err: out.err})
}

// An output is the standard output. It keeps the first error of writing to it.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func call(ctx context.Context, name string, args []string, s streams) exitCode {
	if call, ok := frontEnds()[name]; ok {
		if len(args) == 1 && args[0] == "--help" && name != "sendmail" {
			return frontEndHelp(name, s.out)
		}
		return call(ctx, name, args, s)
	}
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	if err := helpOfNothing(root, args); err != nil {
		return complain(s.err, "posthaste", err)
	}
	return complain(s.err, "posthaste", root.ExecuteContext(ctx))
}

// A frontEnd is another program that this one stands in for.
type frontEnd func(ctx context.Context, name string, args []string, s streams) exitCode

// frontEnds are the names under which the program behaves like another one, if
// a link of that name leads to it.
func frontEnds() map[string]frontEnd {
	return map[string]frontEnd{
		"sendmail":  sendmail,
		"mailq":     mailq,
		"postqueue": postqueue,
		"postsuper": postsuper,
		"qshape":    qshape,
	}
}

// How front ends are called, but for sendmail, which has a help text.
const (
	mailqUsage     = "Usage: mailq [-q]"
	postqueueUsage = "Usage: postqueue -p | -j | -f | -i queue-id | -s site"
	postsuperUsage = "Usage: postsuper [-d | -h | -H | -r] {queue-id | ALL [area…] | -}"
	qshapeUsage    = "Usage: qshape [-s] [-n rows] [incoming | active | deferred | hold]…"
)

// usageOf says how a front end is called.
func usageOf(name string) string {
	return map[string]string{"mailq": mailqUsage, "postqueue": postqueueUsage, "postsuper": postsuperUsage, "qshape": qshapeUsage}[name]
}

// frontEndHelp explains a front end, and leads to the commands that can do
// more.
func frontEndHelp(name string, out io.Writer) exitCode {
	fmt.Fprintf(out, `%s

This is posthaste, called by another name. Where its queue is, $%s
says, or else it is %s. More is in "posthaste queue --help".
`, usageOf(name), queueDirectory, systemQueue)
	return exitOK
}
