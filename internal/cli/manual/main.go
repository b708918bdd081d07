// Command manual writes the manual pages of posthaste and all of its commands. It is run
// when packages are made, and no part of the program.
//
//	go run ./internal/cli/manual DIRECTORY
//
// The date in the pages is that in the environment variable SOURCE_DATE_EPOCH, in seconds since
// 1970, so that two runs write the same.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/posthaste-mta/posthaste/internal/cli"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: manual DIRECTORY")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(epoch, 0).UTC()
	root := cli.NewRootCommand()
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Title: "POSTHASTE", Section: "1", Date: &date, Source: "Posthaste", Manual: "Posthaste"}, args[0])
}
