package pipe

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrRoot is wrapped by the error for a user or a group as which no program may run.
var ErrRoot = errors.New("programs must not run as user or group root")

// Config is the configuration of an Agent.
type Config struct {
	// Dir is the directory of the files from which programs read messages. It is made if
	// it does not exist; nothing else may be in it. Required.
	Dir string
	// Transports are the transports of type pipe by name.
	Transports map[string]TransportConfig
	// VERPSecrets are the keys of tags in VERP senders (package verp).
	VERPSecrets [][]byte
	// Log gets debug records about programs (default: none). Outcomes are not logged
	// here.
	Log *slog.Logger
}

// TransportConfig is the configuration of one transport: the attributes of a pipe(8)
// service of Postfix.
type TransportConfig struct {
	// Command is the program's absolute path and its arguments, in which macros such as
	// ${recipient} are replaced (see ParseArgument). Required.
	Command []string
	Flags   Flags
	// User is the user, or the user and the group with a colon between them, as which the
	// program runs (default: the user of this process). Only root can run programs as
	// others, and must not run them as itself.
	User string
	// Directory is the program's working directory (default: "/").
	Directory string
	// Environment are variables in the form NAME=value, besides PATH, which is
	// "/usr/bin:/bin" unless it is one of them, and TZ and LANG, which are those of this
	// process.
	Environment []string
	// TimeLimit is the longest time that the program may take (default: 1000 s).
	TimeLimit time.Duration
	// NullSender stands for the null sender in ${sender} (default: MAILER-DAEMON).
	NullSender string
	// Delimiter are the characters of which the first in a local part separates ${user} from
	// ${extension} (default: none).
	Delimiter string
}

// WithDefaults returns the configuration with all defaults filled in.
func (c Config) WithDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	transports := make(map[string]TransportConfig, len(c.Transports))
	for name, t := range c.Transports {
		transports[name] = t.WithDefaults()
	}
	c.Transports = transports
	return c
}

// WithDefaults returns the configuration with all defaults filled in.
func (t TransportConfig) WithDefaults() TransportConfig {
	t.Directory = cmp.Or(t.Directory, "/")
	t.TimeLimit = cmp.Or(t.TimeLimit, 1000*time.Second)
	t.NullSender = cmp.Or(t.NullSender, "MAILER-DAEMON")
	return t
}

// Validate returns all errors of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Dir == "" && len(c.Transports) > 0 {
		errs = append(errs, errors.New("dir: it is not set"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		if err := c.Transports[name].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("transport %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Validate returns all errors of the configuration, joined, or nil. It does not look at
// what is on this machine; New does.
func (t TransportConfig) Validate() error {
	var errs []error
	if len(t.Command) == 0 {
		errs = append(errs, errors.New("command: it is not set"))
	} else if !filepath.IsAbs(t.Command[0]) {
		errs = append(errs, fmt.Errorf("command: %q is not an absolute path", t.Command[0]))
	}
	for _, text := range t.Command {
		if _, err := ParseArgument(text); err != nil {
			errs = append(errs, fmt.Errorf("command: %q: %w", text, err))
		}
	}
	if t.Directory != "" && !filepath.IsAbs(t.Directory) {
		errs = append(errs, fmt.Errorf("directory: %q is not an absolute path", t.Directory))
	}
	for _, v := range t.Environment {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			errs = append(errs, fmt.Errorf("environment: %q is not NAME=value", v))
		}
	}
	if t.TimeLimit < 0 || t.TimeLimit > 0 && t.TimeLimit < time.Second {
		errs = append(errs, fmt.Errorf("time_limit: %v is less than a second", t.TimeLimit))
	}
	return errors.Join(errs...)
}
