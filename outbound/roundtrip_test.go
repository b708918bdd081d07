package outbound

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A farDialer leads to a server that is half a round trip away.
type farDialer struct {
	Dialer
	half time.Duration
}

func (d farDialer) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	far, err := d.Dialer.Dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	ours, near := net.Pipe()
	go carryOver(far, near, d.half)
	go carryOver(near, far, d.half)
	return ours, nil
}

// carryOver brings octets from one connection to another, each after some time.
func carryOver(from, to net.Conn, after time.Duration) {
	type packet struct {
		data []byte
		due  time.Time
	}
	packets := make(chan packet, 1000)
	go func() {
		defer close(packets)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			packets <- packet{buf[:n], time.Now().Add(after)}
		}
	}()
	for p := range packets {
		time.Sleep(time.Until(p.due))
		to.Write(p.data) // a peer that does not read loses it
	}
	time.Sleep(after)
	to.Close()
}

// What the levels are for: how many round trips a message takes on a connection
// that always has another one waiting. RFC 2920 calls for two with groups of
// commands and allows for one.
func TestRoundTrips(t *testing.T) {
	const trip, count = 100 * time.Millisecond, 50
	for _, c := range []struct {
		level mail.Level
		each  float64 // round trips for a message, at most
	}{
		{mail.LevelLockStep, 4.1}, {mail.LevelGroup, 2.05}, {mail.LevelOverlap, 1.05}, {mail.LevelStream, 0.3},
	} {
		t.Run(c.level.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bodies := store{1: {data: "Subject: x\r\n\r\nhello\r\n"}}
				client, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}},
					newFakeNet(), bodies, farDialer{&lazyServer{}, trip / 2})
				if err != nil {
					t.Fatal(err)
				}
				k, opened := client.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: address("1")}, Level: c.level})
				if opened.Connect != 3*trip/2 { // the greeting, and EHLO
					t.Errorf("connecting took %v", opened.Connect)
				}
				d := message(1, "b@example.net")
				d.Envelope.Size = int64(len(bodies[1].data))
				for id := range uint64(8) {
					k.Send(id, d)
				}
				began, told := time.Now(), 0
				var sending time.Duration
				k.Run(t.Context(), func(id uint64, r mail.DeliveryResult) {
					sending += r.Send
					if told++; told+8 <= count {
						k.Send(id+8, d)
					} else if told == count {
						k.Hangup()
					}
				})
				took := time.Since(began)
				if each := float64(took) / float64(trip*count); each > c.each || each < 0.8*c.each {
					t.Errorf("%.3f round trips for a message, want %.2f", each, c.each)
				}
				time.Sleep(time.Second) // until the server has gone
				if sending != took {    // no time counts twice, or for no message
					t.Errorf("sending took %v of %v", sending, took)
				}
			})
		})
	}
}
