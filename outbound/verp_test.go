package outbound

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// An overheard dialer notes the MAIL commands that a client writes.
type overheard struct {
	Dialer
	mu    sync.Mutex
	mails []string
}

func (d *overheard) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	far, err := d.Dialer.Dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return &overheardConn{Conn: far, by: d}, nil
}

type overheardConn struct {
	net.Conn
	by *overheard
}

func (c *overheardConn) Write(p []byte) (int, error) {
	c.by.mu.Lock()
	for line := range strings.Lines(string(p)) {
		if strings.HasPrefix(line, "MAIL ") {
			c.by.mails = append(c.by.mails, strings.TrimSpace(line))
		}
	}
	c.by.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *overheardConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// Each recipient of a message has a transaction with a sender of his own, and these are pipelined like
// those of any mail: one round trip for each.
func TestVERPIsPipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip, count = 100 * time.Millisecond, 30
		bodies := store{1: {data: "Subject: x\r\n\r\nhello\r\n"}}
		heard := &overheard{Dialer: farDialer{&lazyServer{}, trip / 2}}
		client, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}, VERPSecrets: [][]byte{[]byte("secret")}}, newFakeNet(), bodies, heard)
		if err != nil {
			t.Fatal(err)
		}
		k, _ := client.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: address("1")}, Level: mail.LevelOverlap})
		var want []string
		for i := range uint64(count) {
			d := message(1, fmt.Sprintf("b%d@example.net", i))
			d.Envelope.Size, d.Envelope.VERP = int64(len(bodies[1].data)), mail.VERP{Before: '+', At: '='}
			k.Send(i, d)
			want = append(want, fmt.Sprintf("MAIL FROM:<a+b%d=example.net@example.org>", i))
		}
		k.Hangup()
		began := time.Now()
		k.Run(t.Context(), func(id uint64, r mail.DeliveryResult) {
			if r.Outcomes[0].Result != mail.Delivered {
				t.Errorf("%d: %+v", id, r.Outcomes)
			}
		})
		if each := float64(time.Since(began)) / float64(trip*count); each > 1.15 {
			t.Errorf("%.2f round trips for a recipient", each)
		}
		time.Sleep(time.Second)
		if !slices.Equal(heard.mails, want) {
			t.Errorf("%q\nwant\n%q", heard.mails, want)
		}
	})
}

// A recipient beyond ASCII makes the sender such an address, too; where the server does not take
// these it is the recipient who is refused, and not the sender.
func TestVERPWithoutUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := store{1: {data: "Subject: x\r\n\r\nhello\r\n"}}
		heard := &overheard{Dialer: &lazyServer{}}
		client, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}}, newFakeNet(), bodies, heard)
		if err != nil {
			t.Fatal(err)
		}
		k, _ := client.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: address("1")}, Level: mail.LevelOverlap})
		for i, to := range []string{"jörg@example.net", "b@example.net"} {
			d := message(1, to)
			d.Envelope.Size, d.Envelope.VERP = int64(len(bodies[1].data)), mail.VERP{Before: '+', At: '='}
			k.Send(uint64(i), d)
		}
		k.Hangup()
		var replies []string
		k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) { replies = append(replies, r.Outcomes[0].Reply.String()) })
		if len(replies) != 2 || !strings.Contains(replies[0], "the recipient's address needs") || !strings.HasPrefix(replies[1], "250") {
			t.Errorf("%q", replies)
		}
		time.Sleep(time.Second)
		if len(heard.mails) != 1 || heard.mails[0] != "MAIL FROM:<a+b=example.net@example.org>" {
			t.Errorf("%q", heard.mails)
		}
	})
}
