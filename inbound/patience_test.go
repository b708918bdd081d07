package inbound

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/smtp/server"
)

// A client that sends a little now and then keeps its connection, its goroutine and
// perhaps a content file for as long as the server allows. Whatever it does, in any
// phase, it is cut off unless it completes messages.
func TestEveryPhaseHasAnEnd(t *testing.T) {
	const start, mail = "EHLO c.example\r\n", "MAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\n"
	for _, c := range []struct {
		name  string
		phase server.Phase
		first string             // all at once
		again func(n int) string // then, again and again
		every time.Duration      // at this interval
		most  time.Duration      // until the end
	}{
		{"silent", server.PhaseNone, "", nil, time.Minute, 5 * time.Minute},
		{"silent after EHLO", server.PhaseNone, start, nil, time.Minute, 5 * time.Minute},
		{"octets of a command", server.PhaseNone, start, text("N"), 10 * time.Second, time.Minute},
		{"octets of an endless line", server.PhaseNone, start + strings.Repeat("x", 5000), text("x"), 10 * time.Second, time.Minute},
		{"EHLO", server.PhaseNone, "", text(start), 4 * time.Minute, 30 * time.Minute},
		{"NOOP", server.PhaseNone, start, text("NOOP\r\n"), 4 * time.Minute, 30 * time.Minute},
		{"RSET", server.PhaseNone, start, text("RSET\r\n"), 10 * time.Second, 30 * time.Minute},
		{"refused commands", server.PhaseNone, start, text("DATA\r\n"), 4 * time.Minute, 30 * time.Minute},
		{"MAIL and nothing", server.PhaseEnvelope, start + "MAIL FROM:<a@a.example>\r\n", nil, time.Minute, 5 * time.Minute},
		{"MAIL and RSET", server.PhaseNone, start, text("MAIL FROM:<a@a.example>\r\nRSET\r\n"), 4 * time.Minute, 30 * time.Minute},
		{"MAIL again", server.PhaseEnvelope, start, text("MAIL FROM:<a@a.example>\r\n"), 4 * time.Minute, 30 * time.Minute},
		{"RCPT each 10 s", server.PhaseEnvelope, start + mail, func(n int) string { return fmt.Sprintf("RCPT TO:<%d@b.example>\r\n", n) }, 10 * time.Second, 6 * time.Minute},
		{"the same RCPT", server.PhaseEnvelope, start + mail, text("RCPT TO:<b@b.example>\r\n"), 10 * time.Second, 6 * time.Minute},
		{"octets of RCPT", server.PhaseEnvelope, start + mail, text("R"), 10 * time.Second, time.Minute},
		{"NOOP in an envelope", server.PhaseEnvelope, start + mail, text("NOOP\r\n"), 10 * time.Second, 6 * time.Minute},
		{"DATA and nothing", server.PhaseContent, start + mail + "DATA\r\n", nil, time.Minute, time.Minute},
		{"octets of content", server.PhaseContent, start + mail + "DATA\r\n", text("x"), 10 * time.Second, time.Minute},
		{"content just below the rate", server.PhaseContent, start + mail + "DATA\r\n", text(strings.Repeat("x", 4900)), 10 * time.Second, time.Minute},
		{"content at the rate", server.PhaseContent, start + mail + "DATA\r\n", text(strings.Repeat("123456789012345678901234567890\r\n", 160)), 10 * time.Second, 2 * time.Hour},
		{"octets of a chunk", server.PhaseContent, start + mail + "BDAT 1000000\r\n", text("x"), 10 * time.Second, time.Minute},
		{"chunks of one octet", server.PhaseContent, start + mail, text("BDAT 1\r\nx"), 10 * time.Second, 2 * time.Minute},
		{"silence between chunks", server.PhaseContent, start + mail + "BDAT 1\r\nx", nil, time.Minute, time.Minute},
		{"NOOP between chunks", server.PhaseContent, start + mail + "BDAT 1\r\nx", text("NOOP\r\n"), 10 * time.Second, time.Minute},
		{"a command between chunks that does not end", server.PhaseContent, start + mail + "BDAT 60000\r\n" + strings.Repeat("x", 60000) + "N", nil, time.Minute, time.Minute},
		{"octets of a refused chunk", server.PhaseContent, start + "BDAT 10000000\r\n", text("x"), 10 * time.Second, time.Minute},
		{"a refused chunk at the rate", server.PhaseContent, start + "BDAT 15000000\r\n", text(strings.Repeat("x", 6000)), 10 * time.Second, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := startQuiet(t, Config{Session: server.Config{SizeLimit: 12_000_000}})
				client := ts.dial(t, "127.0.0.1")
				gone := make(chan string)
				go func() {
					last := ""
					for {
						line, err := client.replies.ReadString('\n')
						if err != nil {
							gone <- last
							return
						}
						last = line
					}
				}()
				from := time.Now()
				over := make(chan struct{})
				var writing sync.WaitGroup
				writing.Go(func() {
					var err error
					if c.first != "" {
						_, err = client.Write([]byte(c.first))
					}
					for n := 0; err == nil && c.again != nil; n++ {
						select {
						case <-time.After(c.every):
							_, err = client.Write([]byte(c.again(n)))
						case <-over:
							return
						}
					}
				})
				select {
				case last := <-gone:
					if !strings.HasPrefix(last, "421 4.4.2") && !strings.HasPrefix(last, "421 4.7.0") {
						t.Errorf("the last reply is %q", last)
					}
				case <-time.After(3 * c.most):
					t.Errorf("there after %s", 3*c.most)
				}
				if took := time.Since(from); took > c.most+c.every {
					t.Errorf("there for %s, want at most %s", took, c.most)
				}
				if !strings.Contains(ts.log.String(), "phase="+c.phase.String()) && !strings.Contains(ts.log.String(), "reason=errors") {
					t.Errorf("the log does not name the phase %s:\n%s", c.phase, ts.log)
				}
				close(over)
				client.Close()
				writing.Wait()
				ts.end(t)
			})
		})
	}
}

func text(s string) func(int) string { return func(int) string { return s } }

func startQuiet(t *testing.T, cfg Config) *testServer { return start(t, cfg, nil, EarlyLog) }

// A person at a keyboard, a list with a thousand recipients over a slow link, and a
// program that keeps its connection between messages are not cut off.
func TestPatienceWithHonestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startQuiet(t, Config{})
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		for range 20 { // a message every four minutes, for more than an hour
			time.Sleep(4 * time.Minute)
			c.envelope()
			c.say("", "text", ".")
			c.hear("250 2.0.0")
		}
		c.say("MAIL FROM:<a@a.example>")
		c.hear("250")
		for n := range 900 { // 15 minutes
			time.Sleep(time.Second)
			c.say(fmt.Sprintf("RCPT TO:<%d@b.example>", n))
			c.hear("250")
		}
		c.say("DATA")
		c.hear("354")
		time.Sleep(50 * time.Second)
		c.say("", "text", ".")
		c.hear("250 2.0.0")
		c.say("MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>")
		c.hear("250")
		c.hear("250")
		for range 20 { // chunks with pauses, at a good rate
			time.Sleep(20 * time.Second)
			c.say("BDAT 20002", strings.Repeat("x", 20000))
			c.hear("250")
		}
		c.say("BDAT 0 LAST")
		c.hear("250 2.0.0")
		c.Close()
		ts.end(t)
	})
}
