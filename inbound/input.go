package inbound

import (
	"net"
	"sync"
	"syscall"
)

// inputSize is larger than any command line, and large enough to read content in
// few reads.
const inputSize = 32 << 10

type inputBuffer [inputSize]byte

// An input is data that a client has sent and the session has not consumed. It has
// a buffer only while it is not empty: if the connection has a file descriptor, the
// buffer is taken from the pool when the descriptor is readable, not while waiting
// for that.
type input struct {
	conn net.Conn
	pool *sync.Pool // of *inputBuffer

	buffer     *inputBuffer
	start, end int // the pending bytes

	// first is where an encrypted connection is read while the client is idle, since
	// there is no telling from the descriptor whether there is something for the session;
	// nil without TLS.
	first *[firstSize]byte

	raw syscall.RawConn // nil if the connection has no descriptor
	try func(fd uintptr) bool
	n   int   // the result of tryRead
	err error // or its error
}

// firstSize is enough for a group of commands.
const firstSize = 512

// newEncryptedInput returns the input of a connection with TLS.
func newEncryptedInput(conn net.Conn, pool *sync.Pool) *input {
	return &input{conn: conn, pool: pool, first: new([firstSize]byte)}
}

func newInput(conn net.Conn, pool *sync.Pool) *input {
	in := &input{conn: conn, pool: pool}
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			in.raw, in.try = raw, in.tryRead
		}
	}
	return in
}

// waiting returns the pending bytes. They are valid until the next call of fill.
func (in *input) waiting() []byte {
	if in.buffer == nil {
		return nil
	}
	return in.buffer[in.start:in.end]
}

// took removes the first n bytes.
func (in *input) took(n int) { in.start += n }

// fill reads at least one byte, or returns an error. It obeys the connection's read
// deadline. idle is true if the client may take long, so that no buffer should wait with
// it.
func (in *input) fill(idle bool) (n int, err error) {
	if in.start == in.end {
		in.release()
		if idle && in.first != nil {
			return in.fillFirst()
		}
	} else if in.start > 0 {
		in.end = copy(in.buffer[:], in.waiting())
		in.start = 0
	}
	if in.raw == nil {
		in.acquire()
		n, err = in.conn.Read(in.buffer[in.end:])
	} else {
		in.n, in.err = 0, nil
		if err = in.raw.Read(in.try); err == nil {
			n, err = in.n, in.err
		}
	}
	in.end += n
	return n, err
}

// fillFirst waits for the first bytes with a small buffer. More may be there after that.
func (in *input) fillFirst() (n int, err error) {
	if n, err = in.conn.Read(in.first[:]); n > 0 {
		in.acquire()
		in.end = copy(in.buffer[:], in.first[:n])
	}
	return n, err
}

func (in *input) acquire() {
	if in.buffer == nil {
		in.buffer = in.pool.Get().(*inputBuffer)
	}
}

// release returns the buffer to the pool and discards its contents.
func (in *input) release() {
	if in.buffer != nil {
		in.pool.Put(in.buffer)
		in.buffer = nil
	}
	in.start, in.end = 0, 0
}
