//go:build !unix

package outbound

import (
	"errors"
	"syscall"
)

func readNow(syscall.RawConn, []byte) (int, error) { return 0, errors.ErrUnsupported }

// canReadNow tells whether readNow can be used.
const canReadNow = false
