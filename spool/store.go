package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// blobMin is the smallest value, in bytes, that tables store separately from its
// key. Contents are then not copied by every compaction: a backlog of a million 4
// KB messages is 82 MB of tables and 4.2 GB of blobs that are not rewritten.
const blobMin = 1024

// tableSize is the size that tables and blobs grow to. With the default 2 MB,
// deleting 90 % of 100,000 messages freed no space; with 32 MB it did.
const tableSize = 32 << 20

// manifestSize is the size at which a new MANIFEST is started, after thousands of
// edits. At a start it is read into memory, together with its copy.
const manifestSize = 4 << 20

// storeOptions returns Pebble's options.
//
// Pebble takes the memory of memtables out of the cache, all of it if need be: with a cache as large as one memtable it
// caches nothing at all, and reads the filter of a table, some 100 KB, for each lookup. So the memtable that is
// always there is added to what is configured. The others still take from the cache, which keeps the peak where it is:
// when the most memtables exist, there is no cache.
func (s *Spool) storeOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          s.fs,
		Logger:                      storeLogger{s},
		EventListener:               s.storeEvents(),
		FormatMajorVersion:          pebble.FormatNewest, // the default is the oldest, without blobs
		MemTableSize:                uint64(s.cfg.MemTable),
		MemTableStopWritesThreshold: s.cfg.MemTables,
		L0CompactionThreshold:       4,
		CacheSize:                   s.cfg.Cache + int64(s.cfg.MemTable),
		MaxOpenFiles:                s.cfg.TableFiles,
		MaxManifestFileSize:         manifestSize,
	}
	if s.cfg.SyncInterval > 0 {
		o.WALMinSyncInterval = s.pace.pause
	}
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = tableSize
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy, o.Levels[i].BlockSize = bloom.FilterPolicy(10), s.cfg.blockSize
	}
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled:               true,
			MinimumSize:           blobMin,
			MaxBlobReferenceDepth: 10,
			RewriteMinimumAge:     5 * time.Minute,
			TargetGarbageRatio:    0.3,
		}
	}
	return o
}

// storeEvents returns the handlers for events inside Pebble. A handler may run
// under Pebble's locks and must not call it. LowDiskSpace is left out: room
// monitors the disk with thresholds set by the operator.
func (s *Spool) storeEvents() *pebble.EventListener {
	return &pebble.EventListener{
		// The default handler ends the process because of one bad block. Which
		// message is affected shows when it is read.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			if s.damped.allow() {
				s.raise(Alarm{Kind: AlarmCorrupt, Text: "damaged file " + info.Path, Err: info.Details})
			}
			if strings.HasSuffix(info.Path, ".sst") {
				s.hurt.report(info.Path)
			}
		},
		BackgroundError: func(err error) {
			if s.damped.allow() {
				s.raise(Alarm{Kind: AlarmStore, Text: "background work of the store failed", Err: err})
			}
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			s.count.stalls.Add(1)
			s.stalled(true)
			if s.damped.allow() {
				s.raise(Alarm{Kind: AlarmStall, Text: "writers wait for the store: " + info.Reason})
			}
		},
		WriteStallEnd: func() { s.stalled(false) },
	}
}

// slowDisk is called for a disk operation that takes longer than Config.SlowDisk.
func (s *Spool) slowDisk(info vfs.DiskSlowInfo) {
	if s.damped.allow() {
		s.raise(Alarm{Kind: AlarmSlow, Text: "slow disk: " + info.String()})
	}
}

// A storeLogger receives Pebble's log messages.
type storeLogger struct{ s *Spool }

func (l storeLogger) Infof(format string, args ...any) {
	if l.s.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.s.cfg.Logger.Debug("store: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l storeLogger) Errorf(format string, args ...any) {
	l.s.cfg.Logger.Error("store: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf must never return: Pebble's Commit calls it after failing to write the
// log, and then returns nil, so that mail would be acknowledged that is not on
// disk.
func (l storeLogger) Fatalf(format string, args ...any) {
	var err error = errors.New(strings.TrimSpace(fmt.Sprintf(format, args...)))
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = fmt.Errorf("%s: %w", strings.TrimSuffix(err.Error(), ": "+cause.Error()), cause)
			break
		}
	}
	l.s.die(fmt.Errorf("spool: %w", err))
}
