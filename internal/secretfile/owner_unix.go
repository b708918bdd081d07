//go:build unix

package secretfile

import (
	"os"
	"slices"
	"syscall"
)

// ofOurGroup reports whether a file belongs to a group of this process.
func ofOurGroup(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	groups, err := os.Getgroups()
	return int(stat.Gid) == os.Getegid() || err == nil && slices.Contains(groups, int(stat.Gid))
}

// trusted is Trusted.
func trusted(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid() || os.Geteuid() == 0)
}
