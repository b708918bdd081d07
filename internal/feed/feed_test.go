package feed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A oneConn listens for one connection, which is there already.
type oneConn struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	if conn, ok := <-l.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 25} }

// serve connects a client to a sink within the bubble of a test.
func serve(t *testing.T, cfg sink.Config) (net.Conn, *[]sink.Delivery) {
	t.Helper()
	var mu sync.Mutex
	taken := new([]sink.Delivery)
	cfg.ContentKept = 1 << 20
	cfg.Taken = func(d sink.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		*taken = append(*taken, d)
	}
	s, err := sink.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	l := &oneConn{conns: make(chan net.Conn, 1)}
	l.conns <- theirs
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		<-served
	})
	return ours, taken
}

// What is submitted arrives as it was: many recipients, dots at the start of
// lines, more than one piece, by either command.
func TestAccepted(t *testing.T) {
	var everybody []mail.Address
	for i := range 2*groupMax + 1 {
		everybody = append(everybody, mail.Address(fmt.Sprintf("r%d@d.test", i)))
	}
	for _, recipients := range [][]mail.Address{everybody[:1], everybody[:groupMax], everybody} {
		for _, size := range []int{1, 3 * pieceMax / 5} {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprint(len(recipients), size, chunked), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						conn, taken := serve(t, sink.Config{})
						c, err := New(conn)
						if err != nil {
							t.Fatal(err)
						}
						m := Message{Sender: "a@a.test", EnvID: "e", Recipients: recipients, Chunked: chunked,
							Content: []byte("Message-ID: <1>\r\n\r\n" + strings.Repeat(".\r\n", size))}
						for range 2 {
							if r := c.Send(m); r.Fate != Accepted || r.Err != nil || len(r.Accepted) != len(recipients) {
								t.Fatalf("result %+v", r)
							}
						}
						if err := c.Close(); err != nil {
							t.Error(err)
						}
						if len(*taken) != 2 {
							t.Fatalf("%d messages were taken", len(*taken))
						}
						d := (*taken)[1]
						if string(d.Content) != string(m.Content) || len(d.Recipients) != len(recipients) || d.EnvID != "e" {
							t.Errorf("%d octets for %d recipients arrived", d.Size, len(d.Recipients))
						}
					})
				})
			}
		}
	}
}

// The difference on which the crash test rests: refused, never sent, unknown,
// and whether the connection is still good.
func TestFates(t *testing.T) {
	content := []byte("Message-ID: <1>\r\n\r\ntext\r\n")
	fault := func(stage sink.Stage, kind sink.Kind) []sink.Fault {
		return []sink.Fault{{Stage: stage, Kind: kind, Share: 1}}
	}
	for _, test := range []struct {
		name    string
		faults  []sink.Fault
		cut     bool
		fate    Fate
		lost    bool
		taken   int
		chunked bool
	}{
		{"sender refused", fault(sink.AtMail, sink.RefuseForNow), false, Refused, false, 0, false},
		{"recipients refused", fault(sink.AtRecipient, sink.RefuseForGood), false, Refused, false, 0, false},
		{"recipients refused, BDAT", fault(sink.AtRecipient, sink.RefuseForGood), false, Refused, false, 0, true},
		{"content refused", fault(sink.AtCommit, sink.RefuseForGood), false, Refused, false, 0, false},
		{"lost at MAIL", fault(sink.AtMail, sink.Drop), false, Unsent, true, 0, false},
		{"lost at RCPT", fault(sink.AtRecipient, sink.Drop), false, Unsent, true, 0, false},
		{"lost behind the content", fault(sink.AtCommit, sink.Drop), false, Unknown, true, 0, false},
		{"lost behind the content, BDAT", fault(sink.AtCommit, sink.Drop), false, Unknown, true, 0, true},
		{"lost, but taken", fault(sink.AtCommit, sink.LoseReply), false, Unknown, true, 1, false},
		{"cut", nil, true, Unsent, true, 0, false},
		{"cut, BDAT", nil, true, Unsent, true, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, taken := serve(t, sink.Config{Faults: test.faults})
				c, err := New(conn)
				if err != nil {
					t.Fatal(err)
				}
				m := Message{Sender: "a@a.test", Recipients: []mail.Address{"b@b.test"}, Content: content, Cut: test.cut, Chunked: test.chunked}
				r := c.Send(m)
				if r.Fate != test.fate || (r.Err != nil) != test.lost {
					t.Errorf("result %+v, want %s, lost %t", r, test.fate, test.lost)
				}
				if r.Err == nil {
					if again := c.Send(m); again.Fate != test.fate || again.Err != nil {
						t.Errorf("the second time: %+v", again)
					}
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait()
				if len(*taken) != test.taken {
					t.Errorf("%d messages were taken, want %d", len(*taken), test.taken)
				}
			})
		})
	}
}

// A server that is full is not one that is broken.
func TestDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := serve(t, sink.Config{Faults: []sink.Fault{{Stage: sink.AtGreeting, Kind: sink.RefuseForNow, Share: 1}}})
		_, err := New(conn)
		var declined *Declined
		if !errors.As(err, &declined) || declined.Reply.Code != 421 {
			t.Errorf("error %v", err)
		}
	})
}

// Parameters reach the server as they were given: one that it does not know is
// refused, and one that it knows is not.
func TestParameters(t *testing.T) {
	for _, test := range []struct {
		mail, rcpt string
		fate       Fate
	}{
		{" BODY=8BITMIME RET=HDRS", " NOTIFY=NEVER", Accepted},
		{" NONSENSE=1", "", Refused},
		{"", " NONSENSE=1", Refused},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, _ := serve(t, sink.Config{})
			c, err := New(conn)
			if err != nil {
				t.Fatal(err)
			}
			r := c.Send(Message{Sender: "a@a.test", Recipients: []mail.Address{"b@b.test"}, Content: []byte("\r\n"),
				Parameters: test.mail, RecipientParameters: test.rcpt})
			if r.Fate != test.fate || r.Err != nil {
				t.Errorf("%q %q: result %+v, want %s", test.mail, test.rcpt, r, test.fate)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Some servers say 421 after so many messages and wait for QUIT: the next
// message needs a new connection, and this one is known to be refused.
func TestWornOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			in := bufio.NewReader(theirs)
			fmt.Fprint(theirs, "220 old.test\r\n")
			for _, reply := range []string{"250 old.test", "421 too many messages", "503 MAIL first", "503 MAIL first"} {
				in.ReadString('\n')
				fmt.Fprint(theirs, reply+"\r\n")
			}
			in.ReadString('\n') // until we hang up
			theirs.Close()
		}()
		c, err := New(ours)
		if err != nil {
			t.Fatal(err)
		}
		r := c.Send(Message{Recipients: []mail.Address{"b@b.test"}})
		var declined *Declined
		if r.Fate != Refused || !errors.As(r.Err, &declined) {
			t.Errorf("result %+v", r)
		}
	})
}
