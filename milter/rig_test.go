package milter

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A journal is what a session has noted.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(_ slog.Level, event, milter, reason string, attributes ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprint(append([]any{event, ": ", milter, ": ", reason, " "}, attributes...)...))
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// host is the program around sessions in tests.
func host(t testing.TB, j *journal) *Host {
	return &Host{Hostname: "mta.test", Version: "Posthaste test", Scratch: t.TempDir(), Note: j.note}
}

var someFacts = Facts{Client: netip.MustParseAddrPort("192.0.2.7:4711"), Server: netip.MustParseAddrPort("192.0.2.1:25"), Listener: "mx", Helo: "client.test",
	TLSVersion: "TLSv1.3", Cipher: "TLS_AES_128_GCM_SHA256", User: "joe", Mechanism: "PLAIN", ID: 4711}

const letter = "From: <a@x.test>\r\nSubject:  two spaces\r\nReceived: from elsewhere\r\n\tfolded\r\n\r\nHello.\r\n"

// message makes a message of a content.
func message(t testing.TB, h *Host, content string) *Message {
	t.Helper()
	m := NewMessage(h, 1<<20)
	t.Cleanup(m.Close)
	m.Trace([]byte("Received: by mta.test\r\n"))
	if _, err := io.WriteString(m, content); err != nil {
		t.Fatal(err)
	}
	return m
}

func contentOf(t testing.TB, m *Message) string {
	t.Helper()
	var b strings.Builder
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A script is what a fake milter answers to each command: raw packets, by the command's code.
// Commands that it does not have are answered with continue; "" closes the connection, and
// "silent" does not answer.
type script map[byte]string

const silent = "silent"

// pack makes a packet.
func pack(code byte, data string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)+1))
	return string(append(b, code)) + data
}

// negotiated is the part of a milter in the negotiation.
func negotiated(version, may, steps uint32) string {
	b := binary.BigEndian.AppendUint32(nil, version)
	b = binary.BigEndian.AppendUint32(b, may)
	return pack('O', string(binary.BigEndian.AppendUint32(b, steps)))
}

// A fake is a milter that follows a script, and notes the commands that it gets.
type fake struct {
	script script
	mu     sync.Mutex
	got    []string
}

func (f *fake) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, text)
}

// follow has the milter follow another script from now on.
func (f *fake) follow(s script) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = s
}

// answer returns what the script says of a command.
func (f *fake) answer(code byte) (text string, has bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, has = f.script[code]
	return text, has
}

func (f *fake) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.got, " ")
}

// start has the milter listen, and returns its address.
func (f *fake) start(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { ln.Close() })
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.serve(conn) })
		}
	})
	return ln.Addr().String()
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	for {
		code, size, err := readHead(conn)
		if err != nil {
			return
		}
		data, err := readRest(conn, code, size)
		if err != nil {
			return
		}
		if code == cmdMacro || code == cmdAbort {
			f.note(string(code))
			continue
		}
		if code == cmdQuit {
			f.note(string(code))
			return
		}
		f.note(fmt.Sprintf("%c:%d", code, len(data)))
		answer, has := f.answer(code)
		switch {
		case has && answer == "":
			return
		case answer == silent:
		case has:
			io.WriteString(conn, answer) // if it fails, so does the read
		case code == cmdNegotiate:
			io.WriteString(conn, negotiated(6, mayAll, 0))
		default:
			io.WriteString(conn, pack('c', ""))
		}
	}
}

// chain makes a chain of milters at addresses.
func chain(t testing.TB, h *Host, onFailure Failure, addresses ...string) *Chain {
	t.Helper()
	c := &Chain{Host: h}
	for i, a := range addresses {
		m, err := New(Config{Name: fmt.Sprintf("m%d", i+1), Network: "tcp", Address: a, OnFailure: onFailure})
		if err != nil {
			t.Fatal(err)
		}
		c.Milters = append(c.Milters, m)
	}
	return c
}

// An outcome is what became of a message.
type outcome struct {
	reply   int // 250 if it was accepted
	discard bool
	changes Changes
	content string
	reason  string // text of the reply
}

// submit has a session look at a message with one recipient.
func submit(t testing.TB, s *Session, content string) outcome {
	t.Helper()
	return submitWithin(t, context.Background(), s, content)
}

func submitWithin(t testing.TB, ctx context.Context, s *Session, content string) outcome {
	t.Helper()
	of := func(v Verdict) outcome {
		return outcome{reply: int(v.Reply.Code), discard: v.Discard, reason: v.Reply.Text}
	}
	if v := s.Mail(ctx, &someFacts, "a@x.test", []string{"SIZE=100"}); v != (Verdict{}) {
		return of(v)
	}
	if v := s.Recipient(ctx, &mail.Recipient{Address: "b@y.test", Notify: mail.NotifyNever}); v != (Verdict{}) {
		s.Abort()
		return of(v)
	}
	m := message(t, s.host, content)
	changes, v, err := s.Message(ctx, m, true)
	if err != nil {
		t.Fatal(err)
	}
	if v != (Verdict{}) {
		return of(v)
	}
	return outcome{reply: 250, changes: changes, content: contentOf(t, m)}
}

// patience bounds waits in tests; only one that fails comes near it.
const patience = time.Minute

// await waits for a state of another goroutine.
func await(t testing.TB, what string, reached func() bool) {
	t.Helper()
	end := time.After(patience)
	for !reached() {
		select {
		case <-time.After(time.Millisecond):
		case <-end:
			t.Fatalf("not reached within %v: %s", patience, what)
		}
	}
}
