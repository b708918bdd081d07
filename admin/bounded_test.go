package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/admin/ui"
)

// doors is a bounded listener and the connections that knock at it.
type doors struct {
	*bounded
	pipes    *pipeListener
	accepted chan *slotted
	failed   chan error
}

func newDoors(connections int) *doors {
	pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	d := &doors{bounded: newBounded(pipes, connections), pipes: pipes, accepted: make(chan *slotted, 10), failed: make(chan error)}
	go func() {
		for {
			conn, err := d.Accept()
			if err != nil {
				d.failed <- err
				return
			}
			d.accepted <- conn.(*slotted)
		}
	}()
	return d
}

// knock opens one more connection, and returns it if it is accepted within a time.
func (d *doors) knock(within time.Duration) *slotted { return d.knockFrom(nil, within) }

// knockFrom is knock from an address on the network.
func (d *doors) knockFrom(address net.Addr, within time.Duration) *slotted {
	go func() {
		a, _ := net.Pipe()
		if address != nil {
			a = remote{a, address}
		}
		select {
		case d.pipes.conns <- a:
		case <-d.pipes.closed:
		}
	}()
	select {
	case c := <-d.accepted:
		return c
	case <-time.After(within):
		return nil
	}
}

func (c *slotted) isClosed() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.ended
}

// A script that opens connections in a loop must not take the file descriptors that
// mail needs: connections beyond the limit wait while requests are served, until one
// ends. A stop does not wait for room.
func TestBoundedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(2)
		first, second := d.knock(time.Second), d.knock(time.Second)
		first.serve(true)
		second.serve(true)
		if d.knock(time.Minute) != nil {
			t.Fatal("a third connection was accepted")
		}
		first.Close()
		first.Close() // closing twice makes room once
		third := <-d.accepted
		third.serve(true)
		if d.knock(time.Minute) != nil {
			t.Fatal("a fourth connection was accepted")
		}
		d.Close()
		if err := <-d.failed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if second.isClosed() || third.isClosed() {
			t.Error("a connection was closed while its request was served")
		}
	})
}

// Connections without a request make room, the oldest first, once they have had time to
// send one: silent ones keep no client out.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(3)
		begun := time.Now()
		first, second, third := d.knock(time.Second), d.knock(time.Second), d.knock(time.Second)
		first.serve(true)
		fourth := d.knock(time.Second)
		if fourth == nil || time.Since(begun) < quietAtLeast {
			t.Fatalf("a fourth connection was accepted after %v: %v", time.Since(begun), fourth)
		}
		if first.isClosed() || !second.isClosed() || third.isClosed() {
			t.Error("not the oldest silent connection has made room")
		}
		first.serve(false) // it is younger than the third now
		time.Sleep(time.Second)
		if d.knock(time.Second) == nil || !third.isClosed() || first.isClosed() {
			t.Error("not the one that has been silent for longest has made room")
		}
		third.serve(false) // its handler returns after it has ended
		for range 1000 {
			if d.knock(time.Second) == nil {
				t.Fatal("a connection among many silent ones was not accepted")
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.open != 3 || d.quiet.Len() != 3 {
			t.Errorf("%d connections are open, %d of them silent", d.open, d.quiet.Len())
		}
		go d.Close()
		go func() { <-d.failed }()
	})
}

// A client that opens connections in a loop ends its own, not those of others: one whose
// first request takes half a second, because it is far away, still gets it through.
func TestManyConnectionsOfOneClient(t *testing.T) {
	at := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	for name, flood := range map[string]func(i int) net.Addr{
		"IPv4": func(i int) net.Addr { return at(fmt.Sprintf("192.0.2.1:%d", 1000+i)) },
		"IPv6": func(i int) net.Addr { return at(fmt.Sprintf("[2001:db8::%x]:25", i+1)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDoors(3)
			far := d.knockFrom(at("198.51.100.7:25"), time.Second)
			for i := range 100 {
				if d.knockFrom(flood(i), time.Second) == nil {
					t.Fatalf("%s: connection %d was not accepted", name, i)
				}
			}
			if far.isClosed() {
				t.Errorf("%s: another client's connection has made room", name)
			}
			far.Close()
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.of) != 1 || d.open != 2 {
				t.Errorf("%s: %d connections of %v are open", name, d.open, d.of)
			}
			go d.Close()
			go func() { <-d.failed }()
		})
	}
}

// A remote is a connection from an address.
type remote struct {
	net.Conn
	address net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.address }

// A flood of requests without a valid token is logged at once, and then with the number of
// requests, ten seconds apart, the last ones too: what is not logged until somebody else
// knocks is not noticed.
func TestRefusalsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		begun := time.Now()
		d := &door{tell: func(client string, refused int64) {
			told = append(told, fmt.Sprint(time.Since(begun), " ", client, " ", refused))
		}}
		d.refuse("a")
		time.Sleep(time.Second)
		d.refuse("b")
		d.refuse("c")
		time.Sleep(time.Minute)
		d.refuse("d")
		d.refuse("e")
		d.close()
		time.Sleep(time.Minute)
		if want := []string{"0s a 1", "10s c 2", "1m1s d 1", "1m1s e 1"}; !slices.Equal(told, want) {
			t.Errorf("%q, want %q", told, want)
		}
	})
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A client without a token that does not read the answers does not keep others out: the files of the dashboard, the checks of health and
// refusals are for all clients.
func TestUnreadAnswersMakeRoom(t *testing.T) {
	for _, request := range []string{"GET /ui/style.css HTTP/1.1\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			d := &door{pages: noBody(ui.NewHandler()), tell: func(string, int64) {}}
			s := &Server{log: slog.New(slog.DiscardHandler)}
			ctx, stop := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer d.close()
			defer stop()
			s.endStream = stop
			go func() {
				_ = s.serve(ctx, newBounded(pipes, 2), s.server(d.guard(http.NotFoundHandler())))
			}()
			knock := func() net.Conn {
				client, server := net.Pipe()
				pipes.conns <- server
				_ = client.SetDeadline(time.Now().Add(20 * time.Second))
				if _, err := io.WriteString(client, request); err != nil {
					t.Fatalf("%q is not read: %v", request, err)
				}
				return client
			}
			for range 2 {
				defer knock().Close() // nothing reads what is answered
			}
			synctest.Wait()
			last := knock()
			defer last.Close()
			if _, err := last.Read(make([]byte, 1)); err != nil {
				t.Errorf("no answer to %q while others do not read theirs: %v", request, err)
			}
		})
	}
}

// With a token, too, a connection ends if its client reads nothing for some time; one that reads slowly does not, and
// neither does one whose answer takes long.
func TestUnreadAnswersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded(nil, 2)
		client, server := net.Pipe()
		defer client.Close()
		c := &slotted{Conn: server, of: b}
		defer server.Close()
		go func() {
			for range 10 {
				time.Sleep(writePatience / 2)
				if n, err := client.Read(make([]byte, 1)); n != 1 || err != nil {
					t.Error(err)
				}
			}
		}()
		for range 10 {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * writePatience)
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("unread: %v", err)
		}
	})
}
