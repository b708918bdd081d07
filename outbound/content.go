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

// pieceSize is how much content is handed to the session at a time. The buffers
// of a connection take that much, so smaller content is written without reading
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

// A content is a message's content on its way to one server.
type content struct {
	body   Body
	whole  []byte  // nil if it is not in memory
	buf    *[]byte // for reading, if it is not
	left   int64   // octets not yet given
	pieces *pieces

	convert *downgrade.Converter // nil if the content goes as it is
	out     []byte               // the piece that was converted last
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

// read returns the next piece of what is in the spool. The content ends where its
// size says; a body that ends earlier is damaged.
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
	if all && c.left > pieceSize { // it was announced to be smaller
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
	c.body.Close() // nothing was written, so its error says nothing that next did not
	*c = content{}
}

// fit makes a content, and what is said about it, fit a server: what the content
// needs is what is in it, and octets above 127 are converted if the server does not
// take them. What no conversion helps is left for the session to refuse.
//
// A content that is not in memory is only read for this if the server lacks an
// extension, or if its size with all long lines broken might be more than the server
// takes: whether such a content has octets above 127 the envelope knows from intake.
// Else its long lines are broken as it passes, and its size is said to be what it is
// without that, as Postfix says it. It may be 3 octets in 997 more, and is no more as a
// rule; a guess that is too large could be refused for good.
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

// convert lets a content be converted as it passes. What comes of it is counted first.
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

// look passes a whole content to a function, piece by piece, before it is sent.
func (c *Client) look(ctx context.Context, to *content, id mail.QueueID, take func([]byte)) error {
	if to.whole != nil {
		take(to.whole)
		return nil
	}
	return c.read(ctx, id, take)
}

// read passes a whole content to a function, piece by piece.
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
