package sink

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// inputSize is longer than any command line that a session accepts.
const inputSize = 32 << 10

// date is in the Received fields that the sessions write, which no test sees.
const date = "Thu, 1 Jan 1970 00:00:00 +0000"

// A connection hosts one session. It belongs to its goroutine.
type connection struct {
	server  *Server
	conn    net.Conn
	number  uint64
	client  netip.Addr // invalid if it has no address
	session *server.Session
	fate    fate

	in         []byte
	start, end int    // what of in is not worked on yet
	out        []byte // replies not yet written
	owed       int    // replies in out, for the CommandDelay

	sender     mail.Address
	by         string // BY as received
	recipients []mail.Address
	content    content
	started    bool // the session's own Received field has passed
	spoilt     bool // the fault AtContent was drawn
	taken      int  // messages
}

// run is the life of the connection.
func (c *connection) run(ctx context.Context) {
	if !c.greet(ctx) {
		return
	}
	for alive := true; alive; {
		before := len(c.out)
		n, out, request := c.session.Step(c.in[c.start:c.end], c.out)
		c.start += n
		fresh := out[before:]
		if len(c.server.cfg.Withheld) > 0 {
			fresh = withhold(fresh, c.server.cfg.Hostname, c.server.cfg.Withheld)
		}
		c.owed += countReplies(fresh)
		c.out = out[:before+len(fresh)]
		alive = c.serve(ctx, request)
	}
}

// greet reports whether the client must be greeted.
func (c *connection) greet(ctx context.Context) bool {
	if !pause.For(ctx, c.server.cfg.GreetingDelay) {
		return false
	}
	kind := c.draw(AtGreeting, "")
	if kind == RefuseForNow || kind == RefuseForGood {
		c.out = append(append(c.out, kind.refusal(AtGreeting).String()...), "\r\n"...)
		c.flush(ctx)
	}
	return kind == 0
}

// serve does what the session wants and reports whether the connection goes on.
func (c *connection) serve(ctx context.Context, request server.Request) bool {
	switch r := request.(type) {
	case *server.Read:
		return c.flush(ctx) && c.read()
	case *server.Flush:
		return c.flush(ctx)
	case *server.Begin:
		return c.begin(ctx, r)
	case *server.Recipient:
		return c.recipient(ctx, r)
	case *server.Content:
		return c.pass(ctx, r.Octets)
	case *server.Commit:
		return c.commit(ctx, r.Envelope)
	case *server.Close:
		c.flush(ctx)
		return false
	}
	return true // Abort, Pause and facts for a log
}

func (c *connection) begin(ctx context.Context, r *server.Begin) bool {
	c.sender, c.recipients, c.by = r.Sender, nil, r.By.String()
	c.content.reset()
	c.started, c.spoilt = false, false
	switch kind := c.draw(AtMail, ""); kind {
	case 0:
		c.session.Begun(mail.NewQueueID(0, 1)+mail.QueueID(c.taken), date)
	case Drop:
		return c.drop(ctx)
	default:
		c.session.Answer(kind.refusal(AtMail))
	}
	return true
}

func (c *connection) recipient(ctx context.Context, r *server.Recipient) bool {
	if !pause.For(ctx, c.server.cfg.RecipientDelay) {
		return false
	}
	switch kind := c.draw(AtRecipient, r.Recipient.Address); kind {
	case 0:
		c.recipients = append(c.recipients, r.Recipient.Address)
		c.session.Answer(mail.Reply{})
	case Drop:
		return c.drop(ctx)
	default:
		c.session.Answer(kind.refusal(AtRecipient))
	}
	return true
}

// pass looks at a piece of content. The fault AtContent is drawn when the
// header has passed, so that the message can be named.
func (c *connection) pass(ctx context.Context, octets []byte) bool {
	if !c.started {
		c.started = true
		c.session.Answer(mail.Reply{})
		return true
	}
	c.content.pass(octets, c.server.field, c.server.cfg.ContentKept)
	if c.content.body && !c.spoilt {
		c.spoilt = true
		switch kind := c.draw(AtContent, ""); kind {
		case 0:
		case Drop:
			return c.drop(ctx)
		default:
			c.session.Answer(kind.refusal(AtContent))
			return true
		}
	}
	c.session.Answer(mail.Reply{})
	return true
}

// commit takes the message, unless a fault prevents it.
func (c *connection) commit(ctx context.Context, e mail.Envelope) bool {
	if !pause.For(ctx, c.server.cfg.MessageDelay) {
		return false
	}
	c.content.end(c.server.field)
	kind := c.draw(AtCommit, "")
	switch kind {
	case 0, LoseReply:
	case Drop:
		return c.drop(ctx)
	default:
		c.session.Answer(kind.refusal(AtCommit))
		return true
	}
	c.take(e, kind)
	if kind == LoseReply {
		return c.drop(ctx)
	}
	c.session.Answer(mail.Reply{})
	return true
}

func (c *connection) take(e mail.Envelope, kind Kind) {
	c.taken++
	d := Delivery{
		At:         time.Now(),
		Connection: c.number,
		Nth:        c.taken,
		Client:     e.Client,
		Key:        c.content.key,
		Sender:     e.Sender,
		By:         c.by,
		EnvID:      e.EnvID,
		Recipients: c.recipients,
		Size:       c.content.size,
		BodySum:    c.content.sum,
		Content:    c.content.kept,
	}
	if kind == LoseReply {
		d.Reply = ReplyLost
	}
	c.server.count(func(n *Stats) {
		n.Messages++
		n.Recipients += uint64(len(d.Recipients))
		n.Octets += uint64(d.Size)
	})
	c.server.cfg.Taken(d)
}

// draw returns the fault at a stage, and reports it to Config.Refused.
func (c *connection) draw(stage Stage, recipient mail.Address) Kind {
	kind := c.fate.draw(*c.server.faults.Load(), c.client, stage, recipient)
	if kind == 0 {
		return 0
	}
	c.server.count(func(n *Stats) { n.Faults++ })
	if kind == LoseReply {
		return kind
	}
	r := Refusal{At: time.Now(), Connection: c.number, Stage: stage, Kind: kind, Sender: c.sender}
	switch stage {
	case AtRecipient:
		r.Recipients = []mail.Address{recipient}
	case AtContent, AtCommit:
		r.Key, r.Recipients = c.content.key, c.recipients
	}
	c.server.cfg.Refused(r)
	return kind
}

// drop sends the replies to what came before and lets the connection end.
func (c *connection) drop(ctx context.Context) bool {
	c.flush(ctx)
	return false
}

// flush writes the replies, after the configured delay.
func (c *connection) flush(ctx context.Context) bool {
	if len(c.out) == 0 {
		return true
	}
	owed := c.owed
	c.owed = 0
	if !pause.For(ctx, time.Duration(owed)*c.server.cfg.CommandDelay) {
		return false
	}
	c.conn.SetWriteDeadline(time.Now().Add(c.server.cfg.IdleTime)) //nolint:errcheck // then Write fails too
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err == nil
}

// read gets more input. The session is not told when there is none any more:
// all that it could want then is to forget a draft, and there are none.
func (c *connection) read() bool {
	c.end = copy(c.in, c.in[c.start:c.end])
	c.start = 0
	c.conn.SetReadDeadline(time.Now().Add(c.server.cfg.IdleTime)) //nolint:errcheck // then Read fails too
	n, _ := c.conn.Read(c.in[c.end:])
	c.end += n
	return n > 0
}

// countReplies counts the lines that end a reply.
func countReplies(text []byte) (n int) {
	for i := 0; i+3 < len(text); {
		if text[i+3] != '-' {
			n++
		}
		for i < len(text) && text[i] != '\n' {
			i++
		}
		i++
	}
	return n
}
