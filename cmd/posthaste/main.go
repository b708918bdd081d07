// Command posthaste is all of Posthaste in one program: the daemon, what an
// operator does with it, and what other programs call to submit mail. Everything is
// in internal/cli, one package per family of commands, and in internal/daemon. The
// tests here run the whole program, under all of its names.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/posthaste-mta/posthaste/internal/cli"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
)

func main() {
	name := filepath.Base(os.Args[0])
	os.Exit(int(cli.Run(context.Background(), name, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})))
}
