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

// trusted reports whether a file belongs to the user of this process, or to root. Root
// may read a file of any owner, as when it checks the configuration of a service.
func trusted(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid() || os.Geteuid() == 0)
}
