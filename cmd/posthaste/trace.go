package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/trace"
	"github.com/posthaste-mta/posthaste/trace/record"
)

// exitTraceInput is what the trace commands end with if a trace is bad or is not
// there, so that a script can tell it from one that differs (exitDiffers).
const exitTraceInput exitCode = 2

func newTraceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Show, replay, compare, cut and shrink recordings of the scheduler",
		Long: `A trace is everything that the scheduler was told and everything that it did, one
line each. "posthaste serve --trace FILE" and "posthaste sim --trace FILE" write
one. docs/testing.md tells how a trace becomes a test.

A FILE named "-" is the standard input.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTraceShowCommand(), newTraceReplayCommand(), newTraceDiffCommand(), newTraceCutCommand(), newTraceShrinkCommand())
	return cmd
}

// badTrace is for what is wrong with a trace.
func badTrace(err error) error { return &exit{code: exitTraceInput, err: err} }

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

// rewind begins anew. The standard input cannot.
func (f *traceFile) rewind() error {
	if _, err := f.in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := trace.NewReader(f.in, f.Name())
	f.Reader = r
	return err
}

// seekable tells whether rewind works: it does not for pipes.
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

// trouble is for what a command has met with in the trace, by name.
func (f *traceFile) trouble(err error) error {
	var placed *trace.SyntaxError
	if !errors.As(err, &placed) {
		err = fmt.Errorf("%s: %w", f.Name(), err)
	}
	return badTrace(err)
}

// warnIncomplete says that a trace that has been read ends before its end.
func warnIncomplete(cmd *cobra.Command, r *trace.Reader) {
	switch {
	case r.Torn():
		fmt.Fprintf(cmd.ErrOrStderr(), "posthaste: %s ends within a line, which is left out: the program was killed, or is still writing\n", plain(r.Name()))
	case !r.Complete():
		fmt.Fprintf(cmd.ErrOrStderr(), "posthaste: %s has no end: the program was killed, or is still writing, or stopped recording\n", plain(r.Name()))
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
			return &exit{code: exitIO, err: err}
		}
		return outputTrouble(errors.Join(write(f), f.Close()))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".posthaste-trace-*")
	if err != nil {
		return &exit{code: exitIO, err: err}
	}
	defer os.Remove(f.Name()) // in vain if it has got its name
	if err := errors.Join(write(f), f.Close()); err != nil {
		return outputTrouble(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return &exit{code: exitIO, err: err}
	}
	return nil
}

// outputTrouble tells what is wrong with the output from what is wrong with a
// trace.
func outputTrouble(err error) error {
	var path *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path) && path.Op == "write":
		return &exit{code: exitIO, err: err}
	}
	return badTrace(err)
}

// A recordingTo is where the daemon's trace goes.
type recordingTo struct {
	path  string
	limit string
}

func (t *recordingTo) addFlags(f *pflag.FlagSet) {
	f.StringVar(&t.path, "trace", "", "record everything that the scheduler is told and does in a `file`")
	f.StringVar(&t.limit, "trace-limit", "4G", "end the trace before its file has more than this `size`; 0 means no limit")
}

// tracer returns what records, nil if nothing does.
func (t *recordingTo) tracer(log *slog.Logger) (driver.Tracer, error) {
	limit, err := config.ParseSize(t.limit)
	if err != nil {
		return nil, usageError("--trace-limit: %w", err)
	}
	if t.path == "" {
		return nil, nil
	}
	return record.New(record.File(t.path), record.Config{By: "posthaste " + version() + " serve", Limit: limit, Log: log.With("trace", t.path)}), nil
}

// hintForTrace says what to do about a trace that cannot be written.
func hintForTrace(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "Name a file with --trace that this user may write."
	}
	return "Name another file with --trace, or make room."
}
