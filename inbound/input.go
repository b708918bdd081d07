package inbound

import (
	"net"
	"sync"
	"syscall"
)

// inputSize is larger than any command line, and large enough for content to
// come in few reads.
const inputSize = 32 << 10

type inputBuffer [inputSize]byte

// An input is what a client has sent and the session has not taken. It has a
// buffer only while there is something in it: where the connection has a file
// descriptor, the buffer is taken from the pool when the descriptor is found
// readable, not while waiting for that.
type input struct {
	conn net.Conn
	pool *sync.Pool // of *inputBuffer

	buffer     *inputBuffer
	start, end int // the octets that are waiting

	raw syscall.RawConn // nil if the connection has no descriptor
	try func(fd uintptr) bool
	n   int   // what try has read
	err error // or why not
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

// waiting returns the octets that are there. They stay where they are until
// the next call of fill.
func (in *input) waiting() []byte {
	if in.buffer == nil {
		return nil
	}
	return in.buffer[in.start:in.end]
}

// took removes the first n octets.
func (in *input) took(n int) { in.start += n }

// fill reads at least one octet, or returns why there is none. It obeys the
// connection's read deadline.
func (in *input) fill() (n int, err error) {
	if in.start == in.end {
		in.release()
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

func (in *input) acquire() {
	if in.buffer == nil {
		in.buffer = in.pool.Get().(*inputBuffer)
	}
}

// release gives the buffer back, with whatever is in it.
func (in *input) release() {
	if in.buffer != nil {
		in.pool.Put(in.buffer)
		in.buffer = nil
	}
	in.start, in.end = 0, 0
}
