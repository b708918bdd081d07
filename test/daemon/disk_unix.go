//go:build unix

package daemon

import (
	"io/fs"
	"syscall"
)

// onDisk returns how many octets a file takes.
func onDisk(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }
