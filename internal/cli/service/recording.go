package service

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/version"
	"github.com/posthaste-mta/posthaste/trace/record"
)

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
		return nil, exit.Usagef("--trace-limit: %w", err)
	}
	if t.path == "" {
		return nil, nil
	}
	return record.New(record.File(t.path), record.Config{By: "posthaste " + version.String() + " serve", Limit: limit, Log: log.With("trace", t.path)}), nil
}

// hintForTrace says what to do about a trace that cannot be written.
func hintForTrace(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "Name a file with --trace that this user may write."
	}
	return "Name another file with --trace, or make room."
}
