package spool

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Config configures a spool.
type Config struct {
	// Dir is the spool's directory; it is created if it does not exist. It should
	// be on a local disk. Required.
	Dir string
	// FS is the file system of the spool; nil means the operating system's. Tests
	// replace it.
	FS vfs.FS

	// InlineMax is the largest content, in bytes, that is kept inside the store;
	// larger content becomes a file. 0 means 65,536; the maximum is 1 MiB. Raise it
	// where most mail is a little larger and memory is plentiful: a session holds
	// this much until the message is complete.
	InlineMax int
	// MinFree is the free disk space, in bytes, below which new mail is refused;
	// reports may use half of it. 0 means 256 MiB. Raise it on a disk that is
	// shared with other writers.
	MinFree int64
	// Ballast is the size, in bytes, of a file that is deleted if the disk runs
	// full nevertheless. 0 means 64 MiB.
	Ballast int64

	// MemTable is the size, in bytes, of a memtable: messages that are removed
	// again before this much was written never reach a table file. 0 means 32 MiB.
	// Raise it where more mail than that is in flight and memory is plentiful.
	MemTable int
	// MemTables is the maximum number of memtables before writers must wait for the
	// disk. 0 means 4; the minimum is 2.
	MemTables int
	// Cache is the size, in bytes, of the block cache. 0 means 32 MiB.
	Cache int64
	// TableFiles is the maximum number of open table files. 0 means 1,000; the
	// store uses at least 74. Lower it where file descriptors are scarce.
	TableFiles int
	// Counts is for what messages are counted (Spool.Waiting), until Spool.SetCounts.
	Counts mail.CountLevel
	// SyncInterval is how long the log waits after a sync before the next one while
	// many drafts are being committed, so that more of them share a sync; few never
	// wait. 0 means 200 µs, a negative value none; the maximum is 1 s. Between 200 and 400 microseconds take a
	// tenth off the processor time of small messages.
	SyncInterval time.Duration
	// SlowDisk is the duration of a disk operation above which an alarm is raised.
	// 0 means 5 s.
	SlowDisk time.Duration
	// Maintain is the time between two rounds of maintenance. 0 means 1 minute.
	Maintain time.Duration

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
	// stall is how long a damaged table may block writers before the process ends,
	// so that the next start can repair it; set by tests.
	stall time.Duration
}

// inlineLimit bounds Config.InlineMax: a content is in the session, in the batch
// and in the memtable at the same time.
const inlineLimit = 1 << 20

// WithDefaults returns the configuration with every zero value replaced by
// its default.
func (c Config) WithDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	c.InlineMax = cmp.Or(c.InlineMax, 64<<10)
	c.MinFree = cmp.Or(c.MinFree, 256<<20)
	c.Ballast = cmp.Or(c.Ballast, 64<<20)
	c.MemTable = cmp.Or(c.MemTable, 32<<20)
	c.MemTables = cmp.Or(c.MemTables, 4)
	c.Cache = cmp.Or(c.Cache, 32<<20)
	c.TableFiles = cmp.Or(c.TableFiles, 1000)
	c.SyncInterval = cmp.Or(c.SyncInterval, 200*time.Microsecond)
	c.SlowDisk = cmp.Or(c.SlowDisk, 5*time.Second)
	c.Maintain = cmp.Or(c.Maintain, time.Minute)
	c.pause = cmp.Or(c.pause, roomPause)
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

// Validate returns all errors of the configuration, joined, with defaults applied.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var all []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Errorf("spool: "+format, args...))
		}
	}
	complain(c.Dir == "", "Dir is not set")
	complain(c.InlineMax < 0 || c.InlineMax > inlineLimit, "InlineMax is %d, must be in 0…%d", c.InlineMax, inlineLimit)
	complain(c.MinFree < 0, "MinFree is %d, must not be negative", c.MinFree)
	complain(c.Ballast < 0, "Ballast is %d, must not be negative", c.Ballast)
	complain(c.MemTable < 64<<10 || c.MemTable > 1<<30, "MemTable is %d, must be in 64 KiB…1 GiB", c.MemTable)
	complain(c.MemTables < 2, "MemTables is %d, must be at least 2", c.MemTables)
	complain(c.Cache < 0, "Cache is %d, must not be negative", c.Cache)
	complain(c.TableFiles < 0, "TableFiles is %d, must not be negative", c.TableFiles)
	complain(c.SyncInterval > time.Second, "SyncInterval is %v, must be at most 1s", c.SyncInterval)
	complain(c.SlowDisk < 0, "SlowDisk is %v, must not be negative", c.SlowDisk)
	complain(c.Maintain < 0, "Maintain is %v, must not be negative", c.Maintain)
	return errors.Join(all...)
}
