package outbound

import (
	"net"
	"sync"
	"time"
)

// An earlyRead reads once from a connection while another goroutine writes
// content to it. If anything arrives before the last piece is written, the
// write is broken off: there is a refusal to be read, or the connection is
// gone, and a server that has stopped reading would otherwise hold the writer
// until its time is up.
type earlyRead struct {
	sock net.Conn
	done chan struct{} // closed when the read has returned
	n    int
	err  error

	mu       sync.Mutex
	disarmed bool // the last piece is being written: a reply is in order
	arrived  bool // something came before
}

// readEarly begins to read into buf. The end of the wait is not known yet.
func readEarly(sock net.Conn, buf []byte) *earlyRead {
	e := &earlyRead{sock: sock, done: make(chan struct{})}
	sock.SetReadDeadline(time.Time{}) // if that fails, so does the read
	go e.read(buf)
	return e
}

func (e *earlyRead) read(buf []byte) {
	defer close(e.done)
	e.n, e.err = e.sock.Read(buf)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.disarmed {
		e.arrived = true
		e.sock.SetWriteDeadline(longAgo())
	}
}

// setWriteDeadline sets the deadline for the next piece, unless the write is
// not to be made any more.
func (e *earlyRead) setWriteDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.arrived {
		return nil
	}
	return e.sock.SetWriteDeadline(t)
}

// came tells whether something arrived.
func (e *earlyRead) came() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.arrived
}

// disarm says that the last piece comes now. It tells whether something
// arrived before.
func (e *earlyRead) disarm() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disarmed = true
	return e.arrived
}

// result waits for the read, for which a deadline may have been set meanwhile.
func (e *earlyRead) result() (int, error) {
	<-e.done
	return e.n, e.err
}
