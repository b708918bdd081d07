package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/posthaste-mta/posthaste/mail"
)

// A pipeListener hands out connections that are dialled in memory.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 25} }

func (l *pipeListener) Dial(ctx context.Context, _ netip.Addr, _ netip.AddrPort) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A peer is a go-smtp server, an independent implementation of SMTP.
type peer struct {
	mu      sync.Mutex
	got     []string // "from to…: content"
	resumed []bool   // for each connection under TLS, whether it resumed a session
}

func (p *peer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	if state, ok := c.TLSConnectionState(); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.resumed = append(p.resumed, state.DidResume)
	}
	return &peerSession{peer: p}, nil
}

type peerSession struct {
	peer *peer
	from string
	to   []string
}

func (s *peerSession) Mail(from string, opts *smtp.MailOptions) error {
	s.from = fmt.Sprintf("%s size=%d body=%s utf8=%v ret=%s envid=%s", from, opts.Size, opts.Body, opts.UTF8, opts.Return, opts.EnvelopeID)
	return nil
}

func (s *peerSession) Rcpt(to string, opts *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "no-") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	s.to = append(s.to, fmt.Sprintf("%s notify=%v orcpt=%s", to, opts.Notify, opts.OriginalRecipient))
	return nil
}

func (s *peerSession) Data(r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.peer.mu.Lock()
	defer s.peer.mu.Unlock()
	s.peer.got = append(s.peer.got, fmt.Sprintf("%s to %s: %q", s.from, strings.Join(s.to, ", "), content))
	return nil
}

func (s *peerSession) Reset()        { s.from, s.to = "", nil }
func (s *peerSession) Logout() error { return nil }

// startPeer runs a go-smtp server until the test ends.
func startPeer(t *testing.T) (*peer, *pipeListener) {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	return startPeerOn(t, l, nil), l
}

// startPeerOn runs one on a listener, with TLS unless cfg is nil.
func startPeerOn(t *testing.T, l net.Listener, cfg *tls.Config) *peer {
	t.Helper()
	p := &peer{}
	server := smtp.NewServer(p)
	server.TLSConfig = cfg
	server.Domain = "peer.example"
	server.EnableSMTPUTF8, server.EnableDSN, server.EnableBINARYMIME = true, true, true
	server.MaxMessageBytes = 1 << 20
	server.ErrorLog = log.New(io.Discard, "", 0)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("server: %v", err)
		}
	})
	return p
}

// An independent server understands what we send, parameters, dots and all,
// from connections at all levels at once.
func TestPeer(t *testing.T) {
	p, l := startPeer(t)
	n := newFakeNet()
	bodies := store{}
	const count = 40
	for id := range count {
		bodies[mail.QueueID(id)] = fakeContent{
			data:   fmt.Sprintf("Subject: %d\r\n\r\n.\r\n..dots\r\n", id) + strings.Repeat(".0123456789\r\n", id*500),
			inFile: id%2 == 0,
		}
	}
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}}, n, bodies, l)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for w := range 4 {
		k, opened := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "peer", Addr: address("1")}, Level: levels[w]})
		if k == nil {
			t.Fatal(opened.Reply)
		}
		for id := w; id < count; id += 4 {
			d := message(mail.QueueID(id), "b@example.net", "no-c@example.net", "jörg@example.net")
			d.Envelope.SMTPUTF8, d.Envelope.Body = true, mail.Body8BitMIME
			d.Envelope.Ret, d.Envelope.EnvID = mail.RetHeaders, "Q314"
			d.Envelope.Size = int64(len(bodies[d.Envelope.ID].data))
			d.Recipients[0].Notify, d.Recipients[0].ORcpt = mail.NotifySuccess|mail.NotifyDelay, "rfc822;x+2By@example.org"
			k.Send(uint64(id), d)
		}
		k.Hangup()
		group.Go(func() {
			k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) {
				if r.Outcomes[0].Result != mail.Delivered || r.Outcomes[0].Report != mail.ReportNone ||
					r.Outcomes[1].Result != mail.Failed || r.Outcomes[2].Result != mail.Delivered ||
					r.Outcomes[1].Reply.String() != "550 5.1.1 no such user" {
					t.Errorf("result %+v", r)
				}
			})
		})
	}
	group.Wait()
	for id := range count {
		data := bodies[mail.QueueID(id)].data
		want := fmt.Sprintf("a@example.org size=%d body=8BITMIME utf8=true ret=HDRS envid=Q314 to "+
			"b@example.net notify=[DELAY SUCCESS] orcpt=x+y@example.org, jörg@example.net notify=[] orcpt=: %q", len(data), data)
		other := strings.Replace(want, "[DELAY SUCCESS]", "[SUCCESS DELAY]", 1)
		if !slices.Contains(p.got, want) && !slices.Contains(p.got, other) {
			t.Errorf("message %d did not arrive as it should", id)
		}
	}
	if len(p.got) != count {
		t.Errorf("%d messages arrived, the first: %.300s", len(p.got), p.got[0])
	}
	if s := c.Stats(); s.Connects != 4 || s.Transactions != count {
		t.Errorf("stats %+v", s)
	}
}
