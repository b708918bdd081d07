//go:build unix

package spool

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// identify returns a file's ID and its number of names; ok is false if the file
// system does not provide them.
func identify(info vfs.FileInfo) (id fileID, names uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 0, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink), true
}
