package outbound

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A tap is the way to a server that records what the client sends, and cuts the connection after
// so many octets of what the server sends.
type tap struct {
	serve func(net.Conn) // the server's end
	cut   int            // -1: never

	mu    sync.Mutex
	sent  [][]byte // by the client, for each connection
	heard int      // octets that passed to the client on the first connection
}

func (p *tap) Dial(context.Context, netip.Addr, netip.AddrPort) (net.Conn, error) {
	ours, near := net.Pipe()
	far, theirs := net.Pipe()
	p.mu.Lock()
	n := len(p.sent)
	p.sent = append(p.sent, nil)
	p.mu.Unlock()
	go p.serve(theirs)
	go func() {
		defer far.Close()
		buf := make([]byte, 4096)
		for {
			got, err := near.Read(buf)
			p.mu.Lock()
			p.sent[n] = append(p.sent[n], buf[:got]...)
			p.mu.Unlock()
			if _, failed := far.Write(buf[:got]); err != nil || failed != nil {
				return
			}
		}
	}()
	go func() {
		defer near.Close()
		defer far.Close()
		from := io.Reader(far)
		if p.cut >= 0 && n == 0 {
			from = io.LimitReader(far, int64(p.cut))
		}
		io.Copy(counting{near, func(passed int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if n == 0 {
				p.heard += passed
			}
		}}, from)
	}()
	return ours, nil
}

// counting is a writer of which it is known how much was written.
type counting struct {
	io.Writer
	passed func(int)
}

func (c counting) Write(data []byte) (int, error) {
	n, err := c.Writer.Write(data)
	c.passed(n)
	return n, err
}

// clear returns what the client sent on a connection before TLS, which begins with the first
// octet of a record.
func (p *tap) clear(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	plain, _, _ := bytes.Cut(p.sent[n], []byte{22, 3, 1})
	return string(plain)
}

// attacked returns a client whose connections go through a tap to a server, and an Opening.
func attacked(t testing.TB, ca *authority, p *tap, security string) (*Client, mail.Opening) {
	t.Helper()
	c, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": {TLS: TLSConfig{CAFile: ca.file(t)}}}}, nil,
		store{1: fakeContent{data: "Subject: secret\r\n\r\nsecret\r\n"}}, p)
	if err != nil {
		t.Fatal(err)
	}
	return c, mail.Opening{Transport: "smtp", Nexthop: "example.test", Security: security, Level: mail.LevelOverlap,
		Host: mail.Host{Name: "mx.test", Addr: netip.MustParseAddrPort("192.0.2.1:25")}}
}

// deliver sends message 1, and returns its result.
func deliver(t testing.TB, c *Client, o mail.Opening) (result mail.Result, opened mail.OpenedConnection) {
	t.Helper()
	k, opened := c.Dial(t.Context(), o)
	if k == nil {
		return mail.Untried, opened
	}
	k.Send(1, message(1, "b@example.net"))
	k.Hangup()
	k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) { result = r.Outcomes[0].Result })
	return result, opened
}

func serverWith(cert tls.Certificate) *ability {
	return &ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true}}
}

// A connection that is cut after any octet of the handshake, or of the session after it, is never
// continued in plaintext where TLS is demanded; and where it is not, the message goes in plaintext
// over a new connection if the handshake failed, and never once TLS was there.
func TestCutAnywhere(t *testing.T) {
	ca := newAuthority(t)
	server := serverWith(ca.certificate(t, "mx.test", time.Hour))
	first := serverWith(ca.certificate(t, "mx.test", time.Hour))
	first.first = true
	for security, server := range map[string]*ability{"verify": server, "": server, "verify+implicit": first} {
		whole := &tap{serve: server.serve, cut: -1}
		c, o := attacked(t, ca, whole, security)
		if result, opened := deliver(t, c, o); result != mail.Delivered {
			t.Fatalf("uncut: %v %+v", result, opened)
		}
		whole.mu.Lock()
		end := whole.heard
		whole.mu.Unlock()
		if end < 1000 {
			t.Fatalf("the server sent %d octets", end)
		}
		step := 41
		if testing.Short() {
			step = 97
		}
		delivered := 0
		for cut := 0; cut < end; cut += step {
			p := &tap{serve: server.serve, cut: cut}
			c, o := attacked(t, ca, p, security)
			result, opened := deliver(t, c, o)
			for n := range p.sent {
				plain := p.clear(n)
				if security == "verify+implicit" && plain != "" {
					t.Errorf("cut after %d: in the clear, before TLS: %q", cut, plain)
				}
				if security != "" && plain != "" && plain != "EHLO me.test\r\n" && plain != "EHLO me.test\r\nSTARTTLS\r\n" {
					t.Errorf("%q, cut after %d: in the clear: %q", security, cut, plain)
				}
				if n == 0 && strings.Contains(plain, "MAIL") {
					t.Errorf("%q, cut after %d: the first connection went on in plaintext: %q", security, cut, plain)
				}
			}
			if len(p.sent) > 2 || security != "" && len(p.sent) > 1 {
				t.Errorf("%q, cut after %d: %d connections", security, cut, len(p.sent))
			}
			if result == mail.Failed || opened.Reply.Permanent() {
				t.Errorf("%q, cut after %d: mail would be returned: %v %+v", security, cut, result, opened)
			}
			if result == mail.Delivered {
				delivered++
			}
		}
		if security == "" && delivered == 0 {
			t.Error("a handshake that failed was never replaced by plaintext")
		}
	}
}

// Under TLS the end of a session is QUIT and close_notify, as RFC 5321 4.1.1.10 and RFC 8446 6.1
// demand: without them the server cannot know that the connection was not cut.
func TestGoodbyeUnderTLS(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, "mx.test", time.Hour)
	lines, end := make(chan string, 100), make(chan error, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		sock, err := l.Accept()
		if err != nil {
			end <- err
			return
		}
		defer sock.Close()
		in := bufio.NewReader(sock)
		io.WriteString(sock, "220 mx.test\r\n")
		in.ReadString('\n')
		io.WriteString(sock, "250-mx.test\r\n250 STARTTLS\r\n")
		in.ReadString('\n')
		io.WriteString(sock, "220 go\r\n")
		secure := tls.Server(sock, &tls.Config{Certificates: []tls.Certificate{cert}})
		in = bufio.NewReader(secure)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				end <- err
				return
			}
			lines <- line
			if strings.HasPrefix(line, "EHLO") {
				io.WriteString(secure, "250 mx.test\r\n")
			}
		}
	}()
	c, o := attacked(t, ca, &tap{}, "verify")
	c.dialer = netDialer{}
	o.Host.Addr = l.Addr().(*net.TCPAddr).AddrPort()
	k, opened := c.Dial(t.Context(), o)
	if k == nil {
		t.Fatal(opened.Reply)
	}
	k.Hangup()
	k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
	if err := <-end; err != io.EOF {
		t.Errorf("the connection ended with %v, want close_notify", err)
	}
	close(lines)
	var got []string
	for line := range lines {
		got = append(got, line)
	}
	if want := "EHLO me.test\r\nQUIT\r\n"; strings.Join(got, "") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A keyed connection is the server's end of one under TLS 1.3 on which any record can be sent.
type keyed struct {
	net.Conn
	secret []byte
	seq    uint64
	aead   cipher.AEAD
	iv     []byte
}

func expand(secret []byte, label string, n int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label...)
	out, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
	if err != nil {
		panic(err)
	}
	return out
}

// key puts a traffic secret into force (RFC 8446 7.3).
func (k *keyed) key(secret []byte) {
	block, err := aes.NewCipher(expand(secret, "key", 16))
	if err == nil {
		k.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic(err)
	}
	k.secret, k.seq, k.iv = secret, 0, expand(secret, "iv", 12)
}

// record sends one record of a type.
func (k *keyed) record(kind byte, content []byte) error {
	nonce := append([]byte(nil), k.iv...)
	for i := range 8 {
		nonce[4+i] ^= byte(k.seq >> (8 * (7 - i)))
	}
	k.seq++
	head := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(content)+1+k.aead.Overhead()))
	_, err := k.Write(k.aead.Seal(head, nonce, append(append([]byte(nil), content...), kind), head))
	return err
}

const (
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
)

// update sends KeyUpdate, with a request for one in return (RFC 8446 4.6.3).
func (k *keyed) update() error {
	if err := k.record(recordHandshake, []byte{24, 0, 0, 1, 1}); err != nil {
		return err
	}
	k.key(expand(k.secret, "traffic upd", 32))
	return nil
}

// keyLog finds the secret of what a server sends.
type keyLog struct{ secret []byte }

func (l *keyLog) Write(line []byte) (int, error) {
	if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "SERVER_TRAFFIC_SECRET_0" {
		l.secret, _ = hex.DecodeString(f[2])
	}
	return len(line), nil
}

// rogue serves one connection up to TLS 1.3, and then does what act says when the first line has
// come under TLS.
func rogue(cert tls.Certificate, act func(*keyed)) func(net.Conn) {
	return func(sock net.Conn) {
		defer sock.Close()
		sock.SetDeadline(time.Now().Add(20 * time.Second))
		in := bufio.NewReader(sock)
		io.WriteString(sock, "220 mx.test\r\n")
		in.ReadString('\n')
		io.WriteString(sock, "250-mx.test\r\n250 STARTTLS\r\n")
		in.ReadString('\n')
		io.WriteString(sock, "220 go\r\n")
		var keys keyLog
		secure := tls.Server(sock, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true, KeyLogWriter: &keys, MinVersion: tls.VersionTLS13})
		if _, err := bufio.NewReader(secure).ReadString('\n'); err != nil {
			return
		}
		k := &keyed{Conn: sock}
		k.key(keys.secret)
		go io.Copy(io.Discard, sock)
		act(k)
	}
}

// A lateConn does not return from the write of STARTTLS before a deadline is set after it: the reply
// has come by then.
type lateConn struct {
	net.Conn
	mu      sync.Mutex
	release chan struct{}
}

func (c *lateConn) Write(data []byte) (int, error) {
	if !bytes.Contains(data, []byte("STARTTLS")) {
		return c.Conn.Write(data)
	}
	release := make(chan struct{}) // before the write, since the reply may come before that returns
	c.mu.Lock()
	c.release = release
	c.mu.Unlock()
	n, err := c.Conn.Write(data)
	<-release
	return n, err
}

func (c *lateConn) SetDeadline(at time.Time) error { c.proceed(); return c.Conn.SetDeadline(at) }
func (c *lateConn) SetWriteDeadline(at time.Time) error {
	c.proceed()
	return c.Conn.SetWriteDeadline(at)
}

func (c *lateConn) proceed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.release != nil {
		close(c.release)
		c.release = nil
	}
}

type lateDialer struct{ *tap }

func (d lateDialer) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	c, err := d.tap.Dial(ctx, from, to)
	return &lateConn{Conn: c}, err
}

// The reply to STARTTLS may be there before the goroutine that writes it has said that it is written.
// If that was noticed after the handshake, STARTTLS was sent again under TLS, and its reply taken for
// that to EHLO.
func TestReplyBeforeWriteIsKnown(t *testing.T) {
	ca := newAuthority(t)
	p := &tap{serve: serverWith(ca.certificate(t, "mx.test", time.Hour)).serve, cut: -1}
	c, o := attacked(t, ca, p, "verify")
	c.dialer = lateDialer{p}
	if result, opened := deliver(t, c, o); result != mail.Delivered || opened.Level != mail.LevelOverlap {
		t.Errorf("%v %+v", result, opened)
	}
}

// Transports to the same relay do not resume each other's sessions: the relay would take our mail for
// that of the certificate that was shown when the session began. Nor are huge sessions kept.
func TestSessionsAreOfOneTransport(t *testing.T) {
	ca := newAuthority(t)
	names := make([]string, 400)
	for i := range names {
		names[i] = strings.Repeat("x", 50) + strconv.Itoa(i) + ".test"
	}
	for _, c := range []struct {
		name string
		cert tls.Certificate
		want []bool
	}{
		{"small", ca.certificate(t, "mx.test", time.Hour), []bool{false, false, true, true}},
		{"huge", ca.certificate(t, "mx.test", time.Hour, names...), []bool{false, false, false, false}},
	} {
		var got []bool
		a := &ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{c.cert},
			VerifyConnection: func(s tls.ConnectionState) error { got = append(got, s.DidResume); return nil }}}
		p := &tap{serve: a.serve, cut: -1}
		one := TransportConfig{TLS: TLSConfig{CAFile: ca.file(t)}}
		client, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": one, "relay": one}}, nil, store{1: fakeContent{data: "x"}}, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, transport := range []string{"smtp", "relay", "smtp", "relay"} {
			o := mail.Opening{Transport: transport, Nexthop: "example.test", Security: "verify", Host: mail.Host{Name: "mx.test", Addr: netip.MustParseAddrPort("192.0.2.1:25")}}
			if result, opened := deliver(t, client, o); result != mail.Delivered || opened.Security.Trust != mail.TrustVerified {
				t.Fatalf("%s: %v %+v", c.name, result, opened)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: resumed %v, want %v", c.name, got, c.want)
		}
	}
}

// What TLS answers is kept until it can be written, and is bounded: a server that asks for new keys
// all the time, and reads nothing, ends the connection.
func TestRecordsKeptAreBounded(t *testing.T) {
	w := &wire{}
	kept := 0
	for range 1 << 20 {
		if _, err := w.Write(make([]byte, 27)); err != nil {
			break
		}
		kept += 27
	}
	if kept < pieceSize+pieceSize/10 || kept > 16*pieceSize || len(w.out) != kept {
		t.Errorf("%d octets are kept, %d were accepted", len(w.out), kept)
	}
}

// What a server may send under TLS without an end, and without a reply in it, is no way to occupy
// a processor or memory: the connection is given up after some of it. Records of one octet are
// slow, and correct.
func TestFloodsUnderTLS(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, "mx.test", time.Hour)
	const many = 200_000
	ticket := append([]byte{4, 0, 4, 13, 0, 0, 0, 60, 0, 0, 0, 0, 0, 4, 0}, make([]byte, 1024+2)...)
	for _, c := range []struct {
		name string
		most int // of records that a flood may need
		act  func(*keyed) (records int)
	}{
		{"key updates", 100, func(k *keyed) int {
			for n := range many {
				if k.update() != nil {
					return n
				}
			}
			return many
		}},
		{"tickets", 100, func(k *keyed) int {
			for n := range many {
				if k.record(recordHandshake, ticket) != nil {
					return n
				}
			}
			return many
		}},
		{"empty records", 100, func(k *keyed) int {
			for n := range many {
				if k.record(recordData, nil) != nil {
					return n
				}
			}
			return many
		}},
		{"warnings", 100, func(k *keyed) int {
			for n := range many {
				if k.record(recordAlert, []byte{1, 90}) != nil {
					return n
				}
			}
			return many
		}},
		{"an endless reply, octet by octet", 100_000, func(k *keyed) int {
			k.record(recordData, []byte("250-"))
			for n := range many {
				if k.record(recordData, []byte("x")) != nil {
					return n
				}
			}
			return many
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			records := make(chan int, 1)
			p := &tap{cut: -1, serve: rogue(cert, func(k *keyed) { records <- c.act(k) })}
			client, o := attacked(t, ca, p, "verify")
			if k, opened := client.Dial(t.Context(), o); k != nil || !opened.Reply.Temporary() {
				t.Errorf("%v %+v", k, opened)
			}
			if n := <-records; n < 10 || n > c.most {
				t.Errorf("the server sent %d records", n)
			}
		})
	}
}

// A server that breaks TLS once it is there ends the connection. Nothing goes on in plaintext, on this
// connection or another, even where plaintext is permitted: TLS was established, so an attacker
// between the two may have broken it.
func TestBrokenUnderTLS(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, "mx.test", time.Hour)
	hello := []byte("250-mx.test\r\n250 PIPELINING\r\n")
	for name, act := range map[string]func(*keyed){
		"plaintext":              func(k *keyed) { k.Write(hello) },
		"the end, and plaintext": func(k *keyed) { k.record(recordAlert, []byte{1, 0}); k.Write(hello) },
		"a fatal alert":          func(k *keyed) { k.record(recordAlert, []byte{2, 40}) },
		"a forged record":        func(k *keyed) { k.seq++; k.record(recordData, hello) },
		"a record of the past":   func(k *keyed) { k.record(recordData, hello[:13]); k.seq--; k.record(recordData, hello[13:]) },
		"a huge record":          func(k *keyed) { k.Write(append([]byte{23, 3, 3, 0xff, 0xff}, make([]byte, 100)...)) },
		"half a record":          func(k *keyed) { k.Write([]byte{23, 3, 3, 0, 100, 1, 2, 3}) },
		"half a reply":           func(k *keyed) { k.record(recordData, hello[:20]) },
		"a new hello":            func(k *keyed) { k.record(recordHandshake, []byte{0, 0, 0, 0}) },
		"a question for a certificate": func(k *keyed) {
			k.record(recordHandshake, []byte{13, 0, 0, 11, 0, 0, 8, 0, 13, 0, 4, 0, 2, 8, 4})
		},
		"an unknown message":       func(k *keyed) { k.record(recordHandshake, []byte{99, 0, 0, 0}) },
		"a message that is no end": func(k *keyed) { k.record(recordHandshake, []byte{4, 0xff, 0xff, 0xff}) },
		"a key that is not new":    func(k *keyed) { k.record(recordHandshake, []byte{24, 0, 0, 1, 0}); k.record(recordData, hello) },
	} {
		for _, security := range []string{"verify", ""} {
			p := &tap{cut: -1, serve: rogue(cert, act)}
			c, o := attacked(t, ca, p, security)
			k, opened := c.Dial(t.Context(), o)
			if k != nil || !opened.Reply.Temporary() {
				t.Errorf("%s, %q: %v %+v", name, security, k, opened)
			}
			p.mu.Lock()
			if len(p.sent) != 1 {
				t.Errorf("%s, %q: %d connections", name, security, len(p.sent))
			}
			for _, said := range []string{"MAIL", "RSET", "QUIT", "HELO"} {
				if bytes.Contains(p.sent[0], []byte(said)) {
					t.Errorf("%s, %q: %s in the clear", name, security, said)
				}
			}
			p.mu.Unlock()
		}
	}
}

// Replies to commands that were not sent yet, in plaintext before TLS, are not taken for replies under
// TLS, wherever they come.
func TestRepliesInjectedBeforeTLS(t *testing.T) {
	ca := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "mx.test", time.Hour)}}
	const injected = "250-evil.test\r\n250 PIPELINING\r\n"
	for name, say := range map[string][3]string{ // the greeting, and the replies to EHLO and STARTTLS
		"with the greeting":          {"220 mx.test\r\n250-mx.test\r\n250 STARTTLS\r\n", "", "220 go\r\n"},
		"with EHLO":                  {"220 mx.test\r\n", "250-mx.test\r\n250 STARTTLS\r\n220 go\r\n", ""},
		"with EHLO, and more":        {"220 mx.test\r\n", "250-mx.test\r\n250 STARTTLS\r\n220 go\r\n" + injected, ""},
		"with STARTTLS":              {"220 mx.test\r\n", "250-mx.test\r\n250 STARTTLS\r\n", "220 go\r\n" + injected},
		"part of one with STARTTLS":  {"220 mx.test\r\n", "250-mx.test\r\n250 STARTTLS\r\n", "220 go\r\n2"},
		"STARTTLS in several pieces": {"220 mx.test\r\n", "250-mx.test\r\n250 STARTTLS\r\n", "220-go\r\n220 on\r\n" + injected},
	} {
		p := &tap{cut: -1, serve: func(sock net.Conn) {
			defer sock.Close()
			in := bufio.NewReader(sock)
			for i, text := range say {
				if i > 0 {
					in.ReadString('\n')
				}
				io.WriteString(sock, text)
			}
			secure := tls.Server(sock, config)
			secure.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := bufio.NewReader(secure).ReadString('\n'); err == nil {
				io.WriteString(secure, "250 mx.test\r\n")
				io.Copy(io.Discard, secure)
			}
		}}
		c, o := attacked(t, ca, p, "verify")
		k, opened := c.Dial(t.Context(), o)
		if k != nil || !opened.Reply.Temporary() {
			t.Errorf("%s: %+v", name, opened)
		}
		if plain := p.clear(0); strings.Contains(plain, "MAIL") || strings.Contains(plain, "HELO") {
			t.Errorf("%s: %q", name, plain)
		}
	}
}

// A host that the domain's policy does not name is not even connected to, however mail has come to it:
// by the domain instead of the site, as a fallback relay, or by an answer of the DNS that has changed
// since.
func TestHostThatNoPolicyNames(t *testing.T) {
	ca := newAuthority(t)
	server := serverWith(ca.certificate(t, "mx.test", time.Hour))
	for security, want := range map[string]bool{"sts=mx.test": true, "sts=*.test": true, "sts=mx.other.test": false, "sts=*.mx.test": false} {
		p := &tap{cut: -1, serve: server.serve}
		c, o := attacked(t, ca, p, security)
		result, opened := deliver(t, c, o)
		if (result == mail.Delivered) != want || opened.Insecure == want || !want && len(p.sent) > 0 {
			t.Errorf("%s: %v %+v, %d connections", security, result, opened, len(p.sent))
		}
	}
}

// Very many certificates cost a bounded time, and more than TLS permits end the handshake. Those of
// others that have the name of the authority do not hide it.
func TestManyCertificates(t *testing.T) {
	ca := newAuthority(t)
	leaf := ca.certificate(t, "mx.test", time.Hour)
	for count, want := range map[int]bool{90: true, 1500: false} {
		other := newAuthority(t) // with the same name
		chain := tls.Certificate{Certificate: slices.Clone(leaf.Certificate), PrivateKey: leaf.PrivateKey}
		for range count {
			chain.Certificate = append(chain.Certificate, other.cert.Raw)
		}
		p := &tap{cut: -1, serve: serverWith(chain).serve}
		c, o := attacked(t, ca, p, "verify")
		result, opened := deliver(t, c, o)
		if (result == mail.Delivered) != want || opened.Insecure == want {
			t.Errorf("%d certificates: %v %+v", count, result, opened)
		}
	}
}

// hugeKey has a public RSA key of 65,536 bits, and signs with anything.
type hugeKey struct{ public *rsa.PublicKey }

func (k hugeKey) Public() crypto.PublicKey { return k.public }
func (k hugeKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return make([]byte, k.public.Size()), nil
}

// B-136: a certificate with a key that would take seconds to compute with ends the handshake before
// anything is computed, and what follows is as with any other failure.
func TestHugeKey(t *testing.T) {
	ca := newAuthority(t)
	n := new(big.Int).Lsh(big.NewInt(1), 65_535)
	key := hugeKey{&rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}}
	template := &x509.Certificate{SerialNumber: big.NewInt(9), DNSNames: []string{"mx.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.public, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	for security, want := range map[string]string{"": "plaintext", "encrypt": "refused", "verify": "refused"} {
		p := &tap{cut: -1, serve: serverWith(tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}).serve}
		c, o := attacked(t, ca, p, security)
		got, opened := become(t, c, o)
		if got != want || want == "refused" && !strings.Contains(opened.Reply.Text, "RSA key larger than 8192 bits") {
			t.Errorf("%q: %s, want %s (%v)", security, got, want, opened.Reply)
		}
	}
}

// A dripConn writes an octet in a second once it is slow.
type dripConn struct {
	net.Conn
	slow bool
}

func (c *dripConn) Write(data []byte) (int, error) {
	if !c.slow {
		return c.Conn.Write(data)
	}
	for i := range data {
		time.Sleep(time.Second)
		if _, err := c.Conn.Write(data[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(data), nil
}

// Octets that come one by one extend no deadline: neither that of the handshake, nor under TLS that of
// a reply.
func TestDripsUnderTLS(t *testing.T) {
	for _, c := range []struct {
		name      string
		handshake bool // drips from there on, or from the first reply under TLS
		limit     func(*TransportConfig) time.Duration
	}{
		{"handshake", true, func(c *TransportConfig) time.Duration { return c.TLS.HandshakeTimeout }},
		{"reply", false, func(c *TransportConfig) time.Duration { return c.wait(client.WaitHello) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca := newAuthority(t)
				config := &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "mx.test", time.Hour)}}
				p := &tap{cut: -1, serve: func(sock net.Conn) {
					defer sock.Close()
					in := bufio.NewReader(sock)
					io.WriteString(sock, "220 mx.test\r\n")
					in.ReadString('\n')
					io.WriteString(sock, "250-mx.test\r\n250 STARTTLS\r\n")
					in.ReadString('\n')
					io.WriteString(sock, "220 go\r\n")
					slow := &dripConn{sock, c.handshake}
					secure := tls.Server(slow, config)
					if _, err := bufio.NewReader(secure).ReadString('\n'); err != nil {
						return
					}
					go io.Copy(io.Discard, sock)
					slow.slow = true
					for { // not at once: Write would wait for what the client does not read
						if _, err := io.WriteString(secure, "250-"+strings.Repeat("x", 20)+"\r\n"); err != nil {
							return
						}
					}
				}}
				client, o := attacked(t, ca, p, "verify")
				began := time.Now()
				k, opened := client.Dial(t.Context(), o)
				limit := c.limit(client.transports["smtp"])
				if took := time.Since(began); k != nil || !opened.Reply.Temporary() || opened.Insecure != c.handshake || took < limit || took > limit+5*time.Second {
					t.Errorf("%v %+v after %v, want %v", k, opened, took, limit)
				}
				time.Sleep(time.Minute) // the server ends
			})
		})
	}
}

// That no handshake succeeded with a host lately is a reason for plaintext only where plaintext will do.
// It is remembered for an hour, of a bounded number of hosts.
func TestBrokenHostIsNoExcuse(t *testing.T) {
	p := &tap{cut: -1, serve: (&ability{offers: true, reply: "220 go ahead"}).serve}
	c, o := attacked(t, newAuthority(t), p, "")
	if result, opened := deliver(t, c, o); result != mail.Delivered || !opened.Security.IsZero() {
		t.Fatalf("%v %+v", result, opened)
	}
	for _, security := range []string{"encrypt", "verify", "sts=mx.test", "secure=mx.test", "+requiretls"} {
		o.Security = security
		if result, opened := deliver(t, c, o); result == mail.Delivered || !opened.Insecure {
			t.Errorf("%q: %v %+v", security, result, opened)
		}
	}
	var b brokenHosts
	now := time.Now()
	host := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 25)
	}
	for i := range brokenMax + 10 {
		b.add(host(i), now)
	}
	if len(b.until) != brokenMax || !b.remembers(host(brokenMax+9), now.Add(brokenTTL-1)) || b.remembers(host(brokenMax+9), now.Add(brokenTTL)) {
		t.Errorf("%d hosts are remembered", len(b.until))
	}
}

// What the handshake asks for, and by which names DANE-TA judges: those of the TLSA base domain, the
// host and the domain (RFC 7672 3.2.2 and 8.1). TLS before 1.2 is only better than plaintext.
func TestWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		name       string
		p          protection
		server     string
		references string
		version    uint16
	}{
		{"alias", protection{Requirement: tlspolicy.Requirement{Use: tlspolicy.UseAlways, Check: tlspolicy.CheckTLSA}, host: "mx.test", nexthop: "a.test", tlsa: dane.Answer{Base: "base.test"}, domains: []string{"a.test", "real.test"}},
			"base.test", "base.test mx.test a.test real.test", tls.VersionTLS12},
		{"site", protection{Requirement: tlspolicy.Requirement{Use: tlspolicy.UseAlways, Check: tlspolicy.CheckTLSA}, host: "mx.test", nexthop: "{mx.test}", tlsa: dane.Answer{Base: "mx.test"}},
			"mx.test", "mx.test mx.test", tls.VersionTLS12},
		{"host", protection{Requirement: tlspolicy.Requirement{Use: tlspolicy.UseAlways, Check: tlspolicy.CheckName}, host: "mx.test.", nexthop: "[mx.test]"}, "mx.test", " mx.test.", tls.VersionTLS12},
		{"may", protection{Requirement: tlspolicy.Requirement{Use: tlspolicy.UseIfOffered}, host: "mx.test", nexthop: "[mx.test]"}, "mx.test", " mx.test", tls.VersionTLS10},
	} {
		config := c.p.config(nil)
		if config.ServerName != c.server || config.MinVersion != c.version || config.VerifyConnection == nil {
			t.Errorf("%s: %q, version %x", c.name, config.ServerName, config.MinVersion)
		}
		if got := strings.Join(c.p.references(), " "); got != c.references {
			t.Errorf("%s: references %q", c.name, got)
		}
	}
}

// A fingerprint is that of the certificate or of its key, of the server's own and no other.
func TestDigests(t *testing.T) {
	ca := newAuthority(t)
	leaf, other := ca.certificate(t, "mx.test", time.Hour).Leaf, ca.certificate(t, "mx.test", time.Hour).Leaf
	for want, octets := range map[bool][][]byte{true: {leaf.Raw, leaf.RawSubjectPublicKeyInfo}, false: {other.Raw, ca.cert.Raw, leaf.RawSubject}} {
		for _, o := range octets {
			digest := sha256.Sum256(o)
			p := protection{Requirement: tlspolicy.Requirement{Check: tlspolicy.CheckFingerprint, Names: []string{hex.EncodeToString(digest[:])}}}
			if trust, err := p.judge([]*x509.Certificate{leaf, ca.cert}); (err == nil) != want || (trust == mail.TrustVerified) != want {
				t.Errorf("%x: %v %v, want %v", digest, trust, err, want)
			}
		}
	}
}
