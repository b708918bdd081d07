//go:build unix

package daemon

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/posthaste-mta/posthaste/internal/submit"
)

// maildropUnsupported returns why there can be no maildrop; nil if there can.
func maildropUnsupported() error { return nil }

// openDropped opens a file of the maildrop: a FIFO must not block, and a symbolic link must not lead anywhere.
func openDropped(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) { // a symbolic link, a socket
		return nil, submit.ErrIncomplete
	}
	return f, err
}

// ownerOf returns the owner of a file, and reports whether it has only one name.
func ownerOf(info fs.FileInfo) (user uint32, only bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, stat.Nlink == 1
}

// socketPair returns two connections, each of which is the other end of the other.
func socketPair() (a, b net.Conn, err error) {
	syscall.ForkLock.RLock() // not all systems can mark a socket when they make it
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	a, err = connOf(fds[0])
	b, otherErr := connOf(fds[1])
	return a, b, errors.Join(err, otherErr)
}

func connOf(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "maildrop")
	defer f.Close() // the connection has a descriptor of its own
	return net.FileConn(f)
}
