package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A final reply that has been read in full decides, whatever follows it in the same
// read: another reply, part of one, octets that are no reply, the end of the
// connection. The session is then no longer usable. When such a message was called
// doubtful, it was sent again, and finally returned to its sender, although the
// server had accepted it.
func TestWhatFollowsAFinalReply(t *testing.T) {
	for level := LockStep; level <= Stream; level++ {
		for _, c := range []struct {
			final   string
			verdict Verdict
		}{{"250 2.0.0 taken\r\n", Delivered}, {"250-taken\r\n250 for good\r\n", Delivered}, {"550-first\r\n250 last\r\n", Delivered},
			{"250-first\r\n550 5.7.1 last\r\n", Failed}, {"451 4.3.0 later\r\n", Deferred}, {"554 5.7.1 no\r\n", Failed}} {
			for _, trailer := range []string{
				"", "2", "250", "250 ok", "250 ok\r\n", "250 ok\r\n250 ok\r\n", "354 go\r\n", "550 no\r\n", "450 later\r\n", "421 bye\r\n",
				"250-ok\r\n", "999 x\r\n", "what\r\n", "\x00", "\n", "\r\n", "250 ok\r\n2", strings.Repeat("x", 70000),
			} {
				for _, portion := range []int{1 << 20, 1, 7} {
					t.Run(fmt.Sprintf("%v %q %.9q %d", level, c.final, trailer, portion), func(t *testing.T) {
						s := ready(t, level, "250-PIPELINING", "250-CHUNKING")
						tx := finishing(t, s)
						text := c.final + trailer
						for len(text) > 0 {
							n := min(portion, len(text))
							s.Feed([]byte(text[:n]))
							text = text[n:]
						}
						if trailer != "" && s.Idle() {
							t.Errorf("the session is taken to be in order")
						}
						s.End(LossTimeout)
						if s.Next() != tx || tx.Results[0].Verdict != c.verdict || tx.Broken() {
							t.Errorf("result %+v", tx.Results)
						}
						if f := s.Failure(); trailer != "" && !strings.HasPrefix(trailer, "421") && f.Kind != FailProtocol {
							t.Errorf("ended with %+v", f)
						}
					})
				}
			}
		}
	}
}

// finishing starts a transaction and takes it to where only the final reply is
// missing. At level Stream it is the second of the session, as the first is not
// streamed.
func finishing(t *testing.T, s *Session) *Transaction {
	t.Helper()
	if s.Level() == Stream && s.Mails() == 0 {
		first := finish(t, s)
		s.Feed([]byte("250 taken\r\n"))
		if s.Next() != first {
			t.Fatal("the first transaction is not done")
		}
	}
	return finish(t, s)
}

func finish(t *testing.T, s *Session) *Transaction {
	t.Helper()
	tx := &Transaction{Recipients: recipients(1), Envelope: mail.Envelope{Size: 9}}
	s.Start(tx)
	for {
		if s.Wanting() == tx {
			s.Supply([]byte("content\r\n"), true)
		}
		take(s)
		switch w := s.Wait().Kind; w {
		case WaitFinal:
			return tx
		case WaitDataInit:
			s.Feed([]byte("354 go\r\n"))
		case WaitReset, WaitMail, WaitRcpt:
			s.Feed([]byte("250 ok\r\n"))
		case WaitDataBlock:
		default:
			t.Fatalf("the session waits for %v", w)
		}
	}
}
