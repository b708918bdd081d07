package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A secured is the TLS of a line. It belongs to the line's owner.
type secured struct {
	conn *tls.Conn
	wire *wire
	// unconfirmed is the number of octets of the session's output that are in what the other goroutine
	// writes.
	unconfirmed int
}

// A wire is the connection below TLS. What TLS writes is kept, so that the line can write it
// without waiting, in a piece with what follows; only the handshake is written at once.
type wire struct {
	net.Conn
	handshake bool
	out       []byte
}

// wireMax is the number of octets a wire keeps: several times what is encrypted at once. More is only kept
// for a server that has TLS answer it, with new keys (RFC 8446 4.6.3), and does not read the answers.
const wireMax = 4 * pieceSize

var errWireFull = errors.New("the server does not read what TLS answers")

// Write keeps a record.
func (w *wire) Write(record []byte) (int, error) {
	if w.handshake {
		return w.Conn.Write(record)
	}
	if len(w.out)+len(record) > wireMax {
		return 0, errWireFull
	}
	w.out = append(w.out, record...)
	return len(record), nil
}

// SetWriteDeadline does nothing. TLS sets one around close_notify, and leaves it in the past: it
// would keep the line from writing what TLS has written.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// negotiate has TLS protect the line from now on. Nothing must be under way on it. It takes as
// long as the limit allows, whatever the server does.
func (l *line) negotiate(ctx context.Context, cfg *tls.Config, limit time.Duration) (*tls.ConnectionState, error) {
	w := &wire{Conn: l.sock, handshake: true}
	conn := tls.Client(w, cfg)
	l.mu.Lock()
	if ctx.Err() == nil { // else abort has broken the connection off, or is about to
		l.sock.SetDeadline(time.Now().Add(limit)) // if that fails, so does the handshake
	}
	l.mu.Unlock()
	err := conn.Handshake()
	l.mu.Lock()
	if ctx.Err() == nil {
		l.sock.SetDeadline(time.Time{})
		l.deadline, l.spent = time.Time{}, true // listen sets the next one
	}
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	w.handshake = false
	l.secured = &secured{conn: conn, wire: w}
	state := conn.ConnectionState()
	return &state, nil
}

// read reads what the server has sent, under TLS if there is any.
func (l *line) read() (int, error) {
	if l.secured != nil {
		return l.secured.conn.Read(l.in)
	}
	return l.sock.Read(l.in)
}

// flushSecured is flush under TLS: it encrypts a piece of the output, and writes that as far as
// the system accepts it at once.
func (l *line) flushSecured() (wrote bool) {
	for !l.busy && !l.down {
		l.out = l.session.Out(l.out[:0])
		if len(l.out) == 0 {
			l.writeRecords(0) // of TLS itself
			break
		}
		wrote = true
		n, err := l.encrypt(l.out)
		l.said(l.out, n)
		clear(l.out)
		if err != nil {
			l.session.Written(0)
			l.fail(client.LossClosed)
			break
		}
		l.writeRecords(n)
	}
	return wrote
}

// encrypt encrypts the first of some pieces, or the next ones, too, if they are small, and
// returns how many octets of them that are.
func (l *line) encrypt(pieces [][]byte) (int, error) {
	data, _, buf := l.gather(pieces)
	data = data[:min(len(data), pieceSize)]
	n, err := l.secured.conn.Write(data)
	if buf != nil {
		l.scratch.put(buf)
	}
	return n, err
}

// writeRecords writes what TLS has encrypted, with so many octets of the session's output, as
// far as the system accepts it at once. The other goroutine writes the rest, and confirms it.
//
// If the connection breaks meanwhile, all of that output counts as written: some of it may
// have been, and then it must not be taken for certain that the server does not have it.
func (l *line) writeRecords(n int) {
	records := l.secured.wire.out
	if len(records) == 0 {
		return
	}
	written := 0
	var err error
	if l.direct != nil {
		written, err = l.direct.write(records)
	}
	switch {
	case err != nil:
		if written == 0 {
			n = 0
		}
		l.secured.wire.out = nil
		l.session.Written(n)
		l.hearOut(client.LossClosed)
	case written == len(records):
		l.secured.wire.out = records[:0]
		if n > 0 {
			l.session.Written(n)
		}
	default:
		l.secured.wire.out = nil // the other goroutine has it
		l.secured.unconfirmed = n
		l.writeAside(net.Buffers{records[written:]})
	}
}

// sealed returns what ends a connection under TLS: some last output, and that nothing follows.
func (s *secured) sealed(out [][]byte) net.Buffers {
	for _, piece := range out {
		if _, err := s.conn.Write(piece); err != nil {
			return nil
		}
	}
	s.conn.CloseWrite() // it can only fail as the records that it follows
	records := s.wire.out
	s.wire.out = nil
	return net.Buffers{records}
}
