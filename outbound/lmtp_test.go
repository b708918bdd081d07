package outbound

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// mailboxes are a store that go-smtp serves by LMTP: what each mailbox got.
type mailboxes struct {
	mu   sync.Mutex
	got  map[string][]string // contents by recipient
	full string              // the prefix of mailboxes that take nothing
}

func (m *mailboxes) NewSession(*smtp.Conn) (smtp.Session, error) { return &boxSession{store: m}, nil }

type boxSession struct {
	store *mailboxes
	to    []string
}

func (s *boxSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *boxSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "no-") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox"}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *boxSession) Data(io.Reader) error { return errors.New("LMTP delivers for each recipient") }

func (s *boxSession) LMTPData(r io.Reader, status smtp.StatusCollector) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, to := range s.to {
		if strings.HasPrefix(to, s.store.full) {
			status.SetStatus(to, &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "mailbox full"})
			continue
		}
		s.store.got[to] = append(s.store.got[to], string(content))
		status.SetStatus(to, nil)
	}
	return nil
}

func (s *boxSession) Reset()        { s.to = nil }
func (s *boxSession) Logout() error { return nil }

// serveLMTP serves a store until the test ends.
func serveLMTP(t *testing.T, l net.Listener) *mailboxes {
	t.Helper()
	m := &mailboxes{got: map[string][]string{}, full: "full-"}
	server := smtp.NewServer(m)
	server.LMTP, server.Domain = true, "me.example" // our own name
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("server: %v", err)
		}
	})
	return m
}

// listenSocket listens on a unix socket and returns its nexthop.
func listenSocket(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lmtp")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return l, mail.SocketPrefix + path
}

// newLMTPClient returns a client whose only transport, lmtp, dials what there really is.
func newLMTPClient(t *testing.T, bodies Bodies) *Client {
	t.Helper()
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"lmtp": {LMTP: true}},
		Sources: map[string]SourceConfig{"named": {Hello: "other.example"}}}, newFakeNet(), bodies, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// onlyHost returns the only host of a nexthop of transport lmtp.
func onlyHost(t *testing.T, c *Client, nexthop string) mail.Host {
	t.Helper()
	set, reply := c.Hosts(t.Context(), "lmtp", nexthop)
	if !reply.IsZero() || len(set.Tiers) != 1 || len(set.Tiers[0]) != 1 {
		t.Fatalf("hosts of %s: %+v, %v", nexthop, set, reply)
	}
	return set.Tiers[0][0]
}

// An independent server behind a unix socket delivers to some recipients of each message, at
// every level: each recipient has the outcome that the server gave it, and the message once.
func TestLMTPPeer(t *testing.T) {
	l, nexthop := listenSocket(t)
	boxes := serveLMTP(t, l)
	bodies := store{}
	const count = 24
	for id := range mail.QueueID(count) {
		bodies[id] = fakeContent{data: fmt.Sprintf("Subject: %d\r\n\r\n.\r\n", uint64(id)) + strings.Repeat("..x\r\n", int(id)*200), inFile: id%2 == 0}
	}
	c := newLMTPClient(t, bodies)
	host := onlyHost(t, c, nexthop)
	for w, level := range levels {
		k, opened := c.Dial(t.Context(), mail.Opening{Transport: "lmtp", Source: "named", Nexthop: nexthop, Host: host, Level: level})
		if k == nil {
			t.Fatal(opened.Reply)
		}
		for id := w; id < count; id += len(levels) {
			d := message(mail.QueueID(id), "a@x.example", "no-b@x.example", "full-c@x.example", fmt.Sprintf("d%d@x.example", id))
			d.Envelope.Size = int64(len(bodies[d.Envelope.ID].data))
			d.Recipients[0].Notify = mail.NotifySuccess
			k.Send(uint64(id), d)
		}
		k.Hangup()
		results := 0
		closing := k.Run(t.Context(), func(id uint64, r mail.DeliveryResult) {
			results++
			var got []string
			for _, o := range r.Outcomes {
				got = append(got, o.Result.String()+" "+o.Report.String()+" "+o.Reply.Status.String())
			}
			if want := []string{"sent delivered 2.0.0", "bounced  5.1.1", "deferred  4.2.2", "sent  2.0.0"}; !slices.Equal(got, want) || r.Host != nexthop {
				t.Errorf("%v: message %d at %s: %q, want %q", level, id, r.Host, got, want)
			}
		})
		if closing.Why != mail.CloseAsked || results != count/len(levels) {
			t.Errorf("%v: %d results, closed %+v", level, results, closing)
		}
	}
	for id := range count {
		data := bodies[mail.QueueID(id)].data
		if got := boxes.got[fmt.Sprintf("d%d@x.example", id)]; !slices.Equal(got, []string{data}) {
			t.Errorf("message %d has arrived as %.100q", id, got)
		}
	}
	if n := len(boxes.got["a@x.example"]); n != count {
		t.Errorf("the mailbox that all messages are for has %d", n)
	}
}

// A server that goes away between two replies has delivered to the first recipient. The outcome
// of the second is unknown.
func TestLMTPLost(t *testing.T) {
	n := newFakeNet()
	n.add("1", map[string]string{"final": "close 250 ok"})
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {LMTP: true}}}, n, store{1: {data: "x\r\n"}}, n)
	if err != nil {
		t.Fatal(err)
	}
	k, opened := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "box", Addr: address("1")}, Level: mail.LevelOverlap})
	if k == nil {
		t.Fatal(opened.Reply)
	}
	k.Send(1, message(1, "a@x.example", "b@x.example"))
	k.Hangup()
	closing := k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) {
		a, b := r.Outcomes[0], r.Outcomes[1]
		if a.Result != mail.Delivered || a.Unknown || b.Result != mail.Deferred || !b.Unknown || b.Reply.Status.String() != "4.4.2" {
			t.Errorf("outcomes %+v", r.Outcomes)
		}
	})
	if closing.Why != mail.CloseLost {
		t.Errorf("closed %+v", closing)
	}
	n.running.Wait()
}

// A store knows that a mailbox is full long before it has all of the content, and says so. The other
// recipient gets the message all the same, over the same connection.
func TestLMTPEarlyRefusal(t *testing.T) {
	l, nexthop := listenSocket(t)
	defer l.Close()
	content := strings.Repeat(strings.Repeat("0123456789", 7)+"\r\n", 100_000)
	got := make(chan string, 1)
	go func() {
		defer close(got)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		fmt.Fprint(conn, "220 store\r\n")
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			switch verb, _, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
			case "LHLO":
				fmt.Fprint(conn, "250-store\r\n250-PIPELINING\r\n250 ENHANCEDSTATUSCODES\r\n")
			case "DATA":
				fmt.Fprint(conn, "354 go\r\n")
				var text strings.Builder
				for said := false; ; {
					if line, err = in.ReadString('\n'); err != nil {
						return
					}
					if line == ".\r\n" {
						break
					}
					if text.WriteString(line); !said && text.Len() > 64<<10 {
						said = true
						fmt.Fprint(conn, "552 5.2.2 mailbox full\r\n")
					}
				}
				got <- text.String()
				fmt.Fprint(conn, "250 2.1.5 saved\r\n")
			case "QUIT":
				fmt.Fprint(conn, "221 bye\r\n")
				return
			default:
				fmt.Fprint(conn, "250 2.1.0 ok\r\n")
			}
		}
	}()
	c := newLMTPClient(t, store{1: {data: content}})
	k, opened := c.Dial(t.Context(), mail.Opening{Transport: "lmtp", Nexthop: nexthop, Host: onlyHost(t, c, nexthop), Level: mail.LevelOverlap})
	if k == nil {
		t.Fatal(opened.Reply)
	}
	k.Send(1, message(1, "full@x.example", "b@x.example"))
	k.Hangup()
	closing := k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) {
		a, b := r.Outcomes[0], r.Outcomes[1]
		if a.Result != mail.Failed || a.Reply.Code != 552 || b.Result != mail.Delivered || b.Reply.Text != "saved" {
			t.Errorf("outcomes %+v", r.Outcomes)
		}
	})
	if closing.Why != mail.CloseAsked {
		t.Errorf("closed %+v", closing)
	}
	if text := <-got; text != content {
		t.Errorf("the store has %d bytes of %d", len(text), len(content))
	}
}

// Without its server a socket is a host that cannot be reached now, and the reply says what
// to do.
func TestSocketTrouble(t *testing.T) {
	l, nexthop := listenSocket(t)
	c := newLMTPClient(t, store{})
	host := onlyHost(t, c, nexthop)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	for _, c := range []struct {
		client *Client
		host   mail.Host
		want   string
	}{
		{c, host, "connect to " + nexthop + ": connection refused (its server has ended)"},
		{c, onlyHost(t, c, nexthop+"-gone"), "connect to " + nexthop + "-gone: no such file or directory (is its server running?)"},
	} {
		k, opened := c.client.Dial(t.Context(), mail.Opening{Transport: "lmtp", Host: c.host})
		if k != nil || opened.Reply.Text != c.want || !opened.Reply.Temporary() || opened.Unavailable || opened.Unbound {
			t.Errorf("opened %+v, want %q", opened, c.want)
		}
	}
}

// There is no TLS on a unix socket, whatever level other connections need: no network is between
// its ends, and the operator has written its path.
func TestNoTLSOnSocket(t *testing.T) {
	c := newLMTPClient(t, store{})
	for _, level := range []tlspolicy.Level{tlspolicy.May, tlspolicy.Encrypt, tlspolicy.DANEOnly} {
		o := mail.Opening{Transport: "lmtp", Host: mail.Host{Addr: mail.SocketAddr("/x")}, Security: tlspolicy.Demand{Level: level}.String()}
		p, why := c.protectionOf(t.Context(), c.transports["lmtp"], &o)
		if !why.IsZero() || p.Use != tlspolicy.UseNever {
			t.Errorf("%v: %+v, %v", level, p, why)
		}
	}
}
