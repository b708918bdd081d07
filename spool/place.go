package spool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A place is where the store was when it was opened. Writes to files that were
// removed, or moved away together with their directory, succeed and are lost: 22
// messages were acknowledged that way. So each sync of the write-ahead log is
// followed by a check, for all commits that it made durable.
type place struct {
	dir fileID                    // of the directory of the store; zero if the file system does not provide it
	log atomic.Pointer[storeFile] // the latest write-ahead log

	wrong atomic.Pointer[error] // the result of the latest check; nil if all was in place
	found atomic.Uint64         // number of checks that found something wrong
}

// A fileID identifies a file.
type fileID struct{ device, inode uint64 }

func (p *place) init(s *Spool) error {
	info, err := s.disk.Stat(s.path("db"))
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	p.dir, _, _ = identify(info)
	return nil
}

// checkPlace checks, after a sync of a log, that the log is where the next start will
// look for it. It costs two system calls.
func (s *Spool) checkPlace(log *storeFile) {
	err := s.misplaced(log)
	if err == nil {
		s.place.wrong.Store(nil)
		return
	}
	s.place.wrong.Store(&err)
	s.place.found.Add(1)
}

// inPlace returns an error if a check has found since an earlier moment, at which
// found had the value before, that the store is not in its place, or if the latest
// one did.
func (s *Spool) inPlace(before uint64) error {
	why := s.place.wrong.Load()
	if why == nil {
		if s.place.found.Load() == before {
			return nil
		}
		why = &errWasMisplaced
	}
	err := fmt.Errorf("the queue directory was removed or replaced while in use; put it back or restart: %w", *why)
	if s.damped.allow() {
		s.raise(Alarm{Kind: AlarmStore, Text: "new mail is refused, and outcomes cannot be recorded", Err: err})
	}
	return err
}

// errWasMisplaced means that the store is back in its place, but a log may not be.
var errWasMisplaced = errors.New("it was not in its place during a commit")

// misplaced returns an error unless the directory of the store is the one that was
// opened, and the log, if there is one, has a name.
func (s *Spool) misplaced(log *storeFile) error {
	if s.place.dir == (fileID{}) {
		return nil
	}
	info, err := s.disk.Stat(s.path("db"))
	if err != nil {
		return err
	}
	if id, _, ok := identify(info); ok && id != s.place.dir {
		return fmt.Errorf("%s is another directory", s.path("db"))
	}
	if log == nil {
		return nil
	}
	if info, err = log.File.Stat(); err != nil {
		return err
	}
	if _, names, ok := identify(info); ok && names == 0 {
		return fmt.Errorf("%s was removed", log.name)
	}
	return nil
}

// spareFiles are file descriptors that are released when no others are left: a log
// that cannot be created stops all mail.
type spareFiles struct {
	mu   sync.Mutex
	held []vfs.File
}

// spareCount is their number: a log, the two files of a MANIFEST, a marker, a table
// and its blob file, and two directories to sync.
const spareCount = 8

func (f *spareFiles) fill(s *Spool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) < spareCount {
		file, err := s.disk.OpenDir(s.cfg.Dir)
		if err != nil {
			return // the next round of maintenance tries again
		}
		f.held = append(f.held, file)
	}
}

// give closes them, and reports whether there were any.
func (f *spareFiles) give() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	gave := len(f.held) > 0
	for _, file := range f.held {
		file.Close() // it was opened for reading
	}
	f.held = nil
	return gave
}

// isNoFiles reports whether an error means that no file descriptors are left.
func isNoFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
