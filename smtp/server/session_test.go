package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// B-01: input that is there before the greeting is refused where the peer is
// to be strict, and noted otherwise.
func TestInputBeforeGreeting(t *testing.T) {
	for _, strict := range []bool{true, false} {
		peer := loopbackPeer()
		peer.RejectEarly = strict
		cfg := testConfig()
		s := New(&cfg, peer)
		_, out, request := s.Step([]byte("EHLO x\r\n"), nil)
		if strict {
			if _, ok := request.(*Rejected); !ok || !bytes.HasPrefix(out, []byte("554 5.5.0 ")) {
				t.Errorf("%T %q", request, out)
			}
			if _, _, request = s.Step(nil, nil); request.(*Close).Reason != ReasonEarly {
				t.Errorf("%+v", request)
			}
			continue
		}
		if _, ok := request.(*Early); !ok || !bytes.HasPrefix(out, []byte("220 mx.example ")) {
			t.Errorf("%T %q", request, out)
		}
	}
}

// B-80, B-81: the smuggling set. Each lure stands in a message, followed by
// the commands of a second one with another sender. Whatever is made of it,
// the second sender must never appear, and no stored content may hold
// anything that the lure could do again at the next hop.
func TestSmuggling(t *testing.T) {
	lures := []string{
		"\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r.\r\n", "\r\n.\r", "\r\r\n.\r\r\n", "\n.\r", "\n\n.\n\n", "\r\n\n.\r\n",
		"\x00\r\n.\x00\r\n", "\r\n\x00.\r\n", "\r\n.\x00\r\n", "\r\x00\n.\r\x00\n", "\n\x00.\n",
	}
	script := "MAIL FROM:<smuggled@evil.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\nsmuggled\r\n.\r\n"
	for i, lure := range lures {
		for _, normalize := range []bool{false, true} {
			for _, how := range []string{"DATA", "BDAT"} {
				t.Run(fmt.Sprintf("%d %q normalize=%t %s", i, lure, normalize, how), func(t *testing.T) {
					smuggle(t, "Subject: x\r\n\r\ntext"+lure+script, normalize, how)
				})
			}
		}
	}
}

func smuggle(t *testing.T, content string, normalize bool, how string) {
	peer := loopbackPeer()
	peer.Normalize = normalize
	h := newHost(testConfig(), peer)
	input := "EHLO x\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\n"
	if how == "BDAT" {
		input += fmt.Sprintf("BDAT %d LAST\r\n%s", len(content), content)
	} else {
		// The script ends in a true end of content of its own.
		input += "DATA\r\n" + content
	}
	h.feed([]byte(input))
	for _, m := range h.messages {
		if m.envelope.Sender != "a@a.example" {
			t.Errorf("smuggled: %s", &m)
		}
		if naked := strings.ReplaceAll(m.content, "\r\n", ""); strings.ContainsAny(naked, "\r\n\x00") {
			t.Errorf("stored: %q", m.content)
		}
	}
	switch {
	case normalize && len(h.messages) != 1:
		t.Errorf("%d messages; replies:\n%s", len(h.messages), h.replies)
	case !normalize && (len(h.messages) != 0 || !bytes.Contains(h.replies, []byte("\r\n55"))):
		t.Errorf("%d messages; replies:\n%s", len(h.messages), h.replies)
	}
}

// B-38, B-93: ten thousand commands in one segment. Replies are flushed in
// between, so that the host never holds many.
func TestRepliesAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.JunkLimit = 1 << 30
	for _, command := range []string{"NOOP\r\n", "EHLO x\r\n", "RCPT TO:<r@b.example>\r\n", "BDAT 1\r\nx"} {
		h := newHost(cfg, loopbackPeer())
		h.session.peer.RecipientLimit = Unlimited
		h.feed([]byte("EHLO x\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\n"))
		before := bytes.Count(h.replies, []byte("\r\n250 ")) + 1
		h.feed(bytes.Repeat([]byte(command), 10_000))
		if got := bytes.Count(h.replies, []byte("\r\n250 ")) + 1 - before; got != 10_000 {
			t.Errorf("%q: %d replies", command, got)
		}
		if h.biggest > FlushSize+1024 {
			t.Errorf("%q: %d octets of replies were held", command, h.biggest)
		}
	}
}

// B-41, B-43: what a session remembers of recipients is bounded.
func TestRecipientsAreBounded(t *testing.T) {
	peer := loopbackPeer()
	peer.RecipientLimit = Unlimited
	h := newHost(testConfig(), peer)
	h.feed([]byte("EHLO x\r\nMAIL FROM:<>\r\n"))
	for i := range 5000 {
		h.feed(fmt.Appendf(nil, "RCPT TO:<%d@b.example>\r\n", i))
	}
	if n := len(h.session.tx.seen); n != duplicatesMax {
		t.Errorf("%d recipients are remembered", n)
	}
	if n := len(h.draft.recipients); n != 5000 {
		t.Errorf("%d recipients in the draft", n)
	}
}

// S-05: replies are lines of at most 512 octets, of ASCII, whatever text the
// host gives; S-69: with the status on each.
func TestReplyLines(t *testing.T) {
	h := newHost(testConfig(), loopbackPeer())
	h.refusals["b@b.example"] = mail.Reply{
		Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "é\x00" + strings.Repeat("x", 600) + "\nsecond\r\nthird",
	}
	h.feed([]byte("EHLO x\r\nMAIL FROM:<>\r\n"))
	h.replies = nil
	h.feed([]byte("RCPT TO:<b@b.example>\r\n"))
	lines := strings.SplitAfter(strings.TrimSuffix(string(h.replies), "\r\n"), "\r\n")
	if len(lines) != 3 || lines[1] != "550-5.7.1 second?\r\n" || lines[2] != "550 5.7.1 third" {
		t.Errorf("%q", lines)
	}
	if len(lines[0]) > 512 || !strings.HasPrefix(lines[0], "550-5.7.1 ???xxx") {
		t.Errorf("%d octets: %q", len(lines[0]), lines[0])
	}
}

// A host that breaks the rules hears of it at once, not by lost mail.
func TestContract(t *testing.T) {
	begun := func() *Session {
		cfg := testConfig()
		s := New(&cfg, loopbackPeer())
		in := []byte("EHLO x\r\nMAIL FROM:<a@a.example>\r\n")
		for {
			n, _, request := s.Step(in, nil)
			in = in[n:]
			if _, ok := request.(*Begin); ok {
				return s
			}
		}
	}
	for name, breach := range map[string]func(){
		"Step before Answer":   func() { begun().Step(nil, nil) },
		"Answer twice":         func() { s := begun(); s.Begun(1, testDate); s.Answer(mail.Reply{}) },
		"Answer without cause": func() { cfg := testConfig(); New(&cfg, loopbackPeer()).Answer(mail.Reply{}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			breach()
		})
	}
}

// Interrupt leaves nothing open, wherever it comes: every prefix of a session
// is cut off, and each draft that was begun ended once.
func TestInterruptAnywhere(t *testing.T) {
	script := []byte("EHLO x\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\nx\r\n.\r\nMAIL FROM:<a@a.example>\r\n" +
		"RCPT TO:<b@b.example>\r\nBDAT 3\r\nabcBDAT 4 LAST\r\nde\r\nFOO\r\n")
	for n := range len(script) + 1 {
		h := newHost(testConfig(), loopbackPeer())
		h.feed(script[:n])
		h.session.Interrupt(mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "mx.example bye"})
		h.feed(nil)
		if !h.closed || h.reason != ReasonHost || h.draft != nil || !bytes.HasSuffix(h.replies, []byte("421 4.3.2 mx.example bye\r\n")) {
			t.Fatalf("after %q: closed %t (%s), draft %v, replies %q", script[:n], h.closed, h.reason, h.draft, h.replies)
		}
	}
}

// phrases are what random sessions are made of.
var phrases = []string{
	"MAIL FROM:<a@a.example> MT-PRIORITY=9\r\n", "MAIL FROM:<a@a.example> HOLDFOR=60 BY=90;R\r\n", "MAIL FROM:<a@a.example> HOLDUNTIL=2030-03-17T17:46:41Z\r\n",
	"MAIL FROM:<a@a.example> BY=0;R\r\n", "MAIL FROM:<> BY=-5;NT\r\n", "MAIL FROM:<a@a.example> REQUIRETLS\r\n",
	"MAIL FROM:<a@a.example> XVERP\r\n", "MAIL FROM:<> XVERP=-=\r\n", "MAIL FROM:<a@a.example> XVERP=@\r\n", "ETRN a.example\r\n", "ETRN #q\r\n", "ETRN\r\n",
	"EHLO x\r\n", "HELO x\r\n", "MAIL FROM:<a@a.example>\r\n", "MAIL FROM:<> SIZE=9\r\n", "MAIL FROM:<bad\r\n", "RCPT TO:<b@b.example>\r\n",
	"RCPT TO:<no@b.example>\r\n", "RCPT TO:<c@b.example> NOTIFY=NEVER\r\n", "DATA\r\n", "text\r\n", ".\r\n", "..\r\n", "\r\n", "\r", "\n", "\x00", ".",
	"BDAT 5 LAST\r\nabcde", "BDAT 5\r\nab\r\nc", "BDAT 0 LAST\r\n", "BDAT 3\r\n\r\n", "RSET\r\n", "NOOP\r\n", "FOO\r\n", "VRFY x\r\n", "Subject: x\r\n", "full\r\n",
	"AUTH PLAIN\r\n", "AUTH SCRAM-SHA-256 eA==\r\n", "eA==\r\n", "*\r\n",
	"XCLIENT ADDR=192.0.2.1\r\n", "XFORWARD HELO=x IDENT=+\r\n", "XFORWARD HELO=x ADDR=IPV6:2001:db8::1\r\n",
}

func randomSession(r *rand.Rand) []byte {
	in := []byte("EHLO x\r\n")
	for range r.IntN(40) {
		in = append(in, phrases[r.IntN(len(phrases))]...)
	}
	return in
}

// B-15, B-16: how the network cuts the input makes no difference.
func TestChunking(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 5000 {
		input := randomSession(r)
		normalize := r.IntN(2) == 0
		if t.Failed() {
			t.Fatalf("seed %d, round %d: %q", seed, round, input)
		}
		checkChunking(t, input, normalize, r)
	}
}

func checkChunking(t *testing.T, input []byte, normalize bool, r *rand.Rand) {
	t.Helper()
	cfg := testConfig()
	cfg.SizeLimit, cfg.TextLineLimit, cfg.JunkLimit, cfg.SoftErrorLimit = 60, 30, 5, 5
	peer := loopbackPeer()
	peer.Normalize, peer.XClient, peer.XForward = normalize, true, true
	peer.VERP, peer.ETRN = mail.VERP{Before: '+', At: '='}, true
	peer.Priority, peer.PriorityMax, peer.DeliverBy = true, 4, true
	peer.FutureRelease, peer.Begun = time.Hour, 1_900_000_000*mail.Instant(time.Second)
	run := func(sizes func() int) *host {
		h := newHost(cfg, peer)
		h.refusals["no@b.example"] = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "no"}
		for at := 0; at < len(input); {
			n := min(sizes(), len(input)-at)
			h.feed(input[at : at+n])
			at += n
		}
		h.session.Interrupt(mail.Reply{})
		h.feed(nil)
		return h
	}
	whole := run(func() int { return len(input) })
	for name, sizes := range map[string]func() int{
		"octets": func() int { return 1 }, "pieces": func() int { return 1 + r.IntN(9) },
	} {
		compareHosts(t, whole, run(sizes), name)
	}
	checkHost(t, whole)
}

// checkHost looks at what must hold for every session.
func checkHost(t *testing.T, h *host) {
	t.Helper()
	if h.draft != nil {
		t.Error("a draft was left open")
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(h.replies), "\r\n"), "\r\n") {
		if len(line) < 4 || line[0] < '2' || line[0] > '5' || len(line) > 510 || strings.ContainsAny(line, "\r\n") {
			t.Errorf("reply line %q", line)
		}
	}
	for _, m := range h.messages {
		if len(m.recipients) == 0 {
			t.Errorf("a message without recipients: %s", &m)
		}
		if strings.ContainsAny(strings.ReplaceAll(m.content, "\r\n", ""), "\r\n\x00") {
			t.Errorf("content %q", m.content)
		}
		if m.envelope.Size != int64(len(m.content)) {
			t.Errorf("size %d of %q", m.envelope.Size, m.content)
		}
	}
}

func FuzzSession(f *testing.F) {
	for _, seed := range phrases {
		f.Add([]byte("EHLO x\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\n"+seed), false, uint64(1))
	}
	f.Add(bytes.Join([][]byte{[]byte("EHLO x"), []byte("NOOP " + strings.Repeat("x", 5000)), []byte("QUIT")}, []byte("\r\n")), true, uint64(2))
	f.Fuzz(func(t *testing.T, input []byte, normalize bool, seed uint64) {
		checkChunking(t, input, normalize, rand.New(rand.NewPCG(seed, 0)))
	})
}

// A Config that would break a session is refused with all its faults.
func TestConfig(t *testing.T) {
	if err := testConfig().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{
		Hostname: "not a name", Banner: "two\nlines", SizeLimit: 5, RecipientLimit: 99, RecipientOvershoot: -1, LineLimit: 100, TextLineLimit: 998,
		HeaderLimit: 1, HeaderFieldLimit: 1, HopLimit: -1, OwnHopLimit: -1, SoftErrorLimit: 5, HardErrorLimit: 4, ErrorDelay: -1, JunkLimit: -1, LocalPartLimit: 63,
	}
	err := bad.Validate()
	for _, want := range []string{"hostname", "banner", "size limit", "recipient limit", "overshoot", "line limit", "text line", "header limit",
		"header field", "hop limit", "own hop", "hard error", "error delay", "junk", "local part"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about the %s: %v", want, err)
		}
	}
}

// What is advertised follows the limits.
func TestUnlimited(t *testing.T) {
	cfg := testConfig()
	cfg.SizeLimit = Unlimited
	h := newHost(cfg, Peer{Addr: netip.MustParseAddr("::1"), RecipientLimit: Unlimited})
	h.feed([]byte("EHLO x\r\nMAIL FROM:<> SIZE=9000000000000000000\r\n"))
	lines := strings.Split(string(h.replies), "\r\n")
	if !slices.Contains(lines, "250-SIZE") || slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "LIMITS") }) || !slices.Contains(lines, "250 2.1.0 Ok") {
		t.Errorf("%q", lines)
	}
}

// benchHost answers as a host with an empty sink would.
func benchHost(b *testing.B, s *Session, in, out []byte) []byte {
	for {
		n, replies, request := s.Step(in, out)
		in, out = in[n:], replies
		switch request.(type) {
		case *Read:
			return out
		case *Flush:
			out = out[:0]
		case *Begin:
			s.Begun(1<<20, testDate)
		case *Recipient, *Content, *Commit:
			s.Answer(mail.Reply{})
		case *Early:
		default:
			b.Fatalf("%T %s", request, out)
		}
	}
}

func BenchmarkTransaction(b *testing.B) {
	content := strings.Repeat(strings.Repeat("x", 70)+"\r\n", 57)
	header := "From: a@a.example\r\nTo: b@b.example\r\nSubject: benchmark\r\nMessage-ID: <1@a.example>\r\n\r\n"
	envelope := "MAIL FROM:<a@a.example> SIZE=4200\r\nRCPT TO:<b@b.example>\r\n"
	body := header + content
	for name, script := range map[string]string{
		"DATA": envelope + "DATA\r\n" + body + ".\r\n",
		"BDAT": envelope + fmt.Sprintf("BDAT %d LAST\r\n", len(body)) + body,
	} {
		b.Run(name, func(b *testing.B) {
			cfg := testConfig()
			s := New(&cfg, loopbackPeer())
			out := benchHost(b, s, []byte("EHLO x\r\n"), nil)
			in := make([]byte, len(script))
			b.SetBytes(int64(len(script)))
			b.ReportAllocs()
			for b.Loop() {
				copy(in, script)
				out = benchHost(b, s, in, out[:0])
			}
			if !bytes.Contains(out, []byte("queued as")) {
				b.Fatalf("%s", out)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
