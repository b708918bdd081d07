package main

import (
	"context"
	"os"
	"path/filepath"
)

func main() {
	name := filepath.Base(os.Args[0])
	os.Exit(int(run(context.Background(), name, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})))
}

// run does what the program was called for, under the name it was called by.
func run(ctx context.Context, name string, args []string, s streams) exitCode {
	if call, ok := frontEnds()[name]; ok {
		return call(ctx, name, args, s)
	}
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
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
