package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

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

func openTrace(cmd *cobra.Command, path string) (*traceFile, error) {
	if path == "-" {
		r, err := trace.NewReader(cmd.InOrStdin(), "standard input")
		if err != nil {
			return nil, badTrace(err)
		}
		return &traceFile{Reader: r}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, badTrace(err)
	}
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

// writeResult writes a trace that a command has made, into a file or on the
// standard output. Nothing is written if making it fails.
func writeResult(cmd *cobra.Command, path string, text []byte) error {
	if path == "" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return &exit{code: exitIO, err: err}
	}
	return nil
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
