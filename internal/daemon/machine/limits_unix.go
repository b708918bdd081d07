//go:build unix

package machine

import (
	"math"
	"syscall"
)

// descriptorLimit raises the soft limit of file descriptors to the hard one and
// returns it; 0 if it cannot be found out.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	if limit.Cur < limit.Max {
		raised := syscall.Rlimit{Cur: limit.Max, Max: limit.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err == nil { // some systems refuse more than a limit of their own
			limit.Cur = limit.Max
		}
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) // it is signed on FreeBSD
}

// KeepPrivate has all files that this process makes closed to other users.
func KeepPrivate() { syscall.Umask(0o077) }
