//go:build unix

package configfile

import (
	"io/fs"
	"syscall"
)

// groupOf returns the group of a directory; -1 if it is root's.
func groupOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 {
		return int(s.Gid)
	}
	return -1
}
