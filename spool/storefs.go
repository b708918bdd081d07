package spool

import (
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A storeFS is the file system as Pebble needs it, where it takes more for
// granted than is safe.
type storeFS struct {
	vfs.FS
	pause func() // waits while the disk is full
}

// Create creates a file, after what has to come first.
func (f *storeFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	switch ext := filepath.Ext(name); {
	case ext == ".sst" || ext == ".blob":
		// Pebble repeats a failed flush at once: 25,000 times in 40 s. The log
		// is not held up, because writers wait for it.
		f.pause()
	case strings.HasPrefix(f.PathBase(name), "marker."):
		// The marker says which of the files that were just created counts.
		// Pebble syncs the directory after the marker is made, but not before:
		// a crash may leave the marker without the file, which is the end of
		// the store. TestCrashAtEveryWrite has seen it.
		if err := syncDir(f.FS, f.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return f.FS.Create(name, category)
}

// Unwrap lets vfs.Root see through.
func (f *storeFS) Unwrap() vfs.FS { return f.FS }

// pauseFlush slows down the making of files while the disk is full.
func (s *Spool) pauseFlush() {
	if s.room.failedWithin(roomPause) {
		s.work.pause(roomPause)
	}
}
