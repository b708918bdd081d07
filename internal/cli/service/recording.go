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

// A recordingTo is the file of the daemon's trace and its size limit.
type recordingTo struct {
	path  string
	limit string
}

func (t *recordingTo) addFlags(f *pflag.FlagSet) {
	f.StringVar(&t.path, "trace", "", "record all events and actions of the scheduler in a `file`")
	f.StringVar(&t.limit, "trace-limit", "4G", "end the recording before the file exceeds this `size`; 0: no limit")
}

// tracer returns the recorder, or nil if no file is given.
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

// hintForTrace returns the hint for a trace that cannot be written.
func hintForTrace(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "Choose a file with --trace that this user may write."
	}
	return "Choose another file with --trace, or free space on the disk."
}
