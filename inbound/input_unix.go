//go:build unix

package inbound

import (
	"errors"
	"io"
	"syscall"
)

// tryRead reads available data without waiting; false means that there is none, and
// that the runtime must call again when there may be some.
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
