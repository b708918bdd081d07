package outbound

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A letterbox has one content, in memory or not.
type letterbox struct {
	text   string
	inFile bool
}

func (l letterbox) Body(context.Context, mail.QueueID) (Body, error) {
	b := &sheet{size: int64(len(l.text)), Reader: strings.NewReader(l.text)}
	if !l.inFile {
		b.whole = []byte(l.text)
	}
	return b, nil
}

type sheet struct {
	size  int64
	whole []byte
	io.Reader
}

func (b *sheet) Size() int64   { return b.size }
func (b *sheet) Bytes() []byte { return b.whole }
func (b *sheet) Close() error  { return nil }

// The announcement of a content matches the content, and the server is sent only what
// it accepts: octets above 127 are announced or converted, whether the sender has
// declared them or not, and long lines are broken.
func TestContentFitsTheServer(t *testing.T) {
	const (
		plain = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nCafe\r\n"
		high  = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nCafé\r\n"
		low   = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nCaf=C3=A9\r\n"
	)
	long, folded := "X: y\r\n\r\n"+strings.Repeat("a", 999)+"\r\n", "X: y\r\n\r\n"+strings.Repeat("a", 998)+"\r\n a\r\n"
	many, foldedMany := "X: y\r\n\r\n"+strings.Repeat(long[8:], 100), "X: y\r\n\r\n"+strings.Repeat(folded[8:], 100)
	highLines := strings.Repeat("é\r\n", pieceSize)
	for _, test := range []struct {
		name         string
		text         string
		declared     bool
		utf8         bool
		offered      smtp.Caps
		want         string
		body         mail.BodyType
		inMemoryOnly bool
		headerNeeded bool
		unread       int64 // the size that is announced for a file without reading it; 0: that of want
	}{
		{name: "plain", text: plain, want: plain},
		{name: "plain, declared as 8-bit", text: plain, declared: true, want: plain},
		{name: "8-bit", text: high, declared: true, offered: smtp.Caps{EightBit: true}, want: high, body: mail.Body8BitMIME},
		{name: "8-bit, undeclared", text: high, offered: smtp.Caps{EightBit: true}, want: high, body: mail.Body8BitMIME, inMemoryOnly: true},
		{name: "8-bit, not offered", text: high, declared: true, want: low},
		{name: "8-bit, undeclared, not offered", text: high, want: low, inMemoryOnly: true},
		{name: "8-bit, not offered, no line end", text: high[:len(high)-2] + " ", declared: true, want: low[:len(low)-2] + "=20"},
		{name: "8-bit, large", text: high[:len(high)-2] + "\r\n" + highLines, declared: true, want: low + strings.Repeat("=C3=A9\r\n", pieceSize)},
		{name: "long line", text: long, want: folded, unread: int64(len(long))},
		{name: "long line, offered", text: long + "é\r\n", declared: true, offered: smtp.Caps{EightBit: true}, want: folded + "é\r\n", body: mail.Body8BitMIME, unread: int64(len(long)) + 4},
		{name: "long lines", text: many, want: foldedMany, unread: int64(len(many))},
		{name: "long lines, far below the limit", text: many, offered: smtp.Caps{SizeMax: 1 << 20}, want: foldedMany, unread: int64(len(many))},
		{name: "long lines, as long as the limit", text: many, offered: smtp.Caps{SizeMax: int64(len(many))}, want: foldedMany},
		{name: "long lines, just above the limit", text: many, offered: smtp.Caps{SizeMax: int64(len(foldedMany)) - 1}, want: foldedMany},
		{name: "short lines, as long as the limit", text: plain, offered: smtp.Caps{SizeMax: int64(len(plain))}, want: plain},
		{name: "header beyond ASCII", text: "X: é\r\n\r\n", declared: true, utf8: true, want: "X: é\r\n\r\n", headerNeeded: true},
		{name: "header said to be beyond ASCII", text: high, declared: true, utf8: true, want: low},
	} {
		for _, inFile := range []bool{false, true} {
			if inFile && test.inMemoryOnly {
				continue // intake has declared it
			}
			for _, all := range []bool{false, true} {
				c := &Client{bodies: letterbox{test.text, inFile}}
				body, _ := c.bodies.Body(t.Context(), 1)
				var k content
				k.open(body, &c.pieces)
				e := mail.Envelope{ID: 1, Size: int64(len(test.text)), SMTPUTF8: test.utf8}
				if test.declared {
					e.Body = mail.Body8BitMIME
				}
				e, err := c.fit(t.Context(), &k, e, test.offered)
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				for pieces := 0; ; pieces++ {
					piece, last, err := k.next(all)
					if err != nil {
						t.Fatal(err)
					}
					got.Write(piece)
					if last {
						break
					}
					if all || len(piece) == 0 {
						t.Fatalf("%s: a piece of %d octets is not the last one, all wanted: %v", test.name, len(piece), all)
					}
				}
				k.close()
				if got.String() != test.want || e.Body != test.body || e.SMTPUTF8 != test.headerNeeded {
					t.Errorf("%s, in a file %v, at once %v: %v, SMTPUTF8 %v, content\n%.300q\nwant %v and\n%.300q",
						test.name, inFile, all, e.Body, e.SMTPUTF8, got.String(), test.body, test.want)
				}
				octets := int64(len(test.want))
				if inFile && test.unread > 0 {
					octets = test.unread
				}
				if e.Size != octets {
					t.Errorf("%s, in a file %v: SIZE=%d, want %d", test.name, inFile, e.Size, octets)
				}
			}
		}
	}
}

// A content that cannot be read when it is measured, looked at or counted is not sent.
func TestContentIsUnreadableBefore(t *testing.T) {
	text := "Subject: x\r\n\r\n" + strings.Repeat("Café\r\n", 200)
	lost := errors.New("lost")
	for fails := range 4 {
		reads := -1 // the first one is that for sending
		c := &Client{bodies: bodiesFunc(func() (Body, error) {
			if reads++; reads == fails+1 {
				return nil, lost
			}
			return letterbox{text, true}.Body(t.Context(), 1)
		})}
		body, _ := c.bodies.Body(t.Context(), 1)
		var k content
		k.open(body, &c.pieces)
		_, err := c.fit(t.Context(), &k, mail.Envelope{ID: 1, Size: int64(len(text)), Body: mail.Body8BitMIME}, smtp.Caps{SizeMax: int64(len(text))})
		if want := fails < 3; errors.Is(err, lost) != want {
			t.Errorf("read %d fails: %v", fails, err)
		}
		k.close()
	}
}

type bodiesFunc func() (Body, error)

func (f bodiesFunc) Body(context.Context, mail.QueueID) (Body, error) { return f() }
