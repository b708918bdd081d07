package inbound

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// A pipeListener accepts the server's ends of pipes, whose clients have any address
// that the test sets.
type pipeListener struct {
	conns    chan net.Conn
	failures chan error
	closed   chan struct{}
	once     sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), failures: make(chan error), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.failures:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 25} }

type pipeEnd struct {
	net.Conn
	remote net.Addr
}

func (p pipeEnd) RemoteAddr() net.Addr { return p.remote }

// A testServer is a server with a memory sink, and its log.
type testServer struct {
	*Server
	sink     *memorySink
	listener *pipeListener
	log      *syncBuffer
	stop     context.CancelFunc
	served   chan error
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs a server within the bubble of a test; end stops it.
func start(t *testing.T, cfg Config, gate Gate, early EarlyTalkers) *testServer {
	t.Helper()
	ts := &testServer{sink: &memorySink{}, listener: newPipeListener(), log: &syncBuffer{}, served: make(chan error, 1)}
	cfg.Session.Hostname = "mx.example"
	cfg.Logger = loggerTo(ts.log)
	policy, err := NewRelayPolicy(RelayConfig{RelayDomains: []string{"b.example"}})
	if err != nil {
		t.Fatal(err)
	}
	ts.Server, err = New(cfg, ts.sink, policy, gate)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ts.stop = stop
	go func() { ts.served <- ts.Serve(ctx, Listener{Listener: ts.listener, EarlyTalkers: early}) }()
	return ts
}

func (ts *testServer) end(t *testing.T) {
	t.Helper()
	ts.stop()
	if err := <-ts.served; err != nil {
		t.Error(err)
	}
	if n := ts.Snapshot().Open; n != 0 {
		t.Errorf("%d connections are open after the end", n)
	}
}

// A client sends and reads lines.
type client struct {
	net.Conn
	t       *testing.T
	replies *bufio.Reader
}

func (ts *testServer) dial(t *testing.T, address string) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	var remote net.Addr = &net.UnixAddr{Net: "unix"}
	if address != "" {
		remote = &net.TCPAddr{IP: net.ParseIP(address), Port: 40000}
	}
	ts.listener.conns <- pipeEnd{theirs, remote}
	return &client{Conn: ours, t: t, replies: bufio.NewReader(ours)}
}

// say sends lines in one segment, from a goroutine of its own: a pipe has no
// buffer, and the server writes replies meanwhile.
func (c *client) say(lines ...string) {
	c.t.Helper()
	text := strings.Join(lines, "\r\n") + "\r\n"
	go c.Write([]byte(text)) // the replies show it
}

// hear reads one reply, of one or several lines, and checks how its last
// line begins.
func (c *client) hear(want string) string {
	c.t.Helper()
	for {
		line, err := c.replies.ReadString('\n')
		if err != nil {
			c.t.Fatalf("no reply (%v), want %q", err, want)
		}
		if len(line) > 3 && line[3] == '-' {
			continue
		}
		if !strings.HasPrefix(line, want) {
			c.t.Fatalf("reply %q, want %q", line, want)
		}
		return line
	}
}

// hearEnd checks that the server closes.
func (c *client) hearEnd() {
	c.t.Helper()
	if line, err := c.replies.ReadString('\n'); err == nil {
		c.t.Fatalf("reply %q, want the end", line)
	}
}

func (c *client) hello() {
	c.t.Helper()
	c.hear("220 mx.example ")
	c.say("EHLO client.example")
	c.hear("250 ")
}

// envelope gets as far as the 354.
func (c *client) envelope() {
	c.t.Helper()
	c.say("MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>", "DATA")
	c.hear("250 2.1.0")
	c.hear("250 2.1.5")
	c.hear("354")
}

func inTime(t *testing.T, from time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(from); took != want {
		t.Errorf("after %s, want %s", took, want)
	}
}

func sessionConfig() server.Config { return server.Config{Hostname: "mx.example"} }

// noNetworks are limit exceptions without any client: nil would stand for the default.
var noNetworks = []netip.Prefix{}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// hearAll reads one reply, and returns all its lines with LF only.
func (c *client) hearAll() string {
	c.t.Helper()
	var b strings.Builder
	for {
		line, err := c.replies.ReadString('\n')
		if err != nil {
			c.t.Fatalf("no reply: %v", err)
		}
		b.WriteString(strings.ReplaceAll(line, "\r", ""))
		if len(line) > 3 && line[3] == ' ' {
			return b.String()
		}
	}
}

// policyFunc permits everything, and shows who asks.
type policyFunc func(*Client)

func (f policyFunc) Sender(*Client, mail.Address) mail.Reply { return mail.Reply{} }

func (f policyFunc) Trusts(*Client) bool { return true }

func (f policyFunc) Recipient(c *Client, _, _ mail.Address) mail.Reply {
	f(c)
	return mail.Reply{}
}

// loggerTo returns a logger of everything.
func loggerTo(b *syncBuffer) *slog.Logger {
	return event.NewStrict(b, slog.LevelDebug, nil)
}
