package milter

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Failure determines the treatment of a message if a milter cannot be reached or sends an invalid
// answer (milter_default_action).
type Failure uint8

const (
	FailTemporarily Failure = iota // refused for now: the client tries again
	FailAccept                     // goes on without the milter
	FailReject                     // refused for good
	FailQuarantine                 // accepted and held
)

// String returns the word in configurations and logs.
func (f Failure) String() string { return [...]string{"tempfail", "accept", "reject", "quarantine"}[f] }

// Config configures a milter. The names in parentheses are Postfix's.
type Config struct {
	Name string // in the log and in metrics
	// Network and Address are those of net.Dial: "unix" and a path, or "tcp" and a host with a
	// port.
	Network, Address string
	// ConnectTimeout limits the time until there is a connection on which both sides have said what
	// they can do (milter_connect_timeout), signs of life included. Default 30 s.
	ConnectTimeout time.Duration
	// CommandTimeout limits the wait for the answer to each command (milter_command_timeout).
	// Default 30 s.
	CommandTimeout time.Duration
	// ContentTimeout limits the wait for each answer to a part of the content, and for each that
	// follows its end (milter_content_timeout). All of them together may take lookMax, or this if
	// it is longer. Default 5 minutes.
	ContentTimeout time.Duration
	OnFailure      Failure
	// DaemonName is the macro {daemon_name} (milter_macro_daemon_name); "" for the name of the
	// listener.
	DaemonName string
}

// WithDefaults returns c with its zero values replaced.
func (c Config) WithDefaults() Config {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 30*time.Second)
	c.CommandTimeout = cmp.Or(c.CommandTimeout, 30*time.Second)
	c.ContentTimeout = cmp.Or(c.ContentTimeout, 5*time.Minute)
	return c
}

// Validate returns all errors of a Config with its defaults, joined.
func (c Config) Validate() error {
	var complaints []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			complaints = append(complaints, fmt.Errorf("milter %s: "+format, append([]any{c.Name}, args...)...))
		}
	}
	complain(c.Name == "", "it has no name")
	complain(c.Network != "unix" && c.Network != "tcp", "no such network: %q", c.Network)
	complain(c.Address == "", "it has no address")
	complain(c.ConnectTimeout < 0, "connect timeout %s is negative", c.ConnectTimeout)
	complain(c.CommandTimeout < 0, "command timeout %s is negative", c.CommandTimeout)
	complain(c.ContentTimeout < 0, "content timeout %s is negative", c.ContentTimeout)
	complain(c.OnFailure > FailQuarantine, "no such action: %d", c.OnFailure)
	return errors.Join(complaints...)
}

// A Milter is one that is configured, and what all sessions know of it. Its methods may be called
// concurrently.
type Milter struct {
	cfg      Config
	counters counters
	// rest is the time before which no connection is attempted, in nanoseconds of Unix time. The
	// pause is as long as the last failed attempt took. So a host that does not answer delays one
	// session at a time, and one that refuses connections at once is tried each time.
	rest atomic.Int64
}

// New returns a milter. Zero values of the configuration are replaced by defaults.
func New(cfg Config) (*Milter, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Milter{cfg: cfg}, nil
}

// Name returns the milter's name.
func (m *Milter) Name() string { return m.cfg.Name }

// Counters are facts about a milter since the start of the program.
type Counters struct {
	Connections int64 // to it
	Messages    int64 // that it has let pass, changed or not
	Refused     int64 // clients, senders, recipients and messages refused by it for good
	Deferred    int64 // the same for now
	Discarded   int64 // messages
	Held        int64 // messages
	Changed     int64 // messages
	Failures    int64 // how often it could not be asked, or its answer was not one
}

type counters struct {
	connections, messages, refused, deferred, discarded, held, changed, failures atomic.Int64
}

// Snapshot returns the present values. It may be called at any time, and takes a few nanoseconds. Each value is
// exact, but they are not of one moment.
func (m *Milter) Snapshot() Counters {
	c := &m.counters
	return Counters{c.connections.Load(), c.messages.Load(), c.refused.Load(), c.deferred.Load(), c.discarded.Load(), c.held.Load(), c.changed.Load(), c.failures.Load()}
}

// A Host has the functions that sessions need from the program. The fields do not change.
type Host struct {
	Hostname string // macro j
	Version  string // macro v, such as "Posthaste 1.0"
	// Scratch is the directory of temporary files, for contents and bodies of more than KeptMax
	// octets; "" is that of the system.
	Scratch string
	// Room returns an error if there is no room for so many octets in Scratch; nil: there is.
	Room func(octets int64) error
	// Note logs an event of a milter. Events with the same name, client and reason may be counted
	// instead, except for those of which Fate is true.
	Note func(level slog.Level, event, client, reason string, attributes ...any)
}

const (
	eventChanged   = "a milter changes a message"
	eventDiscarded = "a milter discards a message"
)

// Fate reports whether each occurrence of an event says what has become of a message that the client
// believes to be accepted as it was: no other line of the log says it.
func Fate(event string) bool { return event == eventChanged || event == eventDiscarded }

// KeptMax is the maximum size of the part of a content, or of a body that replaces it, that is kept in
// memory.
const KeptMax = 64 << 10
