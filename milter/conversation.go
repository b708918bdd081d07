package milter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A conversation is a connection to a milter on which both sides have said what they can do.
type conversation struct {
	cfg    *Config
	conn   net.Conn
	in     *bufio.Reader
	out    []byte // packets that are not written yet
	agreed *agreement
	unbind func() bool // from the context
	end    time.Time   // of all answers about the content that is looked at; zero: there is none
}

// lookMax limits how long signs of life may put off one answer, and how long all answers about one
// content may take together, unless the time limit for each is longer: clients do not wait longer for
// the reply to a message (RFC 5321 4.5.3.2.6), and one that has gone sends it again.
const lookMax = 10 * time.Minute

// flushSize is the size of packets without answers that are collected.
const flushSize = 32 << 10

type buffer [chunkMax]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

var (
	// errResting is that of a connection that is not attempted.
	errResting = errors.New("it did not answer just now")
	// errClosed means that the milter has closed the connection.
	errClosed = errors.New("it has closed the connection")
)

// open connects to a milter.
func (m *Milter) open(ctx context.Context) (*conversation, error) {
	start := time.Now()
	if start.UnixNano() < m.rest.Load() {
		return nil, errResting
	}
	c, err := m.connect(ctx)
	if err != nil && ctx.Err() == nil {
		m.rest.Store(time.Now().Add(time.Since(start)).UnixNano())
	}
	return c, err
}

func (m *Milter) connect(ctx context.Context) (*conversation, error) {
	end := time.Now().Add(m.cfg.ConnectTimeout)
	conn, err := m.dial(ctx, end)
	if err != nil {
		return nil, err
	}
	m.counters.connections.Add(1)
	return negotiate(ctx, &m.cfg, conn, end)
}

// dialPause is the first pause between attempts to connect to a socket whose queue is full.
const dialPause = 2 * time.Millisecond

// dial connects. A unix socket whose queue of connections is full refuses one more at once, where a
// connection by TCP waits: when many clients begin a message together, that is no failure of the milter.
func (m *Milter) dial(ctx context.Context, end time.Time) (net.Conn, error) {
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var d net.Dialer
	for pause := dialPause; ; pause = min(2*pause, 100*time.Millisecond) {
		conn, err := d.DialContext(within, m.cfg.Network, m.cfg.Address)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-within.Done():
			return nil, err
		}
	}
}

// negotiate begins a conversation on a connection, until end, and closes it if that fails.
func negotiate(ctx context.Context, cfg *Config, conn net.Conn, end time.Time) (*conversation, error) {
	c := &conversation{cfg: cfg, conn: conn, in: bufio.NewReaderSize(conn, 4<<10), end: end}
	c.unbind = context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) // a closed one needs none
	c.out = offer(c.out)
	a, err := c.ask(ctx, cfg.ConnectTimeout)
	if err == nil {
		c.agreed, err = agree(a)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("negotiation: %w", err)
	}
	c.rest()
	return c, nil
}

// rest ends what was talked about: until the next message only the connection is needed.
func (c *conversation) rest() { c.out, c.end = nil, time.Time{} }

func (c *conversation) close() {
	c.unbind()
	c.conn.Close() // what was written does not matter any more
}

// quit ends a conversation in good order, as far as that is possible without waiting.
func (c *conversation) quit() {
	b, at := beginPacket(c.out, cmdQuit)
	c.conn.SetWriteDeadline(time.Now().Add(time.Second)) // then Write fails too
	c.conn.Write(endPacket(b, at))                       // a courtesy
	c.close()
}

// wait sets the deadline of what follows.
func (c *conversation) wait(ctx context.Context, timeout time.Duration) error {
	until := time.Now().Add(timeout)
	if !c.end.IsZero() && c.end.Before(until) {
		until = c.end
	}
	if err := c.conn.SetDeadline(until); err != nil {
		return err
	}
	return ctx.Err() // checked after the deadline, which the end of ctx sets, too
}

// flush writes what was collected.
func (c *conversation) flush(ctx context.Context, timeout time.Duration) error {
	if err := c.wait(ctx, timeout); err != nil {
		return err
	}
	if err := c.unasked(); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return c.explain(ctx, err, timeout)
}

// unasked returns an error if the milter has answered more than it was asked: what it says next would
// be taken for the answer to something else. Only what has been read is known; signs of life do not matter.
func (c *conversation) unasked() error {
	for c.in.Buffered() > 0 {
		head, err := c.in.Peek(min(len(signOfLife), c.in.Buffered()))
		if err != nil || string(head) != signOfLife[:len(head)] {
			return broken("an answer that was not asked for")
		}
		if len(head) < len(signOfLife) {
			return nil // next reads the rest of it
		}
		if _, err := c.in.Discard(len(signOfLife)); err != nil {
			return err
		}
	}
	return nil
}

// explain returns an error in words that say what was exceeded.
func (c *conversation) explain(ctx context.Context, err error, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded) && c.agreed != nil && !c.end.IsZero() && !time.Now().Before(c.end):
		return fmt.Errorf("not done with the content within %s", max(lookMax, timeout))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer within %s", timeout)
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: %w", errClosed, err)
	}
	return err
}

// ask writes what was collected and reads the answer.
func (c *conversation) ask(ctx context.Context, timeout time.Duration) (*answer, error) {
	if err := c.flush(ctx, timeout); err != nil {
		return nil, err
	}
	code, size, err := c.next(ctx, timeout)
	if err != nil {
		return nil, err
	}
	return c.remainder(ctx, timeout, code, size)
}

// next reads the head of the next answer, past signs of life.
func (c *conversation) next(ctx context.Context, timeout time.Duration) (code byte, size int, err error) {
	end := time.Now().Add(max(lookMax, timeout))
	for {
		if err := c.wait(ctx, timeout); err != nil {
			return 0, 0, err
		}
		code, size, err := readHead(c.in)
		if err != nil {
			return 0, 0, c.explain(ctx, err, timeout)
		}
		if code != answerProgress {
			return code, size, nil
		}
		if size != 0 {
			return 0, 0, broken("a sign of life of %d bytes", size)
		}
		if time.Now().After(end) {
			return 0, 0, fmt.Errorf("nothing but signs of life for %s", max(lookMax, timeout))
		}
	}
}

// remainder reads an answer whose head was read.
func (c *conversation) remainder(ctx context.Context, timeout time.Duration, code byte, size int) (*answer, error) {
	data, err := readRest(c.in, code, size)
	if err != nil {
		return nil, c.explain(ctx, err, timeout)
	}
	return &answer{code, data}, nil
}

// tell buffers a command, and returns the answer to it. If the milter has declared that it does not
// answer this command (muted), tell does not wait.
func (c *conversation) tell(ctx context.Context, timeout time.Duration, muted uint32, command byte, data func(b []byte) []byte) (ruling, error) {
	b, at := beginPacket(c.out, command)
	if data != nil {
		b = data(b)
	}
	c.out = endPacket(b, at)
	if c.agreed.steps&muted != 0 {
		if len(c.out) < flushSize {
			return ruling{}, nil
		}
		return ruling{}, c.flush(ctx, timeout)
	}
	a, err := c.ask(ctx, timeout)
	if err != nil {
		return ruling{}, err
	}
	return c.ruling(a)
}

// A ruling is a milter's decision about a command.
type ruling struct {
	word  word
	reply mail.Reply // of wordRefused
}

// A word is the kind of a ruling.
type word uint8

const (
	wordContinue word = iota
	wordAccepted      // the milter needs to see no more of this message, or of this client
	wordSkip          // no more commands of this kind
	wordDiscarded
	wordRefused
)

// ruling reads an answer that is no change.
func (c *conversation) ruling(a *answer) (ruling, error) {
	if a.code != answerReplyCode && len(a.data) > 0 {
		return ruling{}, broken("an answer %q with %d bytes", a.code, len(a.data))
	}
	switch a.code {
	case answerContinue:
		return ruling{}, nil
	case answerAccept:
		return ruling{word: wordAccepted}, nil
	case answerDiscard:
		return ruling{word: wordDiscarded}, nil
	case answerSkip:
		if c.agreed.steps&maySkip == 0 {
			return ruling{}, broken("it skips without having said that it would")
		}
		return ruling{word: wordSkip}, nil
	case answerReject:
		return ruling{wordRefused, mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "Command rejected"}}, nil
	case answerTempfail, answerConnFail:
		return ruling{wordRefused, mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: "Service unavailable - try again later"}}, nil
	case answerShutdown:
		return ruling{wordRefused, mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: "Service unavailable - try again later"}}, nil
	case answerReplyCode:
		reply, err := parseReply(a)
		return ruling{wordRefused, reply}, err
	}
	return ruling{}, broken("an answer %q where there is none", a.code)
}

// parseReply reads a milter's own reply: lines of SMTP, in which each percent sign is doubled.
func parseReply(a *answer) (mail.Reply, error) {
	list, err := a.texts(1, 1)
	if err != nil {
		return mail.Reply{}, err
	}
	var r mail.Reply
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(list[0], "\r\n"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		code, rest := line[:min(3, len(line))], line[min(3, len(line)):]
		if len(code) < 3 || code[0] != '4' && code[0] != '5' || strings.Trim(code[1:], "0123456789") != "" || rest != "" && rest[0] != ' ' && rest[0] != '-' {
			return mail.Reply{}, broken("a reply %q", mail.CleanText(line))
		}
		r.Code = uint16(code[0]-'0')*100 + uint16(code[1]-'0')*10 + uint16(code[2]-'0')
		if rest != "" {
			rest = rest[1:]
		}
		if st, text, ok := mail.ParseStatus(rest); ok {
			r.Status, rest = st, text
		}
		lines = append(lines, rest)
	}
	if r.Status == (mail.Status{}) {
		r.Status = mail.Status{Subject: 7, Detail: 1}
	}
	r.Status.Class = r.Code / 100
	r.Text = mail.CleanText(single(strings.Join(lines, "\n")))
	return r, nil
}

// single undoes the doubling of percent signs.
func single(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' {
			if i++; i == len(text) {
				break
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// copyBody reads the rest of an answer that has a part of a new body.
func (c *conversation) copyBody(ctx context.Context, w *wish, size int) error {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for size > 0 {
		if err := c.wait(ctx, c.cfg.ContentTimeout); err != nil {
			return err
		}
		part := buf[:min(size, len(buf))]
		if _, err := io.ReadFull(c.in, part); err != nil {
			return c.explain(ctx, err, c.cfg.ContentTimeout)
		}
		if err := w.addBody(part); err != nil {
			return err
		}
		size -= len(part)
	}
	return nil
}

// A hostError is an error of this machine, of which the milter is not the cause.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }
