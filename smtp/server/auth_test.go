package server

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/smtp"
)

// authenticate knows alice, whose password is sesame, and bob, who sends three messages
// whatever they are.
func (h *host) authenticate(r *Authenticate) {
	if r.Begins {
		h.login = 0
	}
	h.login++
	refusal, refused := h.refusals["auth"]
	text := string(r.Response)
	switch {
	case refused:
		h.session.Answer(refusal)
	case r.Mechanism == smtp.MechPlain && r.Response == nil:
		h.session.Challenge(nil)
	case r.Mechanism == smtp.MechPlain && text == "\x00alice\x00sesame",
		r.Mechanism == smtp.MechLogin && h.login == 3 && text == "sesame":
		h.session.Authenticated("alice")
	case r.Mechanism == smtp.MechLogin && h.login < 3:
		h.session.Challenge([]byte([...]string{"Username:", "Password:"}[h.login-1]))
	case r.Mechanism == smtp.MechScram|smtp.MechScramPlus&r.Mechanism && h.login < 3:
		h.session.Challenge([]byte(strings.Repeat("s", h.login)))
	case r.Mechanism&(smtp.MechScram|smtp.MechScramPlus) != 0 && text == "":
		h.session.Authenticated("bob")
	case r.Mechanism&(smtp.MechScram|smtp.MechScramPlus) != 0 && text == "again":
		h.session.Challenge([]byte("again"))
	default:
		h.session.Answer(reply(535, 7, 8, "Error: authentication failed"))
	}
}

// What a client sends as a password is nowhere in the log, and not heard by a witness, wherever the exchange ends, and
// is gone from the input, which is used for other connections afterwards.
func TestSecretsAreNotLogged(t *testing.T) {
	secret := "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
	for _, input := range []string{
		"AUTH PLAIN " + secret + "\r\n", "auth plain " + secret + "\r\n", " AUTH PLAIN " + secret + "\r\n", "AUTHPLAIN " + secret + "\r\n", "AUTH " + secret + "\r\n",
		"AUTH PLAIN " + secret + "\n", "AUTH PLAIN " + secret + "\r\r\n", "AUTH PLAIN =" + secret + "\r\n", "AUTH LOGIN\r\n" + secret + "\r\n" + secret + "\r\n",
		"AUTH LOGIN\r\n" + secret + "\n", "AUTH CRAM-MD5\r\n" + secret + "\r\n", "AUTH PLAIN " + strings.Repeat(secret, 200) + "\r\n",
		"AUTH PLAIN\r\n" + strings.Repeat(secret, 500) + "\r\n", "AUTH PLAIN\r\n*\r\n" + secret + "\r\n", "MAIL FROM:<a@a.example>\r\nAUTH LOGIN\r\n" + secret + "\r\n",
	} {
		for _, tls := range []TLS{TLSNone, TLSOffered, TLSRequired} {
			for _, encrypted := range []bool{false, true} {
				for _, strict := range []bool{false, true} {
					for _, mechanisms := range []smtp.Mechanisms{0, smtp.MechScram, smtp.AllMechanisms} {
						cfg, peer := testConfig(), loopbackPeer()
						peer.TLS, peer.Mechanisms, peer.RejectEarly = tls, mechanisms, strict
						h := &host{session: New(&cfg, peer)}
						if encrypted {
							h.session.Encrypted(testSecurity)
						}
						h.feed([]byte("EHLO x\r\n"))
						w := new(transcriber)
						w.shown = len(h.out)
						h.session.SetWitness(w)
						h.feed([]byte(input))
						if said := strings.Join(h.events, "\n") + string(h.replies) + strings.Join(w.lines, "\n"); strings.Contains(said, secret[:8]) || strings.Contains(said, "secret-") {
							t.Fatalf("after %.60q, TLS %d %t, mechanisms %s: %s", input, tls, encrypted, mechanisms, said)
						}
					}
				}
			}
		}
	}
}

// The octets of a line with a password are overwritten.
func TestSecretsAreOverwritten(t *testing.T) {
	cfg, peer := testConfig(), loopbackPeer()
	peer.Mechanisms = smtp.AllMechanisms
	s := New(&cfg, peer)
	s.Encrypted(testSecurity)
	in := []byte("EHLO x\r\nAUTH PLAIN AGFsaWNlAHNlc2FtZQ==\r\n")
	var r *Authenticate
	for rest := in; r == nil; {
		n, _, request := s.Step(rest, nil)
		rest = rest[n:]
		r, _ = request.(*Authenticate)
	}
	if bytes.Contains(in, []byte("AGFs")) || string(r.Response) != "\x00alice\x00sesame" {
		t.Errorf("the input is %q, the response %q", in, r.Response)
	}
	response := r.Response
	s.Answer(reply(535, 7, 8, "no"))
	s.Step(nil, nil)
	if bytes.Contains(response, []byte("sesame")) {
		t.Errorf("the response is %q", response)
	}
	line := []byte("AUTH PLAIN\r\nAGFsaWNlAHNlc2FtZQ==\r\n")
	n, _, request := s.Step(line, nil)
	for !isRead(request) || n < len(line) {
		switch request.(type) {
		case *Authenticate:
			if n > len("AUTH PLAIN\r\n") {
				s.Answer(reply(535, 7, 8, "no"))
			} else {
				s.Challenge(nil)
			}
		}
		var more int
		more, _, request = s.Step(line[n:], nil)
		n += more
	}
	if bytes.Contains(line, []byte("AGFs")) {
		t.Errorf("the line is %q", line)
	}
}

func isRead(r Request) bool { _, ok := r.(*Read); return ok }

// RFC 4954 4.3: a line of an exchange may have 12288 octets, and no more.
func TestExchangeLines(t *testing.T) {
	for _, c := range []struct {
		octets int
		want   string
	}{{12286, "535 5.7.8 "}, {12290, "500 5.5.6 "}, {50000, "500 5.5.6 "}} {
		cfg, peer := testConfig(), loopbackPeer()
		peer.Mechanisms = smtp.MechPlain
		h := &host{session: New(&cfg, peer)}
		h.session.Encrypted(testSecurity)
		h.feed([]byte("EHLO x\r\n"))
		h.feed([]byte("AUTH PLAIN\r\n"))
		h.transcript()
		text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), (c.octets-2)/4*3))
		for _, piece := range []string{text[:7], text[7:], "\r", "\n"} {
			h.feed([]byte(piece))
		}
		h.feed([]byte("NOOP\r\n"))
		if got := h.transcript(); len(got) != 2 || !strings.HasPrefix(got[0], "S: "+c.want) || got[1] != "S: 250 2.0.0 Ok" {
			t.Errorf("%d octets: %q", len(text)+2, got)
		}
	}
}

// Whatever a client sends, it is not authenticated without the password, and nothing that it sent
// before TLS authenticates it afterwards. Interrupt leaves nothing open.
func FuzzAuth(f *testing.F) {
	f.Add([]byte("EHLO x\r\nAUTH LOGIN\r\neA==\r\neA==\r\nMAIL FROM:<a@a.example>\r\n"), true, uint8(20))
	f.Add([]byte("EHLO x\r\nAUTH PLAIN =\r\n*\r\nAUTH PLAIN AHgAeA==\r\n"), false, uint8(3))
	f.Add([]byte("AUTH PLAIN\r\n=\r\nEHLO x\r\nAUTH LOGIN YQ==\r\n\r\n"), true, uint8(9))
	f.Fuzz(func(t *testing.T, input []byte, encrypted bool, cut uint8) {
		cfg, peer := testConfig(), loopbackPeer()
		peer.Mechanisms = smtp.Revealing
		h := &host{session: New(&cfg, peer)}
		if encrypted {
			h.session.Encrypted(testSecurity)
		}
		at := min(int(cut), len(input))
		h.feed(input[:at])
		h.feed(input[at:])
		knows := bytes.Contains(input, []byte("AGFsaWNlAHNlc2FtZQ==")) || bytes.Contains(input, []byte("c2VzYW1l"))
		if h.session.user != "" && !(encrypted && knows) {
			t.Fatalf("the client is %s", h.session.user)
		}
		h.session.Interrupt(reply(0, 0, 0, ""))
		h.feed(nil)
		checkHost(t, h)
		if !h.closed {
			t.Fatal("the session goes on")
		}
	})
}
