// Package recording has the commands for recordings of the scheduler: traces of ours,
// which are shown, replayed, compared, cut and shrunk, and those of Postfix's queue
// manager, with which it is verified.
package recording

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/trace"
)

// exitTraceInput is the exit code for a trace that is invalid or missing; a script can
// distinguish it from exitDiffers, the one for a trace that differs.
const exitTraceInput exit.Code = 2

// NewTraceCommand returns the commands for traces.
func NewTraceCommand() *cobra.Command {
	return command.Group("trace", "Show, replay, compare, cut and shrink recordings of the scheduler", `A trace has all events that the scheduler received and all its actions, one per
line. "posthaste serve --trace FILE" and "posthaste sim --trace FILE" record one.
docs/testing.md describes how to turn a trace into a test.

FILE "-" is standard input.`,
		newTraceShowCommand(), newTraceReplayCommand(), newTraceDiffCommand(), newTraceCutCommand(), newTraceShrinkCommand())
}

// badTrace returns an error about a trace.
func badTrace(err error) error { return exit.New(exitTraceInput, err, "") }

// A traceFile is a trace that is open.
type traceFile struct {
	*trace.Reader
	in io.ReadSeekCloser // nil for the standard input
}

// A traceInput is a file whose name the reader of traces puts in front of errors.
type traceInput struct{ *os.File }

func (f traceInput) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return n, err
}

func openTrace(cmd *cobra.Command, path string) (*traceFile, error) {
	if path == "-" {
		r, err := trace.NewReader(cmd.InOrStdin(), "standard input")
		if err != nil {
			return nil, badTrace(err)
		}
		return &traceFile{Reader: r}, nil
	}
	opened, err := os.Open(path)
	if err != nil {
		return nil, badTrace(err)
	}
	f := traceInput{opened}
	r, err := trace.NewReader(f, path)
	if err != nil {
		return nil, badTrace(errors.Join(err, f.Close()))
	}
	return &traceFile{r, f}, nil
}

// rewind starts again at the beginning. Standard input cannot.
func (f *traceFile) rewind() error {
	if _, err := f.in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := trace.NewReader(f.in, f.Name())
	f.Reader = r
	return err
}

// seekable reports whether rewind works: not for pipes.
func (f *traceFile) seekable() bool {
	if f.in == nil {
		return false
	}
	_, err := f.in.Seek(0, io.SeekCurrent)
	return err == nil
}

func (f *traceFile) close() {
	if f.in != nil {
		f.in.Close() // it was read only
	}
}

// trouble returns an error of reading the trace, with its name.
func (f *traceFile) trouble(err error) error {
	var placed *trace.SyntaxError
	if !errors.As(err, &placed) {
		err = fmt.Errorf("%s: %w", f.Name(), err)
	}
	return badTrace(err)
}

// warnIncomplete warns of a trace without its end.
func warnIncomplete(cmd *cobra.Command, r *trace.Reader) {
	switch {
	case r.Torn():
		fmt.Fprintf(cmd.ErrOrStderr(), "posthaste: %s ends in the middle of a line, which is ignored: the program was killed, or is still writing\n", human.Plain(r.Name()))
	case !r.Complete():
		fmt.Fprintf(cmd.ErrOrStderr(), "posthaste: %s has no end: the program was killed, or is still writing, or stopped recording\n", human.Plain(r.Name()))
	}
}

// writeResult has a trace written, into a file or on the standard output. A file
// takes its name when it is complete: until then, and if something goes wrong,
// what had that name stays, which may be the trace that is being read.
func writeResult(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" {
		return outputTrouble(write(cmd.OutOrStdout()))
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a device or a pipe
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return exit.New(exit.IO, err, "")
		}
		return outputTrouble(errors.Join(write(f), f.Close()))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".posthaste-trace-*")
	if err != nil {
		return exit.New(exit.IO, err, "")
	}
	defer os.Remove(f.Name()) // no effect once it was renamed
	if err := errors.Join(write(f), f.Close()); err != nil {
		return outputTrouble(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return exit.New(exit.IO, err, "")
	}
	return nil
}

// outputTrouble distinguishes errors of the output from errors of a trace.
func outputTrouble(err error) error {
	var path *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path) && path.Op == "write":
		return exit.New(exit.IO, err, "")
	}
	return badTrace(err)
}
