//go:build unix

package inbound

import (
	"errors"
	"io"
	"syscall"
)

// tryRead reads what is there without waiting; false means that nothing is,
// and that the runtime is to call again when something may be.
func (in *input) tryRead(fd uintptr) bool {
	in.acquire()
	for {
		n, err := syscall.Read(int(fd), in.buffer[in.end:])
		switch {
		case err == nil && n == 0:
			in.err = io.EOF
		case err == nil:
			in.n = n
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			if in.start == in.end {
				in.release()
			}
			return false
		default:
			in.err = err
		}
		return true
	}
}
