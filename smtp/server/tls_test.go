package server

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// B-110, S-72: an attacker between the client and us adds commands behind STARTTLS. However
// the network cuts them, they are not executed, neither now nor after the handshake, and
// there is no handshake that would make them look protected.
func TestCommandInjection(t *testing.T) {
	before, injected := "EHLO x\r\nSTARTTLS\r\n", "EHLO evil\r\nMAIL FROM:<evil@evil.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\nx\r\n.\r\n"
	whole := before + injected
	for _, strict := range []bool{true, false} {
		for cut := range len(whole) + 1 {
			peer := loopbackPeer()
			peer.TLS, peer.RejectEarly = TLSOffered, strict
			h := newHost(testConfig(), peer)
			h.feed([]byte("EHLO x\r\n")) // strictly no input may follow it
			h.replies = nil
			rest := strings.TrimPrefix(whole, "EHLO x\r\n")
			first := max(cut-len("EHLO x\r\n"), 0)
			h.feed([]byte(rest[:first]))
			if first == len("STARTTLS\r\n") { // what comes now is no TLS record, and the host does not pass it on
				if !slices.Contains(h.events, "handshake") || h.session.hello.name != "" {
					t.Fatalf("no handshake: %q", h.replies)
				}
				continue
			}
			h.feed([]byte(rest[first:]))
			if slices.Contains(h.events, "handshake") || len(h.messages) > 0 || h.drafts > 0 || h.session.security.Encrypted() {
				t.Fatalf("cut at %d: %q, %q", cut, h.events, h.replies)
			}
			if !h.closed || h.reason != ReasonEarly || !bytes.HasSuffix(h.replies, []byte("501 5.5.0 Error: there is input after STARTTLS; closing connection\r\n")) {
				t.Fatalf("cut at %d: closed %t (%s), %q", cut, h.closed, h.reason, h.replies)
			}
		}
	}
}

// Input that the host has when a handshake is due is its to forget: the session does not
// ask for more, and does not touch it.
func TestHandshakeTakesNoInput(t *testing.T) {
	cfg, peer := testConfig(), loopbackPeer()
	peer.TLS = TLSOffered
	s := New(&cfg, peer)
	s.Step(nil, nil)
	n, _, request := s.Step([]byte("STARTTLS\r\n"), nil)
	if _, ok := request.(*StartTLS); !ok || n != 10 {
		t.Fatalf("%T after %d octets", request, n)
	}
	s.Answer(reply(0, 0, 0, ""))
	n, out, request := s.Step([]byte("MAIL FROM:<evil@evil.example>\r\n"), nil)
	if _, ok := request.(*Handshake); !ok || n != 0 || string(out) != "220 2.0.0 Ready to start TLS\r\n" {
		t.Fatalf("%T after %d octets: %q", request, n, out)
	}
}

// Port 465: there is TLS from the first octet, and STARTTLS is neither offered nor obeyed.
func TestImplicitTLS(t *testing.T) {
	cfg := testConfig()
	h := &host{session: New(&cfg, loopbackPeer())}
	h.session.Encrypted(testSecurity)
	h.feed([]byte("EHLO x\r\nSTARTTLS\r\n"))
	if got := string(h.replies); strings.Contains(got, "250-STARTTLS") || !strings.HasSuffix(got, "\r\n503 5.5.1 Error: TLS is active already\r\n") {
		t.Errorf("%q", got)
	}
}

// Interrupt ends a session that waits for nothing but the client, and NotEncrypted one that
// waits for the handshake, with a draft in neither case.
func TestInterruptAfterHandshake(t *testing.T) {
	peer := loopbackPeer()
	peer.TLS = TLSOffered
	h := newHost(testConfig(), peer)
	h.feed([]byte("EHLO x\r\n"))
	h.feed([]byte("MAIL FROM:<a@a.example>\r\n"))
	h.feed([]byte("STARTTLS\r\n"))
	h.replies = nil
	h.session.Interrupt(reply(421, 3, 2, "mx.example bye"))
	h.feed(nil)
	if !h.closed || h.draft != nil || string(h.replies) != "421 4.3.2 mx.example bye\r\n" {
		t.Errorf("closed %t, draft %v, %q", h.closed, h.draft, h.replies)
	}
}

// FuzzTLS lets a client, or an attacker between it and us, say anything before the handshake:
// a message begun in plaintext never ends as one that says it was protected, and input
// that came before a handshake does not last beyond it.
func FuzzTLS(f *testing.F) {
	f.Add([]byte("EHLO x\r\nSTARTTLS\r\n"), []byte("EHLO x\r\nMAIL FROM:<a@a.example>\r\n"), uint8(18))
	f.Add([]byte("EHLO x\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nBDAT 3\r\nabcSTARTTLS\r\n"), []byte("BDAT 0 LAST\r\n"), uint8(1))
	f.Add([]byte("STARTTLS\r\nMAIL FROM:<a@a.example>\r\n"), []byte("QUIT\r\n"), uint8(12))
	f.Fuzz(func(t *testing.T, plain, protected []byte, cut uint8) {
		peer := loopbackPeer()
		peer.TLS = TLSOffered
		h := newHost(testConfig(), peer)
		at := min(int(cut), len(plain))
		h.feed(plain[:at])
		h.feed(plain[at:])
		shaken := slices.Contains(h.events, "handshake")
		if !shaken {
			if h.session.security.Encrypted() {
				t.Fatal("encrypted without a handshake")
			}
			return
		}
		h.feed(protected)
		h.session.Interrupt(reply(0, 0, 0, ""))
		h.feed(nil)
		checkHost(t, h)
		begun := slices.Index(h.events, "handshake")
		for i, e := range h.events {
			if strings.HasPrefix(e, "commit") && strings.HasSuffix(e, "S") != (i > begun) {
				t.Fatalf("%q", h.events)
			}
		}
	})
}
