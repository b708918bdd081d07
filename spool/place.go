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
// messages were acknowledged that way.
type place struct {
	dir fileID                    // of the directory of the store; zero if the file system does not provide it
	log atomic.Pointer[storeFile] // the latest write-ahead log
}

// A fileID identifies a file.
type fileID struct{ device, inode uint64 }

// identify returns a file's ID and its number of names; ok is false if the file
// system does not provide them.
func identify(info vfs.FileInfo) (id fileID, names uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 0, false
	}
	return fileID{uint64(st.Dev), st.Ino}, uint64(st.Nlink), true
}

func (p *place) init(s *Spool) error {
	info, err := s.disk.Stat(s.path("db"))
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	p.dir, _, _ = identify(info)
	return nil
}

// inPlace checks, after a commit, that the data is where the next start will look
// for it. It costs two system calls.
func (s *Spool) inPlace() error {
	if s.place.dir == (fileID{}) {
		return nil
	}
	err := s.misplaced()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the queue directory was removed or replaced while in use; put it back or restart: %w", err)
	if s.damped.allow() {
		s.raise(Alarm{Kind: AlarmStore, Text: "new mail is refused, and outcomes cannot be recorded", Err: err})
	}
	return err
}

func (s *Spool) misplaced() error {
	info, err := s.disk.Stat(s.path("db"))
	if err != nil {
		return err
	}
	if id, _, ok := identify(info); ok && id != s.place.dir {
		return fmt.Errorf("%s is another directory", s.path("db"))
	}
	if log := s.place.log.Load(); log != nil {
		info, err := log.File.Stat()
		if err != nil {
			return nil // it has just been replaced by the next log
		}
		if _, names, ok := identify(info); ok && names == 0 {
			return fmt.Errorf("%s was removed", log.name)
		}
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
