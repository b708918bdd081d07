package outbound

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A fakeNet is a network of fake servers by address. It is a Dialer, and a
// Resolver by way of its zone.
type fakeNet struct {
	mu      sync.Mutex
	servers map[netip.AddrPort]*fakeServer
	zone    map[string]mail.HostSet
	errors  map[string]mail.Reply // lookups that fail
	lookups int
	dialed  []netip.AddrPort
	log     []*fakeConn // in the order of dialling
	running sync.WaitGroup
}

func newFakeNet() *fakeNet {
	return &fakeNet{
		servers: map[netip.AddrPort]*fakeServer{},
		zone:    map[string]mail.HostSet{},
		errors:  map[string]mail.Reply{},
	}
}

func (n *fakeNet) Hosts(_ context.Context, nexthop string) (mail.HostSet, mail.Reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookups++
	return n.zone[nexthop], n.errors[nexthop]
}

func (n *fakeNet) Dial(ctx context.Context, _ netip.Addr, to netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, to)
	server := n.servers[to]
	n.mu.Unlock()
	if server == nil {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	if server.say["dial"] == "lack" {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	}
	if server.say["dial"] == "hang" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	c := &fakeConn{server: server, sock: theirs, arrived: sync.NewCond(new(sync.Mutex))}
	n.mu.Lock()
	n.log = append(n.log, c)
	n.mu.Unlock()
	n.running.Go(c.drain)
	n.running.Go(c.serve)
	return ours, nil
}

// A fakeServer is a server as data: what it says to what.
type fakeServer struct {
	addr netip.AddrPort
	// say has a word for each of dial, greeting, ehlo, helo, rset, mail, rcpt,
	// data, bdat (without recipients), early, final, idle (after final) and quit. It is what the server says the first,
	// second, … time, separated by ";", the last of them from then on. Each is
	// text, "|" between lines, or "" for silence, with any of these before it:
	//
	//	wait=5m    after that time
	//	drip=50s   an octet each time
	//	close      closes the connection after it
	//	deaf       reads no more from then on
	//	flood      says it over and over, until the connection is gone
	//	part       without the end of the line, and is silent from then on
	say  map[string]string
	mu   sync.Mutex
	said map[string]int
	got  []string // contents that were taken, and for whom
}

// next returns what to say on an occasion.
func (s *fakeServer) next(occasion, standard string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.said[occasion]
	s.said[occasion]++
	word, given := s.say[occasion]
	if !given {
		return standard
	}
	words := strings.Split(word, ";")
	return words[min(n, len(words)-1)]
}

// A fakeConn is a connection from the server's side. One goroutine reads all
// that comes, as a kernel would, the other one serves.
type fakeConn struct {
	server *fakeServer
	sock   net.Conn

	arrived *sync.Cond
	in      []byte
	ended   bool // nothing more comes
	deaf    bool // reads no more
	mute    bool // says no more
	closed  bool // by the server

	verbs  []string // what the client said, for the log
	rcpts  []string
	sender bool // MAIL was accepted
}

// window is how much of what the client wrote a fakeConn keeps.
const window = 16 << 10

func (c *fakeConn) drain() {
	buf := make([]byte, 4096)
	for {
		c.arrived.L.Lock()
		for (c.deaf || len(c.in) > window) && !c.ended {
			c.arrived.Wait()
		}
		ended := c.ended
		c.arrived.L.Unlock()
		if ended {
			return
		}
		n, err := c.sock.Read(buf)
		c.arrived.L.Lock()
		c.in = append(c.in, buf[:n]...)
		c.ended = c.ended || err != nil
		c.arrived.Broadcast()
		c.arrived.L.Unlock()
	}
}

// line waits for a line; ok is false at the end.
func (c *fakeConn) line() (line string, ok bool) {
	c.arrived.L.Lock()
	defer c.arrived.L.Unlock()
	for {
		if c.deaf || c.closed {
			return "", false
		}
		if i := bytes.IndexByte(c.in, '\n'); i >= 0 {
			line = strings.TrimSuffix(string(c.in[:i]), "\r")
			c.in = c.in[i+1:]
			c.arrived.Broadcast()
			return line, true
		}
		if c.ended {
			return "", false
		}
		c.arrived.Wait()
	}
}

func (c *fakeConn) close() {
	c.sock.Close()
	c.arrived.L.Lock()
	c.ended, c.closed = true, true
	c.arrived.Broadcast()
	c.arrived.L.Unlock()
}

func (c *fakeConn) goDeaf() {
	c.arrived.L.Lock()
	c.deaf = true
	c.arrived.L.Unlock()
}

// A phrase is what a server says on one occasion, and how.
type phrase struct {
	wait, drip          time.Duration
	close, deaf, floods bool
	part                bool
	text                string
}

func parsePhrase(word string) (p phrase) {
	for {
		first, rest, _ := strings.Cut(word, " ")
		key, value, _ := strings.Cut(first, "=")
		switch key {
		case "wait":
			p.wait, _ = time.ParseDuration(value)
		case "drip":
			p.drip, _ = time.ParseDuration(value)
		case "close":
			p.close = true
		case "deaf":
			p.deaf = true
		case "flood":
			p.floods = true
		case "part":
			p.part = true
		default:
			p.text = word
			return p
		}
		word = rest
	}
}

// class returns the first digit of the reply, 0 for silence.
func (p phrase) class() byte {
	if p.text == "" {
		return 0
	}
	return p.text[0]
}

// speak says the next thing on an occasion and returns its class.
func (c *fakeConn) speak(occasion, standard string) byte {
	p := parsePhrase(c.server.next(occasion, standard))
	c.say(p)
	return p.class()
}

func (c *fakeConn) say(p phrase) {
	pause(p.wait)
	if c.mute {
		return
	}
	if p.deaf {
		c.goDeaf()
	}
	text := strings.ReplaceAll(p.text, "|", "\r\n") + "\r\n"
	if c.mute = p.part; p.part {
		text = strings.TrimSuffix(text, "\r\n")
	}
	switch {
	case p.text == "":
	case p.drip > 0:
		for i := range len(text) {
			pause(p.drip)
			if _, err := io.WriteString(c.sock, text[i:i+1]); err != nil {
				break
			}
		}
	case p.floods:
		for {
			if _, err := io.WriteString(c.sock, text); err != nil {
				break
			}
		}
	case p.close: // both at once, as when both are in one packet
		c.arrived.L.Lock()
		c.closed = true
		c.arrived.L.Unlock()
		fallthrough
	default:
		io.WriteString(c.sock, text)
	}
	if p.close {
		c.close()
	}
}

func (c *fakeConn) serve() {
	defer c.close()
	c.speak("greeting", "220 mx ESMTP")
	for {
		line, ok := c.line()
		if !ok {
			c.untilGone()
			return
		}
		verb, arg, _ := strings.Cut(line, " ")
		said := verb
		for _, parameter := range []string{"BY=", "NOTIFY="} {
			if _, value, given := strings.Cut(arg, " "+parameter); given {
				value, _, _ = strings.Cut(value, " ")
				said += " " + parameter + value
			}
		}
		c.verbs = append(c.verbs, said)
		switch verb {
		case "EHLO", "LHLO":
			c.speak("ehlo", "250-mx|250 PIPELINING")
		case "HELO":
			c.speak("helo", "250 mx")
		case "RSET":
			c.rcpts = nil
			c.speak("rset", "250 flushed")
		case "MAIL":
			c.rcpts = nil
			c.sender = c.speak("mail", "250 ok") == '2'
		case "RCPT":
			to, _, _ := strings.Cut(strings.TrimPrefix(arg, "TO:<"), ">")
			standard := "250 ok"
			if !c.sender {
				standard = "503 5.5.1 MAIL first"
			}
			if c.speak("rcpt", standard) == '2' {
				c.rcpts = append(c.rcpts, to)
			}
		case "DATA":
			standard := "354 go"
			if len(c.rcpts) == 0 {
				standard = "503 5.5.1 RCPT first"
			}
			if c.speak("data", standard) == '3' {
				c.content()
			}
		case "BDAT":
			if !c.chunk(arg) {
				return
			}
		case "QUIT":
			c.speak("quit", "221 bye")
			return
		default:
			c.verbs = append(c.verbs, "??")
			c.speak("unknown", "500 what")
		}
	}
}

// chunk takes the only chunk of a message; ok is false at the end.
func (c *fakeConn) chunk(arg string) (ok bool) {
	size, _, _ := strings.Cut(arg, " ")
	n, err := strconv.Atoi(size)
	if err != nil {
		panic(err)
	}
	text, ok := c.octets(n)
	if !ok {
		return false
	}
	if len(c.rcpts) == 0 {
		c.speak("bdat", "503 5.5.1 RCPT first")
		return true
	}
	c.final(strings.ReplaceAll(text, "\r\n", "\n"))
	return true
}

// octets waits for n octets; ok is false at the end.
func (c *fakeConn) octets(n int) (text string, ok bool) {
	c.arrived.L.Lock()
	defer c.arrived.L.Unlock()
	var b strings.Builder
	for {
		part := min(n-b.Len(), len(c.in))
		b.Write(c.in[:part])
		c.in = c.in[part:]
		c.arrived.Broadcast()
		switch {
		case b.Len() == n:
			return b.String(), true
		case c.deaf, c.closed, c.ended:
			return "", false
		}
		c.arrived.Wait()
	}
}

// untilGone waits until the client has closed the connection, unless the
// server has.
func (c *fakeConn) untilGone() {
	c.arrived.L.Lock()
	defer c.arrived.L.Unlock()
	for !c.ended {
		if c.deaf { // a peer that does not read does not notice the end either
			c.arrived.L.Unlock()
			pause(time.Hour)
			c.arrived.L.Lock()
			return
		}
		c.arrived.Wait()
	}
}

func (c *fakeConn) content() {
	var text strings.Builder
	for lines := 0; ; lines++ {
		line, ok := c.line()
		if !ok {
			return
		}
		if line == "." {
			break
		}
		text.WriteString(line + "\n")
		if _, given := c.server.say["early"]; given && lines == 10 {
			c.speak("early", "")
			pause(time.Second) // until the client has taken notice
		}
	}
	c.verbs = append(c.verbs, ".")
	c.final(text.String())
}

// final answers a content.
func (c *fakeConn) final(text string) {
	p := parsePhrase(c.server.next("final", "250 2.0.0 taken"))
	if p.class() == '2' {
		c.server.mu.Lock()
		c.server.got = append(c.server.got, fmt.Sprintf("%v %s", c.rcpts, strconv.Quote(text)))
		c.server.mu.Unlock()
	}
	c.rcpts = nil
	c.say(p)
	if _, given := c.server.say["idle"]; given {
		c.speak("idle", "")
	}
}

// A store has the contents of messages.
type store map[mail.QueueID]fakeContent

// A fakeContent is content that is in memory or not, or cannot be read.
type fakeContent struct {
	data    string
	inFile  bool
	openErr error
	readErr error         // in the middle
	open    *atomic.Int64 // number of open bodies; nil if not needed
}

func (s store) Body(_ context.Context, id mail.QueueID) (Body, error) {
	c := s[id]
	if c.openErr != nil {
		return nil, c.openErr
	}
	if c.open != nil {
		c.open.Add(1)
	}
	return &fakeBody{fakeContent: c, left: c.data}, nil
}

type fakeBody struct {
	fakeContent
	left string
}

func (b *fakeBody) Size() int64 { return int64(len(b.data)) }

func (b *fakeBody) Bytes() []byte {
	if b.inFile {
		return nil
	}
	return []byte(b.data)
}

func (b *fakeBody) Read(p []byte) (int, error) {
	if b.readErr != nil && len(b.left) <= len(b.data)/2 {
		return 0, b.readErr
	}
	if b.left == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1000)], b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *fakeBody) Close() error {
	if b.open != nil {
		b.open.Add(-1)
	}
	return nil
}
