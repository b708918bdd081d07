//go:build unix

package keyring

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
