package spool

import (
	"cmp"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool/settings"
)

// Settings are what an operator may set.
type Settings = settings.Settings

// Config configures a spool. Validate and the settings' defaults are those of Settings.
type Config struct {
	Settings
	// FS is the file system of the spool; nil means the operating system's. Tests
	// replace it.
	FS vfs.FS
	// Counts is for what messages are counted (Spool.Waiting), until Spool.SetCounts.
	Counts mail.CountLevel

	// Logger gets messages for operators; nil discards them.
	Logger *slog.Logger
	// Now is the clock for queue IDs; nil means the system's. It may go back; queue
	// IDs do not.
	Now func() mail.Instant
	// OnAlarm is called for every alarm. It may be called from any goroutine, must
	// return at once and must not call the spool. nil ignores alarms; they are
	// logged in any case.
	OnAlarm func(Alarm)
	// Fatal is called when the spool can no longer be relied on, and must not
	// return. nil ends the process with status 1.
	Fatal func(error)

	// pause is the time between attempts to create a file; 0 means roomPause. Tests
	// shorten it.
	pause time.Duration
	// blockSize is that of tables, in bytes; 0 means Pebble's default. Tests of damage
	// shorten it: to read a damaged block takes Pebble time in proportion to its square.
	blockSize int
	// halvesMin is for package tests what the constant is; 0 means that.
	halvesMin uint64
	// stall is the time for which a damaged table may block writers before the process ends,
	// so that the next start can repair it; set by tests.
	stall time.Duration
	// preloadMin is the number of messages with unknown places in an Apply from which reading them in order is worth an
	// iterator; 0 means 32. Tests lower it.
	preloadMin int
}

// WithDefaults returns the configuration with every zero value replaced by
// its default.
func (c Config) WithDefaults() Config {
	c.Settings = c.Settings.WithDefaults()
	if c.FS == nil {
		c.FS = vfs.Default
	}
	c.pause = cmp.Or(c.pause, roomPause)
	c.preloadMin = cmp.Or(c.preloadMin, 32)
	c.stall = cmp.Or(c.stall, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = func() mail.Instant { return mail.Instant(time.Now().UnixNano()) }
	}
	if c.OnAlarm == nil {
		c.OnAlarm = func(Alarm) {}
	}
	if c.Fatal == nil {
		c.Fatal = func(error) { os.Exit(1) }
	}
	return c
}
