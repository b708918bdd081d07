package feed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Message is a message to submit.
type Message struct {
	Sender     mail.Address
	EnvID      string // as xtext (RFC 3461 4.4); "" for none
	Recipients []mail.Address
	// Parameters go behind MAIL, and RecipientParameters behind each RCPT,
	// each with the space before it, as in " BODY=8BITMIME". They are sent
	// whether or not the server offers them.
	Parameters, RecipientParameters string

	Content []byte // lines that end in CRLF
	Chunked bool   // send it by BDAT
	Cut     bool   // hang up before the end of the content is sent
}

// A Fate is what is known of a message.
type Fate uint8

const (
	Unsent   Fate = iota // its end was not sent, so the server cannot have it
	Refused              // the server said so
	Accepted             // the server said so
	Unknown              // its end may have been sent, but no reply was read
)

// String returns the fate's name.
func (f Fate) String() string { return [...]string{"unsent", "refused", "accepted", "unknown"}[f] }

// A Result is what became of a message.
type Result struct {
	Fate     Fate
	Reply    mail.Reply // the last that was read, if Fate is Accepted or Refused
	Accepted []int      // indexes of the recipients that were accepted in reply to RCPT
	Err      error      // why the connection is lost; the client is of no more use
}

// Timeout is the time for which a client waits for a reply, or for octets to be taken.
const Timeout = time.Minute

// A Client is a connection that has been greeted. It is for one goroutine at a
// time.
type Client struct {
	conn    net.Conn
	caps    smtp.Caps
	parser  smtp.ReplyParser
	stuffer smtp.Stuffer
	in      []byte
	unread  []byte // of in
	out     []byte
}

// Dial connects to an address and says EHLO. The error is a *Declined if the
// server did not want that.
func Dial(ctx context.Context, network, address string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return New(conn)
}

// Declined is the error of a connection that the server does not want, from the
// beginning or any more.
type Declined struct{ Reply mail.Reply }

func (d *Declined) Error() string { return "declined: " + d.Reply.String() }

// New says EHLO on a connection, which it closes if there is an error.
func New(conn net.Conn) (*Client, error) {
	c := &Client{conn: conn, in: make([]byte, 4096)}
	if err := c.hello(); err != nil {
		conn.Close() //nolint:errcheck // there is an error already
		return nil, err
	}
	return c, nil
}

func (c *Client) hello() error {
	greeting, err := c.reply()
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if !greeting.Positive() {
		return &Declined{greeting}
	}
	c.out = append(c.out, "EHLO feed.test\r\n"...)
	if err := c.write(); err != nil {
		return err
	}
	answer, err := c.reply()
	if err != nil {
		return fmt.Errorf("EHLO: %w", err)
	}
	if !answer.Positive() {
		return &Declined{answer}
	}
	c.caps = smtp.ParseCaps(c.parser.Text())
	return nil
}

// groupMax is the number of recipients that are sent before replies are read.
const groupMax = 100

// Send submits a message. After a Result with an Err the client is closed; a
// 421 is such an error, whatever the server does then (RFC 5321 3.8).
func (c *Client) Send(m Message) Result {
	r := c.send(m)
	if r.Err == nil && r.Reply.Code == 421 {
		r.Err = &Declined{r.Reply}
	}
	if r.Err != nil {
		c.conn.Close() //nolint:errcheck // there is an error already
	}
	return r
}

func (c *Client) send(m Message) Result {
	var r Result
	reply, err := c.envelope(m, &r)
	if err != nil {
		r.Err = err
		return r
	}
	if !reply.Positive() || len(r.Accepted) == 0 && m.Chunked {
		r.Fate, r.Reply = Refused, reply
		if reply.Code != 421 {
			r.Err = c.reset()
		}
		return r
	}
	sent, err := c.content(m)
	if sent {
		r.Fate = Unknown
	}
	if err == nil {
		reply, err = c.reply()
	}
	switch {
	case err != nil:
		r.Err = err
	case reply.Positive():
		r.Fate, r.Reply = Accepted, reply
	default:
		r.Fate, r.Reply = Refused, reply
	}
	return r
}

// envelope sends MAIL and all RCPTs, and DATA behind them unless the content
// goes by BDAT. It returns the reply to the last command, or to MAIL if that
// was refused.
func (c *Client) envelope(m Message, r *Result) (mail.Reply, error) {
	c.out = append(append(c.out, "MAIL FROM:<"...), m.Sender...)
	c.out = append(c.out, '>')
	if c.caps.Size {
		c.out = strconv.AppendInt(append(c.out, " SIZE="...), int64(len(m.Content)), 10)
	}
	if m.EnvID != "" && c.caps.DSN {
		c.out = append(append(c.out, " ENVID="...), m.EnvID...)
	}
	c.out = append(append(c.out, m.Parameters...), "\r\n"...)
	var first, last mail.Reply
	for from := 0; from == 0 || from < len(m.Recipients); from += groupMax {
		group := m.Recipients[from:min(from+groupMax, len(m.Recipients))]
		for _, to := range group {
			c.out = append(append(append(c.out, "RCPT TO:<"...), to...), '>')
			c.out = append(append(c.out, m.RecipientParameters...), "\r\n"...)
		}
		data := from+groupMax >= len(m.Recipients) && !m.Chunked
		if data {
			c.out = append(c.out, "DATA\r\n"...)
		}
		if err := c.write(); err != nil {
			return last, err
		}
		var err error
		if from == 0 {
			if first, err = c.reply(); err != nil {
				return first, err
			}
		}
		for i := range group {
			if last, err = c.reply(); err != nil {
				return last, err
			}
			if last.Positive() {
				r.Accepted = append(r.Accepted, from+i)
			}
		}
		if data {
			if last, err = c.reply(); err != nil {
				return last, err
			}
		}
	}
	if !first.Positive() {
		return first, nil
	}
	return last, nil
}

// pieceMax is how much content is written at once.
const pieceMax = 64 << 10

var errCut = errors.New("hung up within the content, as was asked for")

// content sends the content and reports whether its end may have been sent.
func (c *Client) content(m Message) (sent bool, err error) {
	rest := m.Content
	if m.Chunked {
		c.out = fmt.Appendf(c.out, "BDAT %d LAST\r\n", len(rest))
	}
	if m.Cut {
		rest = rest[:len(rest)/2]
	}
	for {
		piece := rest[:min(pieceMax, len(rest))]
		rest = rest[len(piece):]
		if m.Chunked {
			c.out = append(c.out, piece...)
		} else {
			c.out = append(c.out, c.stuffer.Encode(piece)...)
		}
		if len(rest) == 0 {
			break
		}
		if err := c.write(); err != nil {
			return false, err
		}
	}
	if m.Cut {
		return false, errors.Join(errCut, c.write())
	}
	if !m.Chunked {
		c.out = append(c.out, c.stuffer.End()...)
		c.stuffer.Reset()
	}
	return true, c.write()
}

// reset ends a transaction that was refused.
func (c *Client) reset() error {
	c.out = append(c.out, "RSET\r\n"...)
	if err := c.write(); err != nil {
		return err
	}
	_, err := c.reply()
	return err
}

// Close says QUIT and closes the connection.
func (c *Client) Close() error {
	c.out = append(c.out, "QUIT\r\n"...)
	err := c.write()
	if err == nil {
		_, err = c.reply()
	}
	return errors.Join(err, c.conn.Close())
}

// Abort closes the connection at once. It may be called from any goroutine.
func (c *Client) Abort() { c.conn.Close() } //nolint:errcheck // nothing depends on it

func (c *Client) write() error {
	c.conn.SetWriteDeadline(time.Now().Add(Timeout)) //nolint:errcheck // then Write fails too
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}

// reply reads one reply.
func (c *Client) reply() (mail.Reply, error) {
	for {
		n, done, err := c.parser.Feed(c.unread)
		c.unread = c.unread[n:]
		if err != nil || done {
			return c.parser.Reply(""), err
		}
		c.conn.SetReadDeadline(time.Now().Add(Timeout)) //nolint:errcheck // then Read fails too
		n, err = c.conn.Read(c.in)
		c.unread = c.in[:n]
		if n == 0 && err != nil {
			return mail.Reply{}, err
		}
	}
}
