package inbound

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// reasons knows some recipients at once and all others after two seconds.
// Recipients without a reason are valid.
type reasons struct {
	known, found map[mail.Address]mail.Reply
}

func (r reasons) Known(_ mail.Client, _, a mail.Address) (mail.Reply, bool) {
	reason, ok := r.known[a]
	return reason, ok
}

func (r reasons) Verify(ctx context.Context, _ mail.Client, _, a mail.Address) mail.Reply {
	select {
	case <-time.After(2 * time.Second):
		return r.found[a]
	case <-ctx.Done():
		return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "cut off"}
	}
}

// A recipient that cannot be sent to is refused at RCPT; the others of the message
// are accepted. A client that sends all its commands at once gets the reply for
// each recipient when it is known, not when the last one is; and the policy comes
// first, so that a client cannot cause lookups of domains to which it may not send.
func TestRecipientsAreVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 2}, Text: "gone.example does not exist"}
		late := mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 3}, Text: "late.example is not known"}
		ts := start(t, Config{Verifier: reasons{
			known: map[mail.Address]mail.Reply{"a@good.example": {}, "a@gone.example": gone},
			found: map[mail.Address]mail.Reply{"a@late.example": late},
		}}, nil, EarlyLog)
		began := time.Now()
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example>", "RCPT TO:<a@good.example>", "RCPT TO:<a@gone.example>", "RCPT TO:<a@found.example>",
			"RCPT TO:<a@late.example>", "RCPT TO:<a@unqualified>")
		for _, want := range []struct {
			reply string
			after time.Duration
		}{
			{"250 2.1.0", 0}, {"250 2.1.5", 0}, {"550 5.1.2 <a@gone.example>: gone.example does not exist", 0},
			{"250 2.1.5", 2 * time.Second}, {"450 4.4.3 <a@late.example>: late.example is not known", 4 * time.Second},
			{"550 5.1.2 <a@unqualified>: Domain is not fully qualified", 4 * time.Second},
		} {
			c.hear(want.reply)
			if took := time.Since(began); took != want.after {
				t.Errorf("%q came after %v, want %v", want.reply, took, want.after)
			}
		}
		c.say("DATA")
		c.hear("354 ")
		c.say("text", ".", "QUIT")
		c.hear("250 ")
		c.hear("221 ")
		c.hearEnd()
		ts.end(t)
		if got := ts.sink.taken(); len(got) != 1 || len(got[0].recipients) != 2 {
			t.Errorf("%d messages were accepted, want one with two recipients", len(got))
		}
	})
}

// Other clients are served while one waits, and a client that disconnects while it
// waits leaves nothing behind.
func TestVerificationHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{Verifier: reasons{known: map[mail.Address]mail.Reply{"b@b.example": {}}}}, nil, EarlyLog)
		waits := ts.dial(t, "127.0.0.1")
		waits.hello()
		waits.say("MAIL FROM:<a@a.example>", "RCPT TO:<a@slow.example>")
		waits.hear("250 2.1.0")
		began := time.Now()
		c := ts.dial(t, "127.0.0.2")
		c.hello()
		c.envelope()
		c.say("text", ".", "QUIT")
		c.hear("250 ")
		if took := time.Since(began); took != 0 {
			t.Errorf("the other client waited for %v", took)
		}
		waits.Close()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := ts.sink.abortions(); n != 1 {
			t.Errorf("%d drafts were aborted, want 1", n)
		}
		ts.end(t)
	})
}
