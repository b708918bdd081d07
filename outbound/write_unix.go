//go:build unix

package outbound

import (
	"net"
	"syscall"
)

// A directWriter writes to a non-blocking descriptor as much as the system accepts at
// once.
type directWriter struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool // created once, because a closure for each write would be garbage
	data []byte
	n    int
	err  error
}

// newDirectWriter returns nil if the socket has no descriptor.
func newDirectWriter(sock net.Conn) *directWriter {
	s, ok := sock.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	w := &directWriter{raw: raw}
	w.try = w.tryWrite
	return w
}

// write returns how many octets of data were written; fewer than all, without an
// error, if the system accepted no more.
func (w *directWriter) write(data []byte) (int, error) {
	w.data, w.n, w.err = data, 0, nil
	err := w.raw.Write(w.try)
	w.data = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

func (w *directWriter) tryWrite(fd uintptr) bool {
	for w.n < len(w.data) {
		n, err := syscall.Write(int(fd), w.data[w.n:])
		switch err {
		case nil:
			w.n += n
		case syscall.EINTR:
		case syscall.EAGAIN:
			return true
		default:
			w.err = err
			return true
		}
	}
	return true
}
