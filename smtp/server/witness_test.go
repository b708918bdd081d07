package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/smtp"
)

// A transcriber is a witness that writes everything down, with the replies in the order in which they were given.
type transcriber struct {
	lines []string
	shown int
}

func (w *transcriber) replies(out []byte) {
	if w.shown > len(out) { // those were written in the meantime
		w.shown = 0
	}
	for line := range strings.Lines(string(out[w.shown:])) {
		w.lines = append(w.lines, "> "+strings.TrimRight(line, "\r\n"))
	}
	w.shown = len(out)
}

func (w *transcriber) Command(replies []byte, line string) {
	w.replies(replies)
	w.lines = append(w.lines, "< "+line)
}

func (w *transcriber) Content(replies, octets []byte) {
	w.replies(replies)
	w.lines = append(w.lines, fmt.Sprintf("< %q", octets))
}

// A witness hears what the session has understood, and the replies where they belong, also if the client sends everything at
// once: what looks like commands within a content is content, and what follows a refused DATA is commands.
func TestWitness(t *testing.T) {
	for _, c := range []struct {
		name, said string
		heard      []string
	}{
		{"content without waiting", "MAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\n..AUTH PLAIN x\r\n.\r\nQUIT\r\n", []string{
			"< MAIL FROM:<a@a.example>", "> 250 2.1.0 Ok", "< RCPT TO:<b@b.example>", "> 250 2.1.5 Ok", "< DATA", "> 354 End data with <CR><LF>.<CR><LF>", `< ".AUTH PLAIN x\r\n"`, "> 250 2.0.0 Ok: queued as ", "< QUIT", "> 221 2.0.0 Bye"}},
		{"a refused DATA", "DATA\r\nRSET\r\n", []string{"< DATA", "> 503 5.5.1 Error: need MAIL command", "< RSET", "> 250 2.0.0 Ok"}},
		{"chunks, refused and not", "BDAT 6\r\nQUIT\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nBDAT 3 LAST\r\na\r\n", []string{
			"< BDAT 6", `< "QUIT\r\n"`, "> 503 5.5.1 Error: need MAIL command", "< MAIL FROM:<a@a.example>", "> 250 2.1.0 Ok", "< RCPT TO:<b@b.example>", "> 250 2.1.5 Ok", "< BDAT 3 LAST", `< "a\r\n"`, "> 250 2.0.0 Ok: queued as "}},
		{"overlong lines", strings.Repeat("x", 5000) + "\r\nNOOP\r\n", []string{"< (overlong line)", "> 500 5.5.2 Error: line too long", "< NOOP", "> 250 2.0.0 Ok"}},
		{"an overlong BDAT", "BDAT " + strings.Repeat("1", 5000) + "\r\n", []string{"< BDAT " + strings.Repeat("1", 195), "> 501 5.5.4 Syntax: BDAT octets [LAST]; closing connection"}},
		{"a TLS handshake", "\x16\x03\x01", []string{"< (a TLS handshake)", "> 521 5.5.2 This port speaks plain SMTP"}},
		{"AUTH by LOGIN", "AUTH LOGIN\r\nYWxpY2U=\r\nQUIT\r\n", []string{"< AUTH LOGIN", "> 334 VXNlcm5hbWU6", "< [hidden]", "> 334 UGFzc3dvcmQ6", "< [hidden]", "> 535 5.7.8 Error: authentication failed"}},
		{"AUTH in one line", "auth plain AGFsaWNlAHNlc2FtZQ==\r\n", []string{"< AUTH PLAIN [hidden]", "> 235 2.7.0 Authentication successful"}},
		{"AUTH that is refused", "AUTH\r\nAUTH X\r\nAUTH PLAIN x\r\nAUTHPLAIN x\r\nc2VjcmV0\r\nNOOP\r\nFOO\r\n", []string{
			"< AUTH", "> 501 5.5.4 Syntax: AUTH mechanism", "< AUTH [hidden]", "> 504 5.5.4 Error: mechanism is not known", "< AUTH PLAIN [hidden]", "> 501 5.5.2 Error: the response is not base64",
			"< AUTH [hidden]", "> 500 5.5.2 Error: command not recognized", "< [hidden]", "> 500 5.5.2 Error: command not recognized", "< NOOP", "> 250 2.0.0 Ok", "< FOO", "> 500 5.5.2 Error: command not recognized"}},
		{"AUTH that is not the command", "X AUTH PLAIN AGEAc2VjcmV0\r\nc2VjcmV0\r\nNOOP\r\nX xauthplain secret\r\nRSET\r\nNOOP\tauth PLAIN secret\r\nNOOP auth\tPLAIN secret\r\nMAIL FROM:<a@a.example> AUTH=<>\r\nRCPT TO:<b@b.example> AUTH secret\r\n", []string{
			"< X AUTH [hidden]", "> 500 5.5.2 Error: command not recognized", "< [hidden]", "> 500 5.5.2 Error: command not recognized", "< NOOP", "> 250 2.0.0 Ok", "< X xauth [hidden]", "> 500 5.5.2 Error: command not recognized", "< RSET", "> 250 2.0.0 Ok",
			"< NOOP\tauth [hidden]", "> 500 5.5.2 Error: command not recognized", "< NOOP auth [hidden]", "> 250 2.0.0 Ok", "< MAIL FROM:<a@a.example> AUTH=<>", "> 250 2.1.0 Ok", "< RCPT TO:<b@b.example> AUTH [hidden]", "> 555 5.5.4 Parameter not recognized"}},
		{"an overlong answer", "AUTH PLAIN\r\n" + strings.Repeat("x", 13000) + "\r\n", []string{"< AUTH PLAIN", "> 334 ", "< [hidden]", "> 500 5.5.6 Error: authentication exchange line is too long"}},
	} {
		cfg, peer := testConfig(), loopbackPeer()
		peer.Mechanisms = smtp.AllMechanisms
		h := &host{session: New(&cfg, peer)}
		h.session.Encrypted(testSecurity)
		h.feed([]byte("EHLO x\r\n"))
		w := new(transcriber)
		h.session.SetWitness(w)
		for h.held = []byte(c.said); !h.closed; { // as host.feed, but the replies are given to the witness
			n, out, request := h.session.Step(h.held, h.out)
			w.replies(out)
			h.out, h.held = out, h.held[n:]
			more := h.serve(request)
			if len(h.out) == 0 {
				w.shown = 0
			}
			if !more {
				break
			}
		}
		for i, line := range w.lines {
			if strings.HasPrefix(line, "> 250 2.0.0 Ok: queued as ") {
				w.lines[i] = "> 250 2.0.0 Ok: queued as "
			}
		}
		if len(w.lines) < len(c.heard) || !slices.Equal(w.lines[:len(c.heard)], c.heard) {
			t.Errorf("%s: heard\n%s\nwant\n%s", c.name, strings.Join(w.lines, "\n"), strings.Join(c.heard, "\n"))
		}
		h.session.SetWitness(nil)
	}
}
