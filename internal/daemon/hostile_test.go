package daemon

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// infest starts a receiver that stalls.
func infest(t *testing.T, stage, how string, good int64) *sink.Rogue {
	t.Helper()
	r := sink.Infest(listen(t), sink.Way{Stage: stage, How: how}, good)
	t.Cleanup(r.Close)
	return r
}

// Six destinations whose receivers stall, in whatever state of a session, after
// they have taken enough mail to be given many connections, must not keep mail of a
// healthy destination waiting: it arrives before they are given up, after minutes.
func TestHostileDestinations(t *testing.T) {
	t.Parallel()
	taken := min(20*golden.Runs(1), 100) // messages that each of them takes first
	for name, list := range map[string][][2]string{
		"octet":   {{".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}},
		"silent":  {{"greeting", "silent"}, {"EHLO", "silent"}, {"MAIL", "silent"}, {"RCPT", "silent"}, {"DATA", "silent"}, {".", "silent"}},
		"partial": {{"greeting", "drip"}, {"EHLO", "part"}, {"MAIL", "drip"}, {"RCPT", "part"}, {"DATA", "drip"}, {".", "part"}},
		"held":    {{"MAIL", "silent"}, {"RCPT", "silent"}, {"DATA", "silent"}, {".", "silent"}, {"MAIL", "part"}, {".", "drip"}},
		"slow":    {{"content", "deaf"}, {"content", "deaf"}, {"content", "deaf"}, {"content", "silent"}, {"content", "drip"}, {"content", "part"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := receive(t, sink.Config{})
			table := []string{"good.test", box.address}
			var rogues []*sink.Rogue
			for i, what := range list {
				r := infest(t, what[0], what[1], int64(taken))
				rogues = append(rogues, r)
				table = append(table, fmt.Sprintf("d%d.test", i), r.Address())
			}
			r := start(t, t.TempDir(), "shutdown_time = \"1s\"\n"+routes(table...))
			var clients sync.WaitGroup
			for i := range rogues {
				clients.Go(func() {
					var batch []feed.Message
					for n := range taken + 60 {
						m := letter(fmt.Sprintf("<%d.%d>", i, n), mail.Address(fmt.Sprintf("u%d@d%d.test", n, i)))
						if name == "slow" && n >= taken { // those before are taken; a deaf receiver would need seconds for such
							m.Content = append(m.Content, strings.Repeat("0123456789abcdef\r\n", 5000)...)
						}
						batch = append(batch, m)
					}
					r.feed(batch...)
				})
			}
			clients.Wait()
			r.until("the rogues stall", func() bool {
				for _, rg := range rogues {
					if rg.Stalled.Load() == 0 {
						return false
					}
				}
				return true
			})
			want := make(copies)
			var batch []feed.Message
			for n := range 20 {
				m := letter(fmt.Sprintf("<good.%d>", n), mail.Address(fmt.Sprintf("u%d@good.test", n)))
				want.add(fmt.Sprintf("<good.%d>", n), m.Recipients...)
				batch = append(batch, m)
			}
			r.feed(batch...)
			r.until("all good mail is delivered", func() bool { return len(box.deliveries()) >= 20 })
			open := int64(0)
			for _, rg := range rogues {
				open += rg.Open.Load()
			}
			t.Logf("20 of 20 beside %d connections that stall", open)
			box.copies().matches(t, want)
		})
	}
}

// Receivers that take a message and then say more than they were asked, or say it
// with different codes, are given every message once, and none comes back.
//
// At level overlap, the default, a message is only given to them when the one before it
// was taken: behind the end of that one its MAIL would already have been sent, and what
// the receiver says unasked would be the beginning of the reply to MAIL. They say nothing
// after that, so it would be deferred when smtp_mail_timeout is over, rightly.
func TestUnaskedReplies(t *testing.T) {
	t.Parallel()
	for level, together := range map[string]bool{"group": true, "overlap": false} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			var table []string
			var batch []feed.Message
			rogues := map[string]*sink.Rogue{}
			for _, how := range []string{"octet", "twice", "mixed"} {
				rogues[how] = infest(t, ".", how, 0)
				table = append(table, how+".test", rogues[how].Address())
				for n := range 8 {
					batch = append(batch, letter(fmt.Sprintf("<%s.%d>", how, n), mail.Address(fmt.Sprintf("u%d@%s.test", n, how))))
				}
			}
			r := start(t, t.TempDir(), fmt.Sprintf("[transport.smtp]\npipelining = %q\n", level)+routes(table...))
			for n := 1; len(batch) > 0; batch = batch[n:] {
				if together {
					n = len(batch)
				}
				r.feed(batch[:n]...)
				r.settled()
			}
			for how, rogue := range rogues {
				for n := range 8 {
					if count := rogue.Times(fmt.Sprintf("<%s.%d>", how, n)); count != 1 {
						t.Errorf("message %d for %s was taken %d times, want once", n, how, count)
					}
				}
			}
			if n := r.log.count("status=bounced") + r.log.count("status=deferred"); n > 0 {
				t.Errorf("%d recipients were deferred or bounced", n)
			}
		})
	}
}
