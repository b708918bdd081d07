package spool

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A storeFS adds the guarantees that Pebble wrongly assumes of a file system.
type storeFS struct {
	vfs.FS
	s *Spool
}

// Create creates a file, after the necessary preparations.
func (f *storeFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	base := f.PathBase(name)
	switch kind := kindOf(name); {
	case kind == fileTable || kind == fileBlob:
		// Pebble repeats a failed flush at once: 25,000 times in 40 s. The log is
		// not delayed, because writers wait for it.
		f.s.pauseFlush()
	case strings.HasPrefix(base, "marker."):
		// The marker says which of the files that were just created is in use.
		// Pebble syncs the directory after the marker is created, but not before: a
		// crash may leave the marker without the file, which destroys the store.
		// TestCrashAtEveryWrite has found this.
		if err := f.syncAround(name); err != nil {
			return nil, err
		}
	case kind == fileManifest:
		if num, ok := manifestNum(base); ok {
			return f.patient(name, func() (vfs.File, error) { return f.createManifest(name, num, category) })
		}
	}
	file, err := f.wrap(name)(f.patient(name, func() (vfs.File, error) { return f.FS.Create(name, category) }))
	if num, ok := logNum(base); ok && err == nil {
		return f.madeLog(file, name, num)
	}
	if _, num, ok := markedManifest(base); ok && err == nil {
		// Pebble syncs the directory only after it has deleted the old marker;
		// meanwhile another of its goroutines may delete other files and so call
		// settle.
		if err := f.syncAround(name); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		f.s.manifests.marked(num)
	}
	return file, err
}

// syncAround syncs the directory of a file.
func (f *storeFS) syncAround(name string) error {
	_, err := f.patient(name, func() (vfs.File, error) { return nil, syncDir(f.FS, f.PathDir(name)) })
	return err
}

// patient creates a file of the store. If room, inodes or file descriptors are
// lacking it waits, as a write does: without a new file for the log or the list of
// tables Pebble panics with locks held, or ends the process. Other errors end the
// process here, with a message, unless Open can still return them.
func (f *storeFS) patient(name string, create func() (vfs.File, error)) (vfs.File, error) {
	for tries := 0; ; {
		file, err := create()
		if err == nil {
			return file, nil
		}
		wait := isNoRoom(err) || isNoFiles(err)
		if f.s.hasNoTime() {
			tries++
		}
		if wait && tries < closingWrites {
			if isNoFiles(err) && f.s.spare.give() {
				continue
			}
			if f.s.wanting.allow() {
				f.s.raise(Alarm{Kind: AlarmStore, Text: "the store waits for disk space, inodes or file descriptors to create a file", Err: err})
			}
			time.Sleep(f.s.cfg.pause)
			continue
		}
		kind := kindOf(name)
		switch {
		case strings.HasPrefix(f.PathBase(name), "marker."):
			kind = fileManifest
		case kind == fileBlob:
			kind = fileTable // nothing is written yet
		}
		if kind != fileOther && !f.s.canReturn(kind, err) {
			f.s.die(fmt.Errorf("spool: create %s: %w", name, err))
		}
		return nil, err
	}
}

// Open opens a file for reading, using a spare descriptor if no other is left.
func (f *storeFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.blobProblem(name); err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name, opts...)
	if isNoFiles(err) && f.s.spare.give() {
		return f.FS.Open(name, opts...)
	}
	return file, err
}

// blobProblem checks the end of a blob file. Pebble panics if that is damaged or the
// file is missing (fileCacheHandle.findOrCreateBlob, v2.1.7), on the goroutine that
// reads a content; it returns an error that it does not take for damage. For files that
// are missing at a start see replaceBlobs.
func (f *storeFS) blobProblem(name string) error {
	if kindOf(name) != fileBlob {
		return nil
	}
	file, err := f.FS.Open(name)
	if oserror.IsNotExist(err) {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, name)
	}
	if err != nil {
		return nil // the caller gets the same error
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r, err := blob.NewFileReader(context.Background(), readable, blob.FileReaderOptions{})
	if err == nil {
		return r.Close()
	}
	if closeErr := file.Close(); !isWrong(err) || closeErr != nil {
		return nil // the caller gets the same error and may handle it better
	}
	return fmt.Errorf("%w: %s: %v", ErrCorrupt, name, err) // %v: not Pebble's corruption
}

// madeLog records that a log has been created. Its name must be durable first: a log
// that is recorded but missing counts as lost.
func (f *storeFS) madeLog(file vfs.File, name string, num uint64) (vfs.File, error) {
	_, err := f.patient(name, func() (vfs.File, error) { return nil, syncDir(f.FS, f.PathDir(name)) })
	if err == nil {
		err = f.s.manifests.logMade(num)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// giveUpLog records that a file is about to be deleted, if it is a log.
func (f *storeFS) giveUpLog(name string) error {
	if num, ok := logNum(f.PathBase(name)); ok {
		return f.s.manifests.logGivenUp(num)
	}
	return nil
}

// Remove removes a file, after the necessary preparations.
func (f *storeFS) Remove(name string) error {
	if err := f.giveUpLog(name); err != nil {
		return err
	}
	if !strings.HasPrefix(f.PathBase(name), "marker.") { // otherwise the marker is being moved
		if err := f.s.manifests.beforeRemoval(); err != nil {
			return err
		}
	}
	err := f.FS.Remove(name)
	if num, ok := manifestNum(f.PathBase(name)); ok && err == nil {
		if err := f.FS.Remove(f.s.manifestCopy(num)); err != nil && !oserror.IsNotExist(err) {
			f.s.cfg.Logger.Error("cannot delete the copy of an old MANIFEST", "file", f.s.manifestCopy(num), "error", err)
		}
	}
	return err
}

// OpenDir opens a directory to sync it.
func (f *storeFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.patient(name, func() (vfs.File, error) { return f.FS.OpenDir(name) })
	if err != nil {
		return nil, err
	}
	return &storeFile{File: dir, s: f.s, name: name, kind: fileManifest}, nil
}

// ReuseForWrite makes a new log from an old one.
func (f *storeFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := errors.Join(f.s.manifests.beforeRemoval(), f.giveUpLog(old)); err != nil {
		return nil, err
	}
	file, err := f.wrap(name)(f.patient(name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, category) }))
	if num, ok := logNum(f.PathBase(name)); ok && err == nil {
		return f.madeLog(file, name, num)
	}
	return file, err
}

func (f *storeFS) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(file vfs.File, err error) (vfs.File, error) {
		kind := kindOf(name)
		if err != nil || kind == fileOther {
			return file, err
		}
		wrapped := &storeFile{File: file, s: f.s, name: name, kind: kind}
		if kind == fileLog {
			f.s.place.log.Store(wrapped)
		}
		return wrapped, nil
	}
}

// Unwrap implements the interface that vfs.Root uses.
func (f *storeFS) Unwrap() vfs.FS { return f.FS }

// pauseFlush slows down the creation of files while the disk is full.
func (s *Spool) pauseFlush() {
	if s.room.failedWithin(roomPause) {
		s.work.pause(roomPause)
	}
}

// A fileKind determines how Pebble handles errors of a file.
type fileKind uint8

const (
	fileOther    fileKind = iota
	fileTable             // written by a flush or compaction, which can be repeated
	fileBlob              // the same, but errors at its end cause a nil dereference
	fileLog               // a failed write ends the process
	fileManifest          // the same
)

func kindOf(name string) fileKind {
	switch filepath.Ext(name) {
	case ".sst":
		return fileTable
	case ".blob":
		return fileBlob
	case ".log":
		return fileLog
	}
	if strings.HasPrefix(filepath.Base(name), "MANIFEST-") {
		return fileManifest
	}
	return fileOther
}

// A storeFile is a file of the store. On a full disk a write waits for room instead
// of failing. A failed flush would have to begin again; and after a failed write to
// the log the process would have to end, could not start again on the full disk,
// and would not resume by itself when there is room.
//
// Other errors end the process here, with a message, where Pebble would panic or
// worse: rotateWAL panics with locks held, and blob.FileWriter.Close aborts what
// Finish has already ended. A restart finds everything in the log. Only errors of a
// table are left to Pebble. A failed sync is never repeated: the system may have
// dropped the pages, and the second sync would then report success.
type storeFile struct {
	vfs.File
	s    *Spool
	name string
	kind fileKind
}

// closingWrites is the number of attempts of a write to a full disk while the spool
// is being opened or closed: for 5 s.
const closingWrites = 20

// hasNoTime reports whether a write must not wait indefinitely for room. A start that
// waits is worse than one that fails: nothing answers, and the service manager does not
// see that anything is wrong.
func (s *Spool) hasNoTime() bool { return s.starting.Load() || s.work.ctx.Err() != nil }

func (f *storeFile) Write(p []byte) (n int, err error) {
	for tries := 0; ; {
		m, err := f.File.Write(p[n:])
		n += m
		if err == nil || !isNoRoom(err) || tries >= closingWrites {
			return n, f.check("write", err)
		}
		if f.s.hasNoTime() {
			tries++
		}
		if f.s.wanting.allow() {
			f.s.raise(Alarm{Kind: AlarmStore, Text: "the store waits for disk space", Err: err})
		}
		time.Sleep(f.s.cfg.pause)
	}
}

func (f *storeFile) Sync() error     { return f.synced(f.File.Sync()) }
func (f *storeFile) SyncData() error { return f.synced(f.File.SyncData()) }

// synced ends a sync. The callers of Commit that it was made for go on afterwards.
func (f *storeFile) synced(err error) error {
	if f.kind == fileLog && err == nil {
		f.s.count.syncs.Add(1)
		f.s.checkPlace(f)
	}
	return f.check("sync", err)
}

func (f *storeFile) check(what string, err error) error {
	if err != nil && !f.s.canReturn(f.kind, err) {
		f.s.die(fmt.Errorf("spool: %s %s: %w", what, f.name, err))
	}
	return err
}

// canReturn reports whether Pebble handles an error of a file. While it is opened, it
// returns errors of a log or a list of tables, but it waits for flushes, which it repeats
// without end.
func (s *Spool) canReturn(kind fileKind, err error) bool {
	switch {
	case !s.starting.Load():
		return kind == fileTable
	case isNoRoom(err), isNoFiles(err):
		return false
	}
	return s.opening.Load() && kind != fileTable && kind != fileBlob
}

// isNoRoom reports whether an error means that the disk, or a quota, is full.
func isNoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
