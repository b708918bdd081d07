package spool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A place is where the store was when it was opened. What is written into files
// that somebody has removed, or moved away together with their directory,
// succeeds and is lost: 22 messages were acknowledged that way.
type place struct {
	dir fileID                    // of the directory of the store; zero if the file system cannot say
	log atomic.Pointer[storeFile] // the write-ahead log made last
}

// A fileID tells one file from another.
type fileID struct{ device, inode uint64 }

// identify returns which file it is and how many names it has; ok is false if
// the file system cannot say.
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

// inPlace makes sure, after a commit, that it is where the next start will look
// for it. It costs two system calls.
func (s *Spool) inPlace() error {
	if s.place.dir == (fileID{}) {
		return nil
	}
	err := s.misplaced()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the queue directory was removed or replaced while in use, put it back or restart: %w", err)
	if s.damped.allow() {
		s.raise(Alarm{Kind: AlarmStore, Text: "no mail is taken in, and nothing can be recorded", Err: err})
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
			return nil // it has just been replaced by the next one
		}
		if _, names, ok := identify(info); ok && names == 0 {
			return fmt.Errorf("%s was removed", log.name)
		}
	}
	return nil
}

// spareFiles are descriptors that the store can fall back on when there are no
// others left: a log that cannot be begun stops all mail.
type spareFiles struct {
	mu   sync.Mutex
	held []vfs.File
}

// spareCount is how many there are: a log, the two files of a MANIFEST, a
// marker, a table and its blob file, and two directories to be synced.
const spareCount = 8

func (f *spareFiles) fill(s *Spool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) < spareCount {
		file, err := s.disk.OpenDir(s.cfg.Dir)
		if err != nil {
			return // it is tried again by the next round of maintenance
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

// isNoFiles reports whether an error means that there are no descriptors left.
func isNoFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
