package outbound

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A line moves octets between a socket and a session such that neither
// direction ever waits for the other. One goroutine owns the line and the
// session. It writes without waiting as long as the system accepts all output,
// which is nearly always the case; only the rest is written by another goroutine,
// while the owner continues to read. So there is one goroutine for each connection
// and usually one switch to it for each event: other goroutines interrupt the
// owner's read by setting the deadline into the past (call).
type line struct {
	sock    net.Conn
	secured *secured      // nil in plaintext
	direct  *directWriter // nil if the socket cannot be written without waiting
	session *client.Session
	config  *TransportConfig
	scratch *pieces      // buffers to put small pieces together in
	tap     *wiretap.Tap // nil: no watcher

	in     []byte
	out    [][]byte
	rest   net.Buffers  // what the other goroutine writes
	busy   bool         // there is such a goroutine
	done   chan written // its result
	waited client.Wait  // the wait that limit belongs to
	limit  time.Time    // when that wait is over; zero if it has no limit
	why    client.Loss  // why the line is down, if it is
	down   bool         // nothing more can be read or written

	mu       sync.Mutex
	deadline time.Time // the socket's read deadline; zero for none
	spent    bool      // that deadline has passed
	reading  bool      // the owner reads, or is about to
	called   bool      // call interrupts the owner's read
}

// readSize is the size of a connection's read buffer. The replies to one group
// of commands usually fit.
const readSize = 2048

func newLine(sock net.Conn, session *client.Session, config *TransportConfig, scratch *pieces) *line {
	return &line{
		sock: sock, direct: newDirectWriter(sock), session: session, config: config, scratch: scratch,
		in: make([]byte, readSize),
	}
}

// call makes receive return soon, once. Any goroutine may call it.
func (l *line) call() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.called {
		return
	}
	l.called = true
	if l.reading {
		l.spent = true
		l.sock.SetReadDeadline(longAgo()) // it cannot fail before the owner closes the socket
	}
}

// listen prepares for reading. It returns false after call.
func (l *line) listen() bool {
	if w := l.session.Wait(); w != l.waited {
		l.waited = w
		l.limit = l.until(w.Kind)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.called {
		l.called = false
		return false
	}
	// A deadline that is too early costs one needless iteration, after minutes;
	// setting it for each wait costs more.
	if l.spent || !l.limit.IsZero() && (l.deadline.IsZero() || l.limit.Before(l.deadline)) {
		l.spent = false
		l.deadline = l.limit
		l.sock.SetReadDeadline(l.limit) // if that fails, so does the read
	}
	l.reading = true
	return true
}

// until returns when a wait that begins now is over. Only WaitNothing has no limit,
// since the session then waits for this side; every other state of a connection ends
// by itself, whatever the server does.
func (l *line) until(k client.WaitKind) time.Time {
	switch k {
	case client.WaitNothing:
		return time.Time{}
	case client.WaitDataBlock: // the writer has the same limit, and should fail first: it reads the server's last reply
		return time.Now().Add(l.config.wait(k) + 2*lastWords)
	case client.WaitUnasked:
		return time.Now().Add(lastWords)
	}
	return time.Now().Add(l.config.wait(k))
}

// receive reads once and feeds the session, unless it is interrupted by call or the
// time is up. Afterwards the line may be down.
func (l *line) receive() {
	if !l.listen() {
		return
	}
	n, err := l.read()
	l.mu.Lock()
	l.reading, l.called = false, false
	late := err != nil && errors.Is(err, os.ErrDeadlineExceeded)
	l.spent = l.spent || late
	l.mu.Unlock()
	l.tick()
	l.heard(n)
	l.session.Feed(l.in[:n])
	switch {
	case err == nil:
	case !late:
		l.fail(client.LossClosed)
	case !l.limit.IsZero() && !time.Now().Before(l.limit):
		l.fail(client.LossTimeout)
	}
}

// tick gives the session the time if the MAIL of a message with a deadline may be written next.
func (l *line) tick() {
	if l.session.Timed() {
		l.session.Tick(mail.Instant(time.Now().UnixNano()))
	}
}

func (l *line) fail(why client.Loss) {
	if !l.down {
		l.down, l.why = true, why
	}
}

// flush writes the session's output. It returns false if there was none. Afterwards
// all is written, or the rest is being written by another goroutine (busy), or the
// line is down.
func (l *line) flush() (wrote bool) {
	if l.secured != nil {
		return l.flushSecured()
	}
	for !l.busy && !l.down {
		l.out = l.session.Out(l.out[:0])
		if len(l.out) == 0 {
			break
		}
		wrote = true
		n, blocked, err := l.writeNow(l.out)
		l.said(l.out, n)
		clear(l.out)
		l.session.Written(n)
		switch {
		case err != nil:
			l.hearOut(client.LossClosed)
		case blocked:
			l.writeRest()
		}
	}
	return wrote
}

// writeNow writes as much as the system accepts at once. It returns how much that
// was, and whether the rest must wait.
func (l *line) writeNow(pieces [][]byte) (total int, blocked bool, err error) {
	if l.direct == nil {
		return 0, true, nil
	}
	for len(pieces) > 0 {
		data, count, buf := l.gather(pieces)
		n, err := l.direct.write(data)
		if buf != nil {
			l.scratch.put(buf)
		}
		total += n
		if err != nil || n < len(data) {
			return total, err == nil, err
		}
		pieces = pieces[count:]
	}
	return total, false, nil
}

// gather returns the first piece; or, if the next ones are small, joins them in a
// buffer of scratch: copying a few kilobytes costs less than a system call, and a
// packet, for each.
func (l *line) gather(pieces [][]byte) (data []byte, count int, buf *[]byte) {
	if len(pieces) == 1 || len(pieces[0])+len(pieces[1]) > pieceSize {
		return pieces[0], 1, nil
	}
	buf = l.scratch.get()
	data = (*buf)[:0]
	for _, p := range pieces {
		if len(data)+len(p) > pieceSize {
			break
		}
		data = append(data, p...)
		count++
	}
	return data, count, buf
}

// A written is the result of a write.
type written struct {
	n   int64
	err error
}

// writeRest starts another goroutine that writes the session's output, waiting for the
// server to accept it.
func (l *line) writeRest() {
	l.out = l.session.Out(l.out[:0])
	l.said(l.out, -1) // before it is, since the other goroutine forgets what it has written
	l.writeAside(l.out)
}

// writeAside has another goroutine write.
func (l *line) writeAside(rest net.Buffers) {
	if l.done == nil {
		l.done = make(chan written, 1)
	}
	l.busy, l.rest = true, rest
	l.sock.SetWriteDeadline(time.Now().Add(l.config.wait(l.session.Wait().Kind))) // if that fails, so does the write
	go func() {
		n, err := l.rest.WriteTo(l.sock)
		l.done <- written{n, err}
		l.call()
	}()
}

// checkWrite collects the result of the other goroutine if it is done.
func (l *line) checkWrite() {
	if !l.busy {
		return
	}
	select {
	case w := <-l.done:
		l.confirm(w)
		if w.err == nil {
			l.sock.SetWriteDeadline(time.Time{})
		} else if !l.session.Over() {
			l.hearOut(lossOf(w.err))
		}
	default:
	}
}

func (l *line) confirm(w written) {
	l.busy, l.rest = false, nil
	clear(l.out)
	if l.secured == nil {
		l.session.Written(int(w.n))
	} else if n := l.secured.unconfirmed; n > 0 {
		l.session.Written(n)
	}
}

// longAgo returns a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// stop ends the other goroutine. If it had not written everything, the line is down.
func (l *line) stop() {
	if !l.busy {
		return
	}
	l.sock.SetWriteDeadline(longAgo())
	w := <-l.done
	l.confirm(w)
	if w.err != nil {
		l.fail(client.LossClosed)
	}
}

// lastWords is the time to wait for the reply that a server sent before it broke the
// connection while we were writing, or for the rest of an unsolicited reply.
const lastWords = time.Second

// hearOut reads what the server sent before a write failed: most likely the reason
// for which it broke the connection.
func (l *line) hearOut(why client.Loss) {
	l.sock.SetReadDeadline(time.Now().Add(lastWords)) // if that fails, so does the read
	for total := 0; !l.session.Over() && total < pieceSize; {
		n, err := l.read()
		l.tick()
		l.heard(n)
		l.session.Feed(l.in[:n])
		total += n
		if err != nil {
			break
		}
	}
	l.fail(why)
}

// abort breaks off the connection: reads and writes in progress fail.
func (l *line) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent, l.called = true, true
	l.sock.SetDeadline(longAgo())
}

// quitTime is the time limit for writing QUIT. It goes into an empty buffer, and
// its reply would change nothing (smtp_skip_quit_response).
const quitTime = time.Second

// close writes the session's remaining output, if it can be written now, and
// closes the socket.
func (l *line) close() {
	l.stop()
	if l.out = l.session.Out(l.out[:0]); (len(l.out) > 0 || l.secured != nil) && !l.down && l.sock.SetWriteDeadline(time.Now().Add(quitTime)) == nil {
		l.said(l.out, -1)
		l.rest = l.out
		if l.secured != nil {
			l.rest = l.secured.sealed(l.out)
		}
		l.rest.WriteTo(l.sock)
	}
	if l.tap != nil {
		l.tap.End()
	}
	l.sock.Close()
}

// said shows the first n octets of some pieces to those who watch, -1 all of them.
func (l *line) said(pieces [][]byte, n int) {
	if l.tap == nil {
		return
	}
	for _, p := range pieces {
		if n >= 0 {
			p = p[:min(len(p), n)]
			n -= len(p)
		}
		l.tap.Sent(p)
	}
}

// heard shows the first n octets of what was read to those who watch.
func (l *line) heard(n int) {
	if l.tap != nil {
		l.tap.Received(l.in[:n])
	}
}

// lossOf returns the client.Loss for an error of the connection.
func lossOf(err error) client.Loss {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return client.LossTimeout
	}
	return client.LossClosed
}

// obey breaks off the connection when a context ends. The returned function undoes
// that; it reports whether the connection was left alone.
func (l *line) obey(ctx context.Context) (release func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, l.abort)
}
