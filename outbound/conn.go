package outbound

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A conn is a connection with its session. It belongs to one delivery or to
// the idle pool, never to both.
type conn struct {
	sock    net.Conn
	raw     syscall.RawConn // nil if the connection cannot be looked at without waiting
	session *client.Session
	config  *TransportConfig
	tx      client.Transaction
	content content

	interrupt func() // ends all waits; made once, for attach is called for every delivery

	host    mail.Host
	hop     hopKey
	name    string // "name[address]:port"
	carried int    // transactions that were begun
	emptied int    // messages without recipients that were counted
	expires time.Time

	in     []byte
	pieces [][]byte
	vec    net.Buffers
	waited client.Wait // the wait that the read deadline is for
	early  *earlyRead  // reads while content is being written

	idleSince, idleUntil time.Time // of the idle pool, as are the next two
	older, newer         *conn
}

// readSize is the size of a connection's read buffer. The replies to one group
// of commands mostly fit.
const readSize = 2048

func (c *conn) address() addrKey { return addrKey{c.hop.transport, c.host.Addr} }

// release forgets the message, so that an idle connection does not keep it.
func (c *conn) release() {
	c.tx.Envelope, c.tx.Recipients = mail.Envelope{}, nil
	clear(c.tx.Results)
}

// emptyTaken returns how many messages without recipients the server took
// since the last call.
func (c *conn) emptyTaken() uint64 {
	n := c.session.Tally().EmptyTaken - c.emptied
	c.emptied += n
	return uint64(n)
}

// run moves octets until a transaction is done, which it returns, or the
// session is over or, without content, ready.
func (c *conn) run(ctx context.Context, body *content) (*client.Transaction, error) {
	for {
		if err := c.flush(ctx); err != nil {
			c.writeFailed(ctx, err)
		}
		if t := c.session.Next(); t != nil || c.session.Over() || body == nil && c.session.Ready() {
			return t, nil
		}
		if c.session.Wanting() == nil {
			c.receive(ctx)
			continue
		}
		if err := c.give(ctx, body); err != nil {
			c.session.End(client.LossAbandoned)
			return c.session.Next(), err
		}
	}
}

// give supplies the content: at once if it is small, else piece by piece while
// listening for a server that does not want to hear the rest. The last piece
// is left for run to write. An error is the content's.
func (c *conn) give(ctx context.Context, body *content) error {
	piece, last, err := body.next(false)
	if err != nil {
		return err
	}
	if !last {
		c.early = readEarly(c.sock, c.in)
	}
	for !last {
		c.session.Supply(piece, false)
		if err := c.flush(ctx); err != nil {
			c.writeFailed(ctx, err)
			return nil
		}
		if c.early.came() {
			c.receive(ctx) // over, unless it was less than a reply
			if c.session.Over() {
				return nil
			}
			c.early = readEarly(c.sock, c.in)
		}
		if piece, last, err = body.next(false); err != nil {
			return err
		}
	}
	if c.early != nil && c.early.disarm() {
		c.receive(ctx)
		if c.session.Over() {
			return nil
		}
	}
	c.session.Supply(piece, true)
	return nil
}

// flush writes what the session has to write.
func (c *conn) flush(ctx context.Context) error {
	c.pieces = c.session.Out(c.pieces[:0])
	if len(c.pieces) == 0 {
		return nil
	}
	err := c.setWriteDeadline(time.Now().Add(c.config.wait(c.session.Wait().Kind)))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.session.Written(0)
		return err
	}
	n, err := c.write()
	clear(c.pieces)
	c.session.Written(n)
	return err
}

// write writes the pieces, and returns how many octets of them.
func (c *conn) write() (int, error) {
	if len(c.pieces) == 1 {
		return c.sock.Write(c.pieces[0])
	}
	c.vec = net.Buffers(c.pieces)
	n, err := c.vec.WriteTo(c.sock)
	return int(n), err
}

func (c *conn) setWriteDeadline(t time.Time) error {
	if c.early != nil {
		return c.early.setWriteDeadline(t)
	}
	return c.sock.SetWriteDeadline(t)
}

// receive reads once and feeds the session, or tells it that nothing comes.
func (c *conn) receive(ctx context.Context) {
	if w := c.session.Wait(); w != c.waited {
		c.waited = w
		if err := c.sock.SetReadDeadline(time.Now().Add(c.config.wait(w.Kind))); err != nil {
			c.session.End(client.LossClosed)
			return
		}
	}
	if ctx.Err() != nil {
		c.session.End(client.LossAbandoned)
		return
	}
	n, err := c.read()
	c.session.Feed(c.in[:n])
	if err != nil {
		c.session.End(loss(ctx, err))
	}
}

// read returns what the early read brought, if there is one, or reads.
func (c *conn) read() (int, error) {
	if e := c.early; e != nil {
		c.early = nil
		return e.result()
	}
	return c.sock.Read(c.in)
}

// lastWords is how long to wait for what a server said before it broke the
// connection while we were writing.
const lastWords = time.Second

// writeFailed ends the session, but not before what the server said was read:
// the reason for which it broke the connection, most likely.
func (c *conn) writeFailed(ctx context.Context, err error) {
	if c.session.Over() {
		return
	}
	c.sock.SetReadDeadline(time.Now().Add(lastWords)) // if that fails, so does the read
	for total := 0; ctx.Err() == nil && !c.session.Over() && total < pieceSize; {
		n, readErr := c.read()
		c.session.Feed(c.in[:n])
		total += n
		if readErr != nil {
			break
		}
	}
	c.session.End(loss(ctx, err))
}

// loss tells the session's word for an error of the connection.
func loss(ctx context.Context, err error) client.Loss {
	if ctx.Err() != nil {
		return client.LossAbandoned
	}
	return lossOf(err)
}

// attach makes the end of a context interrupt the connection. The function it
// returns undoes that; it tells whether the connection was left alone.
func (c *conn) attach(ctx context.Context) (detach func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	if c.interrupt == nil {
		c.interrupt = func() { c.sock.SetDeadline(longAgo()) }
	}
	return context.AfterFunc(ctx, c.interrupt)
}

// longAgo returns a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// freshFor is for how long an idle session is taken to be good without looking.
// If it is not, that shows when the first command gets no reply.
const freshFor = 500 * time.Millisecond

// alive tells whether an idle session can be used: the server has neither
// closed the connection nor said anything since.
func (c *conn) alive(now time.Time) bool {
	if now.Sub(c.idleSince) < freshFor {
		return true
	}
	n, err := c.peek()
	c.session.Feed(c.in[:n])
	if err != nil {
		c.session.End(client.LossClosed)
	}
	return c.session.Idle()
}

// peek reads what has arrived, without waiting for more. It returns no error
// if nothing has.
func (c *conn) peek() (n int, err error) {
	if c.raw != nil {
		if err := c.sock.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
		return readNow(c.raw, c.in)
	}
	if err := c.sock.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return 0, err
	}
	n, err = c.sock.Read(c.in)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}

// quitTime is how long writing QUIT may take. It goes into an empty buffer.
const quitTime = time.Second

// goodbye ends an idle session. It does not wait for the reply, which would
// change nothing (smtp_skip_quit_response).
func (c *conn) goodbye() {
	c.session.Quit()
	if out := c.session.Out(nil); len(out) > 0 && c.sock.SetWriteDeadline(time.Now().Add(quitTime)) == nil {
		c.sock.Write(out[0])
	}
	c.close()
}

func (c *conn) close() {
	c.sock.Close()
	if c.early != nil { // it uses c.in
		c.early.result()
		c.early = nil
	}
}
