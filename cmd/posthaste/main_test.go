package main

import (
	"os"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// What cannot be written is an error of every command, under every name.
//
// Seen failing: "version", "--help", "sim list", "sink --help" and "sendmail --help" had
// status 0 with nothing written.
func TestOutputThatFails(t *testing.T) {
	for _, line := range []string{"posthaste version", "posthaste --version", "posthaste --help", "posthaste sim list", "posthaste sim show readme-421",
		"posthaste sink --help", "posthaste sendmail --help", "sendmail --help", "mailq --help", "posthaste config show"} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		writer.Close() // a write to it fails from now on
		var said strings.Builder
		args := strings.Fields(line)
		code := cli.Run(t.Context(), args[0], args[1:], command.Streams{In: strings.NewReader(""), Out: writer, Err: &said})
		if code != exit.IO || strings.Count(said.String(), "\n") != 1 || !strings.HasPrefix(said.String(), args[0]+": ") {
			t.Errorf("%s: %d %q", line, code, said.String())
		}
		reader.Close()
	}
}
