//go:build unix

package outbound

import (
	"errors"
	"io"
	"syscall"
)

// readNow reads from a non-blocking descriptor what is there; 0 and no error if
// that is nothing.
func readNow(raw syscall.RawConn, buf []byte) (n int, err error) {
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		n, readErr = syscall.Read(int(fd), buf)
		return true
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(readErr, syscall.EAGAIN), errors.Is(readErr, syscall.EINTR):
		return 0, nil
	case readErr != nil:
		return 0, readErr
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// canReadNow tells whether readNow can be used.
const canReadNow = true
