package sink

import (
	"bufio"
	"context"
	"hash/crc32"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A pipeListener hands out the server's ends of pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 25} }

// A bench is a server within the bubble of a test, and all that it told.
type bench struct {
	*Server
	t        *testing.T
	listener *pipeListener
	stop     context.CancelFunc
	served   chan error

	mu      sync.Mutex
	taken   []Delivery
	refused []Refusal
}

func start(t *testing.T, cfg Config) *bench {
	t.Helper()
	b := &bench{t: t, listener: &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}, served: make(chan error, 1)}
	cfg.Taken = func(d Delivery) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.taken = append(b.taken, d)
	}
	cfg.Refused = func(r Refusal) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.refused = append(b.refused, r)
	}
	var err error
	if b.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	go func() { b.served <- b.Serve(ctx, b.listener) }()
	return b
}

// end stops the server; the bubble would report a goroutine left behind.
func (b *bench) end() {
	b.t.Helper()
	b.stop()
	if err := <-b.served; err != nil {
		b.t.Error(err)
	}
	if n := b.Stats().Open; n != 0 {
		b.t.Errorf("%d connections are open after the end", n)
	}
}

// A client says and hears lines.
type client struct {
	net.Conn
	t     *testing.T
	lines *bufio.Reader
}

func (b *bench) dial() *client {
	b.t.Helper()
	ours, theirs := net.Pipe()
	b.listener.conns <- theirs
	return &client{Conn: ours, t: b.t, lines: bufio.NewReader(ours)}
}

// say sends lines in one group.
func (c *client) say(lines ...string) {
	go c.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
}

// hear takes one reply, all its lines, and checks how it begins.
func (c *client) hear(want string) string {
	c.t.Helper()
	var reply string
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			c.t.Fatalf("want %q, but %v after %q", want, err, reply)
		}
		reply += line
		if line[3] == ' ' {
			break
		}
	}
	if !strings.HasPrefix(reply, want) {
		c.t.Fatalf("reply %q, want %q", reply, want)
	}
	return reply
}

func (c *client) hearEnd() {
	c.t.Helper()
	if line, err := c.lines.ReadString('\n'); err == nil {
		c.t.Fatalf("reply %q, want the end of the connection", line)
	}
}

func (c *client) hello() {
	c.t.Helper()
	c.hear("220 ")
	c.say("EHLO client.test")
	c.hear("250-")
}

// What a test counts on: everything of a delivery, told before the client
// hears of it, in either way of sending content.
func TestTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Config{KeyField: "X-Key", ContentKept: 1 << 10})
		c := b.dial()
		c.hello()
		c.say("MAIL FROM:<a@a.test> ENVID=e1", "RCPT TO:<b@b.test>", "RCPT TO:<c@c.test>", "DATA")
		for _, want := range []string{"250", "250", "250", "354"} {
			c.hear(want)
		}
		c.say("X-Other: no", "x-key:  one ", "", "..text", ".")
		c.hear("250 ")
		b.mu.Lock()
		taken := len(b.taken)
		b.mu.Unlock()
		if taken != 1 {
			t.Fatalf("%d messages accepted when the client got the reply", taken)
		}
		c.say("MAIL FROM:<>", "RCPT TO:<b@b.test>", "BDAT 12\r\nX-Key: two\r\nBDAT 6 LAST\r\n\r\nbody")
		for _, want := range []string{"250", "250", "250", "250"} {
			c.hear(want)
		}
		b.end()

		body := func(text string) uint32 { return crc32.Checksum([]byte(text), castagnoli()) }
		at, client := time.Now(), mail.Client{Helo: "client.test", Proto: "ESMTP"}
		want := []Delivery{
			{At: at, Connection: 1, Nth: 1, Client: client, Key: "one", Sender: "a@a.test", EnvID: "e1", Recipients: []mail.Address{"b@b.test", "c@c.test"},
				Size: 36, BodySum: body(".text\r\n"), Content: []byte("X-Other: no\r\nx-key:  one \r\n\r\n.text\r\n")},
			{At: at, Connection: 1, Nth: 2, Client: client, Key: "two", Recipients: []mail.Address{"b@b.test"},
				Size: 18, BodySum: body("body"), Content: []byte("X-Key: two\r\n\r\nbody")},
		}
		if !reflect.DeepEqual(b.taken, want) {
			t.Errorf("taken\n%+v, want\n%+v", b.taken, want)
		}
		stats := Stats{Connections: 1, Peak: 1, Messages: 2, Recipients: 3, Octets: uint64(want[0].Size + 18)}
		if got := b.Stats(); got != stats {
			t.Errorf("stats %+v, want %+v", got, stats)
		}
	})
}

// A slow receiver: each delay is where Config says, and they add up.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Config{GreetingDelay: time.Hour, CommandDelay: time.Second, RecipientDelay: time.Minute, MessageDelay: 10 * time.Minute})
		c := b.dial()
		last := time.Now()
		took := func(want time.Duration) {
			t.Helper()
			if got := time.Since(last); got != want {
				t.Errorf("took %s, want %s", got, want)
			}
			last = time.Now()
		}
		c.hear("220 ")
		took(time.Hour + time.Second)
		c.say("EHLO client.test")
		c.hear("250-")
		took(time.Second)
		c.say("MAIL FROM:<a@a.test>", "RCPT TO:<b@b.test>", "RCPT TO:<c@c.test>", "DATA")
		for range 4 {
			c.hear("")
		}
		took(2*time.Minute + 4*time.Second)
		c.say("", "text", ".")
		c.hear("250 ")
		took(10*time.Minute + time.Second)
		b.end()
	})
}

// The receiver of the scheduler's documentation: connections beyond a limit get 421
// and are closed, and there is room again when one has gone.
func TestConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Config{ConnectionLimit: 2})
		first, second, third := b.dial(), b.dial(), b.dial()
		first.hear("220 ")
		second.hear("220 ")
		third.hear("421 ")
		third.hearEnd()
		first.say("QUIT")
		first.hear("221 ")
		first.hearEnd()
		synctest.Wait()
		fourth := b.dial()
		fourth.hear("220 ")
		b.end()
		second.hearEnd()
		if got, want := b.Stats(), (Stats{Connections: 3, TurnedAway: 1, Peak: 2}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

// Every fault at every stage: what the client sees, what a test is notified of, and
// whether the message counts as taken.
func TestFaults(t *testing.T) {
	const end = "" // of the connection
	for _, test := range []struct {
		stage   Stage
		kind    Kind
		replies []string // to greeting, EHLO, MAIL, RCPT, DATA, content
		taken   int
	}{
		{AtGreeting, RefuseForNow, []string{"421", end}, 0},
		{AtGreeting, RefuseForGood, []string{"554", end}, 0},
		{AtGreeting, Drop, []string{end}, 0},
		{AtMail, RefuseForNow, []string{"220", "250", "450", "503", "503"}, 0},
		{AtMail, RefuseForGood, []string{"220", "250", "554", "503", "503"}, 0},
		{AtMail, Drop, []string{"220", "250", end}, 0},
		{AtRecipient, RefuseForNow, []string{"220", "250", "250", "450", "554"}, 0},
		{AtRecipient, RefuseForGood, []string{"220", "250", "250", "550 5.1.1", "554"}, 0},
		{AtRecipient, Drop, []string{"220", "250", "250", end}, 0},
		{AtContent, RefuseForNow, []string{"220", "250", "250", "250", "354", "450"}, 0},
		{AtContent, RefuseForGood, []string{"220", "250", "250", "250", "354", "554"}, 0},
		{AtContent, Drop, []string{"220", "250", "250", "250", "354", end}, 0},
		{AtCommit, RefuseForNow, []string{"220", "250", "250", "250", "354", "450"}, 0},
		{AtCommit, RefuseForGood, []string{"220", "250", "250", "250", "354", "554"}, 0},
		{AtCommit, Drop, []string{"220", "250", "250", "250", "354", end}, 0},
		{AtCommit, LoseReply, []string{"220", "250", "250", "250", "354", end}, 1},
	} {
		t.Run(test.stage.String()+" "+test.kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, Config{Faults: []Fault{{Stage: test.stage, Kind: test.kind, Share: 1}}})
				c := b.dial()
				says := []string{"", "EHLO client.test", "MAIL FROM:<a@a.test>", "RCPT TO:<b@b.test>", "DATA", "Message-ID: <1>\r\n\r\ntext\r\n."}
				for i, want := range test.replies {
					if says[i] != "" && want+says[i] != end {
						c.say(says[i])
					}
					if want == end {
						c.hearEnd()
						break
					}
					c.hear(want)
				}
				b.end()
				if len(b.taken) != test.taken {
					t.Errorf("%d messages taken, want %d", len(b.taken), test.taken)
				}
				if test.kind == LoseReply {
					if b.taken[0].Reply != ReplyLost || len(b.refused) != 0 {
						t.Errorf("taken %+v, refused %+v", b.taken, b.refused)
					}
					return
				}
				if len(b.refused) != 1 || b.refused[0].Stage != test.stage || b.refused[0].Kind != test.kind {
					t.Fatalf("refused %+v", b.refused)
				}
				if r := b.refused[0]; r.Stage >= AtContent && (r.Key != "<1>" || len(r.Recipients) != 1) {
					t.Errorf("refusal %+v does not say of what", r)
				}
			})
		})
	}
}

// A repaired receiver must take what it refused before: otherwise nothing
// could be drained at the end of a test.
func TestSetFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Config{Faults: []Fault{{Stage: AtMail, Kind: RefuseForNow, Share: 1}}})
		c := b.dial()
		c.hello()
		c.say("MAIL FROM:<a@a.test>")
		c.hear("450")
		if err := b.SetFaults([]Fault{{Stage: AtMail, Kind: LoseReply, Share: 1}}); err == nil {
			t.Error("a lost reply to MAIL was accepted")
		}
		if err := b.SetFaults(nil); err != nil {
			t.Fatal(err)
		}
		c.say("MAIL FROM:<a@a.test>")
		c.hear("250")
		b.end()
	})
}

// Extensions that are withheld are not in the reply to EHLO, whose last line
// stays marked as such, and all else is untouched.
func TestWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Config{Withheld: []string{"chunking", "PIPELINING", "SIZE"}})
		c := b.dial()
		c.hear("220 ")
		c.say("EHLO client.test", "MAIL FROM:<a@a.test>")
		want := "250-sink.test\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n250 ENHANCEDSTATUSCODES\r\n"
		if got := c.hear("250-"); got != want {
			t.Errorf("reply %q, want %q", got, want)
		}
		c.hear("250 2.1.0 ")
		b.end()
	})
	if got := withhold([]byte("250 2.0.0 Ok\r\n"), "sink.test", []string{"2.0.0"}); string(got) != "250 2.0.0 Ok\r\n" {
		t.Errorf("another reply became %q", got)
	}
	if got := withhold([]byte("250-h\r\n250 SIZE\r\n"), "h", []string{"SIZE"}); string(got) != "250 h\r\n" {
		t.Errorf("without any extension: %q", got)
	}
}

// A typing error in a test must not turn into a receiver without the fault.
func TestConfigComplains(t *testing.T) {
	_, err := New(Config{
		Hostname: "not a name", ConnectionLimit: -1, CommandDelay: -1, RecipientLimit: 5, Withheld: []string{"PIPELINE"},
		Faults: []Fault{{Stage: 9, Kind: Drop}, {Stage: AtMail, Kind: LoseReply, Share: 0.5}, {Stage: AtMail, Kind: Drop, Share: 1.5}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"hostname", "limit is negative", "time is negative", "recipient limit 5", `"PIPELINE"`, "no such thing", "commit only", "1.5"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about %s in %v", want, err)
		}
	}
}

// A limit for each client refuses what is beyond it, whatever others have; a fault may
// concern one client only.
func TestClientLimit(t *testing.T) {
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	s, err := New(Config{ClientConnectionLimit: 2, ConnectionLimit: 3, Faults: []Fault{{Stage: AtMail, Kind: Drop, Share: 1, Client: one}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		client netip.Addr
		served bool
	}{{one, true}, {one, true}, {one, false}, {other, true}, {other, false}} {
		if served := s.enter(step.client); served != step.served {
			t.Errorf("connection %d, from %s, is served: %v", i, step.client, served)
		}
	}
	s.leave(one)
	if !s.enter(other) {
		t.Error("there is room after a connection has ended")
	}
	if got, want := s.ClientStats(one), (Stats{Connections: 2, TurnedAway: 1, Open: 1, Peak: 2}); got != want {
		t.Errorf("%s: %+v, want %+v", one, got, want)
	}
	if got, want := s.ClientStats(other), (Stats{Connections: 2, TurnedAway: 1, Open: 2, Peak: 2}); got != want {
		t.Errorf("%s: %+v, want %+v", other, got, want)
	}
	fate := newFate(1, 1)
	if a, b := fate.draw(*s.faults.Load(), one, AtMail, ""), fate.draw(*s.faults.Load(), other, AtMail, ""); a != Drop || b != 0 {
		t.Errorf("faults of the clients: %v, %v", a, b)
	}
}
