package outbound

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
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
}

func (c *content) open(body Body, p *pieces) {
	*c = content{body: body, whole: body.Bytes(), left: body.Size(), pieces: p}
}

// next returns the next piece, valid until the next call, and whether it is
// the last one, as it is if all is wanted at once. The content ends where its
// size says; a body that ends earlier is damaged.
func (c *content) next(all bool) (piece []byte, last bool, err error) {
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

// adapt takes back what the sender said the content needs, if the server does
// not offer it and the content does not need it after all.
func (c *Client) adapt(ctx context.Context, e mail.Envelope, caps smtp.Caps) (mail.Envelope, error) {
	if (e.Body != mail.Body8BitMIME || caps.EightBit) && (!e.SMTPUTF8 || caps.UTF8) {
		return e, nil
	}
	body, err := c.bodies.Body(ctx, e.ID)
	if err != nil {
		return e, err
	}
	needs, err := inspect(body, &c.pieces)
	if err != nil {
		return e, err
	}
	if !needs.eightBit && !caps.EightBit {
		e.Body = mail.Body7Bit
	}
	e.SMTPUTF8 = e.SMTPUTF8 && (needs.utf8 || caps.UTF8)
	return e, nil
}

// A texture is what in a content needs support by the server.
type texture struct {
	eightBit bool // some octet is above 127
	utf8     bool // some octet of the header is
}

// inspect reads a whole content. It is done only when a server lacks an
// extension that the sender said the message needs: many clients say so of all
// their mail.
func inspect(body Body, p *pieces) (texture, error) {
	var c content
	c.open(body, p)
	defer c.close()
	var t texture
	h := headerEnd{lineEmpty: true}
	for {
		piece, last, err := c.next(false)
		if err != nil {
			return t, err
		}
		for _, b := range piece {
			if b >= 0x80 {
				t.eightBit = true
				t.utf8 = t.utf8 || !h.passed
			}
			h.take(b)
		}
		if last {
			return t, nil
		}
	}
}

// A headerEnd finds the first empty line.
type headerEnd struct{ lineEmpty, passed bool }

func (h *headerEnd) take(b byte) {
	switch b {
	case '\n':
		h.passed = h.passed || h.lineEmpty
		h.lineEmpty = true
	case '\r':
	default:
		h.lineEmpty = false
	}
}

func (c *Client) logUnreadable(id mail.QueueID, err error) {
	c.cfg.Log.Debug("content unreadable", "id", id, "error", err)
}
