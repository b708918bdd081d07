// Package settings has what an operator may set of a spool, apart from package spool and
// the store under it: what only reads or checks a configuration need not link them.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Settings are the parameters of a spool that are numbers and names. The zero value of each but Dir
// stands for its default.
type Settings struct {
	// Dir is the spool's directory; it is created if it does not exist. It should
	// be on a local disk. Required.
	Dir string

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
	// SyncInterval is the time for which the log waits after a sync before the next one while
	// many drafts are being committed, so that more of them share a sync; few never
	// wait. 0 means 200 µs, a negative value none; the maximum is 1 s. Between 200 and 400 microseconds take a
	// tenth off the processor time of small messages.
	SyncInterval time.Duration
	// SlowDisk is the duration of a disk operation above which an alarm is raised.
	// 0 means 5 s.
	SlowDisk time.Duration
	// Maintain is the time between two rounds of maintenance. 0 means 1 minute.
	Maintain time.Duration
}

// InlineLimit is the maximum of Settings.InlineMax: a content is in the session, in the batch
// and in the memtable at the same time.
const InlineLimit = 1 << 20

// WithDefaults returns the settings with every zero value replaced by its default.
func (s Settings) WithDefaults() Settings {
	s.InlineMax = cmp.Or(s.InlineMax, 64<<10)
	s.MinFree = cmp.Or(s.MinFree, 256<<20)
	s.Ballast = cmp.Or(s.Ballast, 64<<20)
	s.MemTable = cmp.Or(s.MemTable, 32<<20)
	s.MemTables = cmp.Or(s.MemTables, 4)
	s.Cache = cmp.Or(s.Cache, 32<<20)
	s.TableFiles = cmp.Or(s.TableFiles, 1000)
	s.SyncInterval = cmp.Or(s.SyncInterval, 200*time.Microsecond)
	s.SlowDisk = cmp.Or(s.SlowDisk, 5*time.Second)
	s.Maintain = cmp.Or(s.Maintain, time.Minute)
	return s
}

// Validate returns all errors of the settings, joined, with defaults applied.
func (s Settings) Validate() error {
	s = s.WithDefaults()
	var all []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Errorf("spool: "+format, args...))
		}
	}
	complain(s.Dir == "", "Dir is not set")
	complain(s.InlineMax < 0 || s.InlineMax > InlineLimit, "InlineMax is %d, must be in 0…%d", s.InlineMax, InlineLimit)
	complain(s.MinFree < 0, "MinFree is %d, must not be negative", s.MinFree)
	complain(s.Ballast < 0, "Ballast is %d, must not be negative", s.Ballast)
	complain(s.MemTable < 64<<10 || s.MemTable > 1<<30, "MemTable is %d, must be in 64 KiB…1 GiB", s.MemTable)
	complain(s.MemTables < 2, "MemTables is %d, must be at least 2", s.MemTables)
	complain(s.Cache < 0, "Cache is %d, must not be negative", s.Cache)
	complain(s.TableFiles < 0, "TableFiles is %d, must not be negative", s.TableFiles)
	complain(s.SyncInterval > time.Second, "SyncInterval is %v, must be at most 1s", s.SyncInterval)
	complain(s.SlowDisk < 0, "SlowDisk is %v, must not be negative", s.SlowDisk)
	complain(s.Maintain < 0, "Maintain is %v, must not be negative", s.Maintain)
	return errors.Join(all...)
}
