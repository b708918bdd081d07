package peercred

import (
	"net"
	"syscall"
)

// User returns the user of the process at the other end of a unix socket; false if it
// cannot be found out.
func User(conn *net.UnixConn) (uid uint32, ok bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			uid, ok = cred.Uid, true
		}
	})
	return uid, ok && err == nil
}
