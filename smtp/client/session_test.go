package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// take writes all that the session has to write and returns it.
func take(s *Session) string {
	var b strings.Builder
	for _, piece := range s.Out(nil) {
		b.Write(piece)
	}
	s.Written(b.Len())
	return b.String()
}

// octets returns how many octets pieces have.
func octets(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// ready returns a session that has been greeted.
func ready(tb testing.TB, level Level, keywords ...string) *Session {
	tb.Helper()
	s := New(Config{Hello: "me.example", Peer: "mx[192.0.2.1]", Level: level})
	s.Feed([]byte("220 mx\r\n"))
	take(s)
	s.Feed([]byte("250-mx\r\n" + strings.Join(append(keywords, "250 OK\r\n"), "\r\n")))
	if !s.Idle() {
		tb.Fatalf("session is not idle: %+v", s.Failure())
	}
	return s
}

func recipients(n int) []mail.Recipient {
	list := make([]mail.Recipient, n)
	for i := range list {
		list[i] = mail.Recipient{Index: uint32(i), Address: mail.Address(fmt.Sprintf("user%d@example.net", i))}
	}
	return list
}

// B-121: replies that do not end cost neither memory nor the session's mind:
// a reply of too many lines, a line of 1 GiB, a million keywords.
func TestB121EndlessReplies(t *testing.T) {
	for name, flood := range map[string]string{
		"lines":    "250-x\r\n",
		"line":     strings.Repeat("x", 4096),
		"keywords": "250-SIZE 1\r\n",
	} {
		s := New(Config{Hello: "me.example", Level: Group})
		s.Feed([]byte("220 mx\r\n"))
		take(s)
		s.Feed([]byte("250-"))
		fed := 0
		for ; !s.Over() && fed < 1<<30; fed += len(flood) {
			s.Feed([]byte(flood))
		}
		if s.Failure().Kind != FailProtocol || fed > 4*smtp.ReplyMax {
			t.Errorf("%s: %v after %d octets", name, s.Failure().Kind, fed)
		}
	}
}

// With a thousand recipients the group is larger than what may be unanswered
// (RFC 2920 3.1), so it goes out in portions, each of them as replies come in,
// and memory does not grow with the number of recipients.
func TestGroupKeepsToTheWindow(t *testing.T) {
	s := ready(t, Group, "250-PIPELINING")
	tx := &Transaction{Recipients: recipients(1000)}
	s.Start(tx)
	rcpts, unanswered := 0, 0
	longest := len("RCPT TO:<user999@example.net>\r\n")
	for round := 0; ; round++ {
		out := take(s)
		unanswered += len(out)
		if unanswered > GroupMax+longest {
			t.Fatalf("%d octets of commands unanswered", unanswered)
		}
		if strings.HasSuffix(out, "DATA\r\n") {
			break
		}
		if out == "" || round > 1000 {
			t.Fatalf("stuck after %d recipients", rcpts)
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "RCPT") {
				rcpts++
			}
			s.Feed([]byte("250 ok\r\n"))
		}
		unanswered = 0
	}
	if cap(s.out.commands) > 4*GroupMax || cap(s.slots.list) > GroupMax {
		t.Errorf("keeps %d octets and %d slots", cap(s.out.commands), cap(s.slots.list))
	}
}

// The session asks for content only when it can be written, so that a host
// never has more than one piece in memory.
func TestContentIsAskedForPieceByPiece(t *testing.T) {
	s := ready(t, Group, "250-PIPELINING")
	tx := &Transaction{Recipients: recipients(1)}
	s.Start(tx)
	take(s)
	s.Feed([]byte("250 ok\r\n250 ok\r\n354 go\r\n"))
	piece := []byte("a line\r\n")
	for range 3 {
		if s.Wanting() != tx {
			t.Fatal("content is not wanted")
		}
		s.Supply(piece, false)
		if s.Wanting() != nil {
			t.Fatal("more content is wanted before the last piece was written")
		}
		if out := s.Out(nil); len(out) != 1 || &out[0][0] != &piece[0] {
			t.Fatal("the piece was copied")
		}
		s.Written(len(piece))
	}
	s.Supply(nil, true)
	if out := take(s); out != ".\r\n" {
		t.Errorf("the end is %q", out)
	}
	s.Feed([]byte("250 done\r\n"))
	if s.Next() != tx || tx.Results[0].Verdict != Delivered {
		t.Errorf("result %+v", tx.Results)
	}
}

// B-129: octets that trickle in do not start the wait anew; a whole reply does.
func TestB129WaitIsForTheWholeReply(t *testing.T) {
	s := ready(t, Group, "250-PIPELINING")
	s.Start(&Transaction{Recipients: recipients(1)})
	take(s)
	first := s.Wait()
	for _, c := range []byte("250-slow\r\n250") {
		s.Feed([]byte{c})
		if s.Wait() != first {
			t.Fatal("an octet started the wait anew")
		}
	}
	s.Feed([]byte(" ok\r\n"))
	if w := s.Wait(); w == first || w.Kind != WaitRcpt {
		t.Errorf("after the reply: %+v", w)
	}
}

// A reply that arrived before its command was written belongs to no command. One
// that arrives after the command was written, but before the session was notified
// of that, is in order.
func TestReplyBeforeItsCommand(t *testing.T) {
	s := ready(t, Group, "250-PIPELINING")
	s.Start(&Transaction{Recipients: recipients(1)})
	s.Feed([]byte("250 ok\r\n"))
	if s.Failure().Kind != FailProtocol {
		t.Errorf("early reply: %v", s.Failure().Kind)
	}

	s = ready(t, LockStep)
	s.Start(&Transaction{Recipients: recipients(1)})
	take(s)
	s.Feed([]byte("250 ok\r\n")) // RCPT is now ready to be written
	if out := take(s); !strings.HasPrefix(out, "RCPT") {
		t.Errorf("wrote %q", out)
	}
}

// With replies to a thousand recipients and a content outstanding, the window
// is kept to as well.
func TestOverlapKeepsToTheWindow(t *testing.T) {
	s := ready(t, Overlap, "250-PIPELINING")
	first, second := &Transaction{Recipients: recipients(1)}, &Transaction{Recipients: recipients(1000)}
	s.Start(first)
	take(s)
	s.Feed([]byte("250 ok\r\n250 ok\r\n354 go\r\n"))
	s.Start(second)
	s.Supply([]byte("content\r\n"), true)
	out := take(s)
	commands := strings.TrimPrefix(out, "content\r\n.\r\n")
	if len(commands) == len(out) || len(commands) < GroupMax || len(commands) > GroupMax+100 {
		t.Fatalf("%d octets of commands behind the content", len(commands))
	}
	s.Feed([]byte("250 taken\r\n"))
	if s.Next() != first || s.Next() != nil {
		t.Error("the first message is not done by itself")
	}
	if out := take(s); out != "" {
		t.Errorf("the final reply made room for %d octets", len(out))
	}
	s.Feed([]byte("250 ok\r\n250 ok\r\n"))
	if out := take(s); !strings.HasPrefix(out, "RCPT") {
		t.Errorf("behind two replies comes %q", out)
	}
}

// The wait for the oldest reply is not made longer by what is written behind
// its command; the wait for content to be taken begins anew with each piece.
func TestWaitIsForTheOldest(t *testing.T) {
	s := ready(t, Stream, "250-PIPELINING", "250-CHUNKING")
	small := func() *Transaction { return &Transaction{Recipients: recipients(1), Envelope: mail.Envelope{Size: 3}} }
	s.Start(small())
	take(s)
	s.Feed([]byte("250 ok\r\n250 ok\r\n354 go\r\n"))
	var last Wait
	for range 3 {
		s.Supply([]byte("x\r\n"), false)
		take(s)
		if w := s.Wait(); w.Kind != WaitDataBlock || w == last {
			t.Errorf("behind a piece: %+v after %+v", w, last)
		}
		last = s.Wait()
	}
	s.Supply(nil, true)
	take(s)
	final := s.Wait()
	if final.Kind != WaitFinal {
		t.Errorf("behind the content: %+v", final)
	}
	for range 2 {
		s.Start(small())
		take(s)
		s.Supply([]byte("x\r\n"), true)
		take(s)
		if w := s.Wait(); w != final {
			t.Errorf("a message behind it changes %+v to %+v", final, w)
		}
	}
	s.Feed([]byte("250 taken\r\n"))
	if w := s.Wait(); w.Kind != WaitReset || w.Serial == final.Serial {
		t.Errorf("after the final reply: %+v", w)
	}
}

// Contradictions are counted, two in a row end the pipelining, and one that
// has a fitting reply behind it does not.
func TestContradictions(t *testing.T) {
	for _, c := range []struct {
		replies        string
		contradictions int
		fellBack       Level
	}{
		{"250 2.0.0 x|250 2.1.0 x|250 2.1.5 x|250 2.1.5 x|354 x", 0, LockStep},
		{"250 2.1.5 x|250 2.1.0 x|250 2.1.0 x|250 2.1.5 x|354 x", 1, LockStep},
		{"250 2.0.0 x|250 2.1.5 x|250 2.0.0 x|250 2.1.0 x|354 x", 2, Overlap},
		{"250 2.0.0 x|250 2.1.5|250 2.1.55 x|550 2.1.0 x|354 x", 0, LockStep},
	} {
		s := ready(t, Overlap, "250-PIPELINING")
		s.Start(&Transaction{Recipients: recipients(1)})
		s.Start(&Transaction{Recipients: recipients(2)})
		take(s)
		s.Feed([]byte("250 2.1.5 quite wrong\r\n250 2.1.0 at level group\r\n354 go\r\n"))
		s.Supply(nil, true)
		take(s)
		s.Feed([]byte(strings.ReplaceAll(c.replies, "|", "\r\n") + "\r\n"))
		tally := s.Tally()
		if tally.Contradictions != c.contradictions || tally.FellBack != c.fellBack {
			t.Errorf("%s: %+v", c.replies, tally)
		}
		if want := map[Level]Level{LockStep: Overlap, Overlap: Group}[c.fellBack]; s.Level() != want {
			t.Errorf("%s: goes on at level %v", c.replies, s.Level())
		}
		if s.Over() {
			t.Errorf("%s: %+v", c.replies, s.Failure())
		}
	}
}

// Streaming costs no more memory the longer it goes on, even if there always
// is something that is being written.
func TestStreamingForever(t *testing.T) {
	s := ready(t, Stream, "250-PIPELINING", "250-CHUNKING")
	s.Start(&Transaction{Recipients: recipients(1)})
	take(s)
	s.Feed([]byte("250 ok\r\n250 ok\r\n354 go\r\n"))
	s.Supply([]byte("x\r\n"), true)
	var unwritten [][]byte
	pieces := s.Out(nil)
	for range 20000 {
		if s.Room() {
			s.Start(&Transaction{Recipients: recipients(1), Envelope: mail.Envelope{Size: 3}})
		}
		if s.Wanting() != nil {
			s.Supply([]byte("x\r\n"), true)
		}
		n := octets(pieces)
		s.Written(n)
		unwritten = s.Out(unwritten[:0])
		for line := range strings.Lines(string(slices.Concat(pieces...))) {
			switch {
			case strings.HasPrefix(line, "x"), strings.HasPrefix(line, "BDAT"):
			default:
				s.Feed([]byte("250 ok\r\n"))
			}
			if strings.HasPrefix(line, "x") {
				s.Feed([]byte("250 taken\r\n"))
			}
			for tx := s.Next(); tx != nil; tx = s.Next() {
				if tx.Results[0].Verdict != Delivered {
					t.Fatal(tx.Results, s.Failure())
				}
			}
		}
		pieces, unwritten = unwritten, pieces
	}
	if n := cap(s.out.commands) + cap(s.out.spare) + cap(s.out.away); n > GroupMax || cap(s.out.pieces) > 100 || cap(s.slots.list) > 200 {
		t.Errorf("keeps %d octets of commands, %d pieces, %d slots", n, cap(s.out.pieces), cap(s.slots.list))
	}
	if s.Mails() < 1000 {
		t.Errorf("only %d messages were sent", s.Mails())
	}
}

// Every state has a name, or a log line would panic.
func TestNames(t *testing.T) {
	for l := LockStep; l <= Stream; l++ {
		_ = l.String()
	}
	for p := ProbeNone; p <= ProbeLost; p++ {
		_ = p.String()
	}
	for k := FailNone; k <= FailQuit; k++ {
		_ = k.String()
	}
	for k := WaitNothing; k <= WaitQuit; k++ {
		_ = k.String()
	}
	for v := Pending; v <= Doubtful; v++ {
		_ = v.String()
	}
	for k := slotGreeting; k <= slotQuit; k++ {
		if k.wait() == WaitNothing {
			t.Errorf("slot %d waits for nothing", k)
		}
	}
}

// What a host does wrong is found at once.
func TestMisuse(t *testing.T) {
	panics := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		f()
	}
	panics("start before the greeting", func() { New(Config{}).Start(&Transaction{}) })
	panics("content out of turn", func() { New(Config{}).Supply(nil, true) })
	panics("more written than there was", func() { New(Config{}).Written(1) })
	panics("less than nothing written", func() { New(Config{}).Written(-1) })
	panics("probe before anything was sent", func() { ready(t, Overlap, "250-PIPELINING", "250-CHUNKING").Probe("") })
	panics("start without room", func() {
		s := ready(t, Group, "250-PIPELINING")
		s.Start(&Transaction{Recipients: recipients(1)})
		s.Start(&Transaction{Recipients: recipients(1)})
	})
	panics("content in parts that is wanted whole", func() {
		s := ready(t, Stream, "250-PIPELINING", "250-CHUNKING")
		s.Start(&Transaction{Recipients: recipients(1)})
		s.Start(&Transaction{Recipients: recipients(1), Envelope: mail.Envelope{Size: 3}})
		take(s)
		s.Feed([]byte("250 ok\r\n250 ok\r\n354 go\r\n"))
		s.Supply(nil, true)
		take(s)
		s.Supply([]byte("x\r\n"), false)
	})
}
