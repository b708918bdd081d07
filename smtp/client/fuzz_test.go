package client

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Whatever a server says as a challenge is decoded as package base64 does it, or refused.
func FuzzChallenge(f *testing.F) {
	for _, text := range []string{"", "eA==", " eA== ", "eA", "eA=\n=", "e\rA==", "eB==", "====", strings.Repeat("eHh4", 2000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		challenge, err := ParseChallenge(text)
		if err != nil {
			return
		}
		if again := base64.StdEncoding.EncodeToString(challenge); again != strings.Trim(text, " ") {
			t.Fatalf("%q is taken for %q", text, again)
		}
	})
}

// Arbitrary octets from the server in arbitrary portions, at every level: the
// session must neither panic, nor lose a transaction, nor call a recipient
// delivered without a 2yz reply, nor write anything but whole lines, nor keep
// much; and where the portions are cut must not matter.
func FuzzSession(f *testing.F) {
	const hello = "220 mx\r\n250-mx\r\n250-CHUNKING\r\n250 PIPELINING\r\n"
	f.Add([]byte(hello+"250 a\r\n250 b\r\n354 c\r\n250 d\r\n250 a\r\n"), uint8(1), uint8(3), uint8(1))
	f.Add([]byte("220 mx\r\n500 x\r\n250 mx\r\n250 a\r\n550 b\r\n250 r\r\n250 m\r\n452 x\r\n421 bye\r\n"), uint8(2), uint8(9), uint8(1))
	f.Add([]byte("220-\n220\n250-a\n250 PIPELINING\n250\n250\n354\n552 big\n"), uint8(5), uint8(200), uint8(0))
	f.Add([]byte(hello+"250 a\r\n250 b\r\n354 c\r\n250 d\r\n250 a\r\n250 b\r\n354 c\r\n550 d\r\n503 e\r\n503 f\r\n503 g\r\n250 h\r\n"),
		uint8(7), uint8(0), uint8(2))
	f.Add([]byte(hello+"250 a\r\n250 b\r\n354 c\r\n250 d\r\n250 r\r\n250 a\r\n250 b\r\n250 d\r\n250 r\r\n503 a\r\n250 b\r\n250 d\r\n250 r\r\n"),
		uint8(3), uint8(0), uint8(3))
	f.Add([]byte(hello+"250 a\r\n250 b\r\n354 c\r\n250 d\r\n250 r\r\n250 2.1.5 a\r\n250 2.1.0 b\r\n250 d\r\n421 r\r\n"),
		uint8(255), uint8(2), uint8(3))
	f.Add([]byte(hello+"250 a\r\n250 b\r\n354 c\r\n250 d\r\n250-"), uint8(0), uint8(0), uint8(1))
	f.Add([]byte(hello+"250 a\r\n250 b\r\n250 b\r\n354 c\r\n250 d\r\n452 e\r\n250 a\r\n250 b\r\n354 c\r\n550 d\r\n"), uint8(4), uint8(1), uint8(6))
	f.Add([]byte(hello+"250 a\r\n250 b\r\n250 b\r\n354 c\r\n250 d\r\n421 e\r\n"), uint8(4), uint8(1), uint8(5))
	f.Add([]byte("220 mx\r\n250 AUTH X-TEST\r\n334 eA==\r\n334\r\n235 a\r\n250 a\r\n250 b\r\n354 c\r\n250 d\r\n"), uint8(0), uint8(1), uint8(9))
	f.Add([]byte("220 mx\r\n250-mx\r\n250 AUTH X-TEST\r\n334 =\r\n334 a\r\n501 b\r\n"), uint8(0), uint8(1), uint8(9))
	f.Add([]byte("220 mx\r\n250-mx\r\n250-DELIVERBY\r\n250-CHUNKING\r\n250 PIPELINING\r\n250 a\r\n250 b\r\n354 c\r\n450 d\r\n250 r\r\n250 a\r\n250 b\r\n354 c\r\n250 d\r\n250 a\r\n"),
		uint8(3), uint8(0), uint8(10))
	f.Fuzz(func(t *testing.T, octets []byte, portion, recipients, level uint8) {
		cfg := Config{Hello: "me.example", Level: Level(level % 4), InFlight: int(recipients) % 20, LMTP: level/4%2 == 1}
		deadlines := level/8%2 == 1
		a := fuzzed(t, octets, len(octets)+1, int(recipients), deadlines, cfg)
		b := fuzzed(t, octets, int(portion)+1, int(recipients), deadlines, cfg)
		if a != b {
			t.Fatalf("portions of %d octets make a difference:\n%s\n---\n%s", int(portion)+1, a, b)
		}
	})
}

// A fuzzHost does a host's part and notes all that happens.
type fuzzHost struct {
	t       *testing.T
	s       *Session
	rcpts   int
	late    bool // messages are returned by deadlines
	now     mail.Instant
	started []*Transaction
	taken   int
	out     strings.Builder
}

// fuzzed feeds one reply line at a time, cut into portions, with the host doing
// its part after each line, and returns the dialogue. Each line takes a second.
func fuzzed(t *testing.T, octets []byte, portion, rcpts int, deadlines bool, cfg Config) string {
	if bytes.Contains(octets, []byte("AUTH X-TEST")) {
		cfg.Auth = &scripted{responses: []string{"initial", "response"}, proof: "x"}
	}
	h := &fuzzHost{t: t, s: New(cfg), rcpts: rcpts, late: deadlines}
	for len(octets) > 0 && !h.s.Over() {
		line := octets
		if i := slices.Index(octets, '\n'); i >= 0 {
			line = octets[:i+1]
		}
		octets = octets[len(line):]
		h.now = h.now.Add(time.Second)
		h.s.Tick(h.now)
		for part := range slices.Chunk(line, portion) {
			h.s.Feed(part)
		}
		h.act()
	}
	h.s.End(LossClosed)
	h.act()
	if h.taken != len(h.started) {
		t.Fatalf("%d of %d transactions have results", h.taken, len(h.started))
	}
	if n := cap(h.s.slots.list) + cap(h.s.out.pieces); n > GroupMax {
		t.Fatalf("keeps room for %d slots and pieces", n)
	}
	if n := cap(h.s.out.commands) + cap(h.s.out.spare) + cap(h.s.out.away); n > 8*GroupMax {
		t.Fatalf("keeps %d octets of commands", n)
	}
	return h.out.String()
}

func (h *fuzzHost) act() {
	for {
		for t := h.s.Next(); t != nil; t = h.s.Next() {
			h.check(t)
		}
		switch {
		case h.s.Room() && len(h.started) < 100:
			h.start()
		case h.s.Wanting() != nil:
			h.s.Supply([]byte("content\r\n"), true)
		case !h.write():
			if endless(h.s) {
				h.t.Fatal("nothing would end this")
			}
			return
		}
	}
}

// start starts transactions of different sizes, most of them small ones.
func (h *fuzzHost) start() {
	n := len(h.started)
	t := &Transaction{Recipients: recipients(1 + n%3), Envelope: mail.Envelope{Size: 9}}
	if n%4 == 0 {
		t.Recipients = recipients(1 + h.rcpts)
	}
	if h.late {
		t.Envelope.By = mail.DeliverBy{Mode: mail.ByReturn, At: h.now.Add(time.Duration(n%4) * time.Second)}
	}
	h.started = append(h.started, t)
	h.s.Start(t)
}

func (h *fuzzHost) write() bool {
	text := take(h.s)
	if text != "" && !strings.HasSuffix(text, "\r\n") {
		h.t.Fatalf("wrote half a line: %q", text)
	}
	h.out.WriteString(text)
	fmt.Fprintf(&h.out, "%v\n", h.s.Wait().Kind)
	return text != ""
}

func (h *fuzzHost) check(t *Transaction) {
	if t != h.started[h.taken] {
		h.t.Fatalf("transaction %d is done out of order", h.taken)
	}
	h.taken++
	for i, r := range t.Results {
		switch {
		case r.Verdict == Pending || r.Verdict == Accepted:
			h.t.Fatalf("recipient %d is left %v", i, r.Verdict)
		case r.Verdict == Delivered && (r.Reply.Code/100 != 2 || !t.final),
			r.Verdict == Failed && r.Reply.Code/100 != 5,
			r.Verdict == Deferred && r.Reply.Code/100 != 4 && r.Reply.Code/100 != 5:
			h.t.Fatalf("recipient %d is %v because of %v", i, r.Verdict, r.Reply)
		}
		fmt.Fprintf(&h.out, "%d %v %v\n", i, r.Verdict, r.Reply)
	}
}

// What was recorded of a dialogue with a server comes out the same however the
// server's octets are cut: each of many dialogues, fed in portions of every
// size up to the whole.
func TestPortionsDoNotMatter(t *testing.T) {
	const hello = "220 mx\r\n250-mx\r\n250-CHUNKING\r\n250 PIPELINING\r\n"
	replies := []string{"250 2.0.0 ok\r\n", "250 2.1.0 ok\r\n", "250 2.1.5 ok\r\n", "354 go\r\n", "550 5.1.1 no\r\n", "503 5.5.1 no\r\n", "250-a\r\n250 b\r\n"}
	for level := range 2 * Stream {
		cfg := Config{Hello: "me.example", Level: level % (Stream + 1), InFlight: 1, LMTP: level > Stream}
		for n := range 200 {
			text := hello + "250 a\r\n250 b\r\n354 c\r\n250 d\r\n"
			for k := uint64(n)*2654435761 + 1; k > 0; k /= uint64(len(replies)) {
				text += replies[k%uint64(len(replies))]
			}
			want := fuzzed(t, []byte(text), len(text), 1, false, cfg)
			for portion := 1; portion < 12; portion++ {
				if got := fuzzed(t, []byte(text), portion, 1, false, cfg); got != want {
					t.Fatalf("%+v, %q in portions of %d:\n%s\nwant\n%s", cfg, text, portion, got, want)
				}
			}
		}
	}
}

// B-121 for what a session keeps while it is pipelining: replies that do not
// end, and commands that are never answered.
func TestMemoryWhileStreaming(t *testing.T) {
	s := ready(t, Stream, "250-PIPELINING", "250-CHUNKING")
	s.cfg.InFlight = InFlightMax
	h := &fuzzHost{t: t, s: s, rcpts: 9}
	h.act()
	s.Feed([]byte("250 a\r\n" + strings.Repeat("250 b\r\n", 10) + "354 c\r\n"))
	h.act()
	for range 10 * smtp.ReplyMax / 10 {
		s.Feed([]byte("250-endless\r\n"))
		h.act()
	}
	if len(h.started) > 2*InFlightMax {
		t.Errorf("%d transactions were started without a reply", len(h.started))
	}
	if s.Failure().Kind != FailProtocol {
		t.Errorf("the session goes on: %+v", s.Failure())
	}
}
