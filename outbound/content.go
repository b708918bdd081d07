package outbound

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/smtp/downgrade"
)

// pieceSize is the number of octets passed to the session at a time. The buffers
// of a connection hold that much, so smaller content is written without reading
// at the same time.
const pieceSize = 64 << 10

// pieces are buffers for content that is not in memory.
type pieces struct{ pool sync.Pool }

func (p *pieces) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, pieceSize)
	return &b
}

func (p *pieces) put(b *[]byte) {
	if *b = (*b)[:cap(*b)]; len(*b) == pieceSize {
		p.pool.Put(b)
	}
}

// A content is a message's content being sent to one server.
type content struct {
	body   Body
	whole  []byte  // nil if it is not in memory
	buf    *[]byte // for reading, if it is not
	left   int64   // octets not yet supplied
	pieces *pieces

	convert *downgrade.Converter // nil if the content is sent unchanged
	out     []byte               // the latest converted piece
}

func (c *content) open(body Body, p *pieces) {
	*c = content{body: body, whole: body.Bytes(), left: body.Size(), pieces: p}
}

// next returns the next piece, valid until the next call, and whether it is
// the last one, as it is if all is wanted at once.
func (c *content) next(all bool) (piece []byte, last bool, err error) {
	if c.convert == nil {
		return c.read(all)
	}
	c.out = c.out[:0]
	for !last && (all || len(c.out) == 0) {
		if piece, last, err = c.read(all); err != nil {
			return nil, false, err
		}
		c.out = c.convert.Append(c.out, piece)
	}
	if last {
		c.out = c.convert.End(c.out)
	}
	return c.out, last, nil
}

// read returns the next piece of the content in the spool. The content ends at its
// recorded size; a body that ends earlier is damaged.
func (c *content) read(all bool) (piece []byte, last bool, err error) {
	if c.whole != nil {
		n := len(c.whole)
		if !all {
			n = min(n, pieceSize)
		}
		piece, c.whole = c.whole[:n], c.whole[n:]
		return piece, len(c.whole) == 0, nil
	}
	n := int(min(c.left, pieceSize))
	if n == 0 {
		return nil, true, nil
	}
	if all && c.left > pieceSize { // it was announced as smaller
		n = int(c.left)
		c.buf = new(make([]byte, n))
	}
	if c.buf == nil {
		c.buf = c.pieces.get()
	}
	piece = (*c.buf)[:n]
	if _, err := io.ReadFull(c.body, piece); err != nil {
		return nil, false, fmt.Errorf("outbound: read content: %w", err)
	}
	c.left -= int64(n)
	return piece, c.left == 0, nil
}

// close may be called on a content that was not opened.
func (c *content) close() {
	if c.body == nil {
		return
	}
	if c.buf != nil {
		c.pieces.put(c.buf)
	}
	c.body.Close() // nothing was written; next has already returned any read error
	*c = content{}
}

// fit adapts a content, and its announcement, to a server: the content determines
// which extensions it needs, and octets above 127 are converted if the server does
// not accept them. What no conversion can solve is left for the session to refuse.
//
// A content that is not in memory is read for this only if the server lacks an
// extension, or if its size with all long lines broken might exceed the server's
// limit: the envelope records from intake whether such a content has octets above 127.
// Otherwise its long lines are broken as it is sent, and the announced size is the
// unbroken one, as in Postfix. The true size may be larger by 3 octets in 997, but
// usually is not; an estimate that is too large could be refused permanently.
func (c *Client) fit(ctx context.Context, to *content, e mail.Envelope, caps smtp.Caps) (mail.Envelope, error) {
	eightBit, long := e.Body == mail.Body8BitMIME, true // as far as is known
	if to.whole != nil || e.Size <= caps.SizeMax && caps.SizeMax < downgrade.FoldedMax(e.Size) {
		var m downgrade.Meter
		if err := c.look(ctx, to, e.ID, m.Scan); err != nil {
			return e, err
		}
		eightBit, long, e.Size = m.EightBit, m.Folded() > to.body.Size(), m.Folded()
	}
	var plan downgrade.Plan
	if eightBit && !caps.EightBit || e.SMTPUTF8 && !caps.UTF8 {
		var s downgrade.Scanner
		if err := c.look(ctx, to, e.ID, s.Scan); err != nil {
			return e, err
		}
		plan = s.Plan()
		eightBit = plan.EightBit
	}
	e.SMTPUTF8 = e.SMTPUTF8 && (caps.UTF8 || plan.HeaderEightBit)
	switch {
	case e.SMTPUTF8 && !caps.UTF8:
		e.Body = mail.Body7Bit // it is refused for the other reason
	case eightBit && (caps.EightBit || plan.Complex):
		e.Body = mail.Body8BitMIME
	case eightBit:
		e.Body = mail.Body7Bit
		return c.convert(ctx, to, e, plan)
	case !caps.EightBit:
		e.Body = mail.Body7Bit // the sender exaggerated, as many clients always do
	}
	if long {
		to.convert = new(downgrade.Converter)
	}
	return e, nil
}

// convert arranges conversion of a content as it is sent. The converted size is counted first.
func (c *Client) convert(ctx context.Context, to *content, e mail.Envelope, plan downgrade.Plan) (mail.Envelope, error) {
	counted := downgrade.NewConverter(plan)
	var buf []byte
	e.Size = 0
	err := c.look(ctx, to, e.ID, func(p []byte) {
		buf = counted.Append(buf[:0], p)
		e.Size += int64(len(buf))
	})
	e.Size += int64(len(counted.End(buf[:0])))
	to.convert = downgrade.NewConverter(plan)
	return e, err
}

// look passes a whole content to take, piece by piece, before it is sent.
func (c *Client) look(ctx context.Context, to *content, id mail.QueueID, take func([]byte)) error {
	if to.whole != nil {
		take(to.whole)
		return nil
	}
	return c.read(ctx, id, take)
}

// read passes a whole content to take, piece by piece.
func (c *Client) read(ctx context.Context, id mail.QueueID, take func([]byte)) error {
	body, err := c.bodies.Body(ctx, id)
	if err != nil {
		return err
	}
	var from content
	from.open(body, &c.pieces)
	defer from.close()
	for {
		piece, last, err := from.next(false)
		if err != nil {
			return err
		}
		take(piece)
		if last {
			return nil
		}
	}
}

func (c *Client) logUnreadable(id mail.QueueID, err error) {
	c.cfg.Log.Debug("content unreadable", "id", id, "error", err)
}
