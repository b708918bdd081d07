package inbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A message passes through; the sink gets what was sent, and the log has the keys
// that operators search for.
func TestMessageIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.envelope()
		c.say("Subject: x", "", "text", ".", "QUIT")
		c.hear("250 2.0.0 Ok: queued as ")
		c.hear("221 ")
		c.hearEnd()
		ts.end(t)
		got := ts.sink.taken()
		if len(got) != 1 {
			t.Fatalf("%d messages", len(got))
		}
		m := got[0]
		if m.envelope.Sender != "a@a.example" || len(m.recipients) != 1 || m.recipients[0].Address != "b@b.example" {
			t.Errorf("envelope %+v, recipients %v", m.envelope, m.recipients)
		}
		if want := mail.Instant(time.Now().UnixNano()); m.envelope.Arrived != want {
			t.Errorf("arrived %s, want %s", m.envelope.Arrived, want)
		}
		if !strings.HasPrefix(string(m.content), "Received: from client.example ([127.0.0.1])\r\n\tby mx.example ") ||
			!strings.HasSuffix(string(m.content), "\r\nSubject: x\r\n\r\ntext\r\n") {
			t.Errorf("content %q", m.content)
		}
		if m.envelope.Size != int64(len(m.content)) {
			t.Errorf("size %d, want %d", m.envelope.Size, len(m.content))
		}
		want := fmt.Sprintf("msg=accepted id=%s from=a@a.example client=127.0.0.1 helo=client.example proto=ESMTP size=%d nrcpt=1", m.id, len(m.content))
		if !strings.Contains(ts.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, ts.log)
		}
		if n := ts.Snapshot(); n.Messages != 1 || n.Recipients != 1 || n.Connections != 1 || n.Octets != m.envelope.Size {
			t.Errorf("counters %+v", n)
		}
	})
}

// B-70, S-31: strangers may send to relay domains only, whatever EHLO name they
// use; unix sockets may send anywhere.
func TestRelaying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		for _, test := range []struct{ from, reply string }{
			{"192.0.2.1", "550 5.7.1 <x@elsewhere.example>: Relay access denied"},
			{"127.0.0.1", "250 2.1.5"},
			{"", "250 2.1.5"},
		} {
			c := ts.dial(t, test.from)
			c.hear("220 ")
			c.say("EHLO localhost", "MAIL FROM:<root@mx.example>", "RCPT TO:<x@elsewhere.example>", "RCPT TO:<x@b.example>", "QUIT")
			c.hear("250 ")
			c.hear("250 2.1.0")
			c.hear(test.reply)
			c.hear("250 2.1.5")
			c.hear("221 ")
		}
		ts.end(t)
	})
}

// B-97: a message that the sink cannot accept is refused temporarily and never
// answered with 250.
func TestSinkFails(t *testing.T) {
	full := fmt.Errorf("disk: %w", ErrFull)
	broken := errors.New("input/output error")
	for _, test := range []struct {
		name  string
		set   func(*memorySink)
		reply []string
	}{
		{"begin, full", func(s *memorySink) { s.beginErr = full }, []string{"452 4.3.1", "503", "503"}},
		{"begin, broken", func(s *memorySink) { s.beginErr = broken }, []string{"451 4.3.0", "503", "503"}},
		{"write, full", func(s *memorySink) { s.writeErr = full }, []string{"250", "250", "354", "452 4.3.1"}},
		{"commit, full", func(s *memorySink) { s.commitErr = full }, []string{"250", "250", "354", "452 4.3.1"}},
		{"commit, broken", func(s *memorySink) { s.commitErr = broken }, []string{"250", "250", "354", "451 4.3.0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := start(t, Config{}, nil, EarlyLog)
				test.set(ts.sink)
				c := ts.dial(t, "127.0.0.1")
				c.hello()
				c.say("MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>", "DATA")
				for i, want := range test.reply {
					if i == 3 {
						c.say("text", ".")
					}
					c.hear(want)
				}
				c.say("QUIT")
				c.hear("221")
				ts.end(t)
				if n := len(ts.sink.taken()); n != 0 {
					t.Errorf("%d messages were taken", n)
				}
				if ts.Snapshot().Failures != 1 {
					t.Errorf("counters %+v", ts.Snapshot())
				}
			})
		})
	}
}

// B-10, S-13: a connection that is lost in the middle of content leaves
// nothing behind; what was committed before stays.
func TestLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.envelope()
		c.say("one", ".", "MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>", "DATA")
		c.hear("250 2.0.0")
		c.hear("250 2.1.0")
		c.hear("250 2.1.5")
		c.hear("354")
		c.say("half of a mess")
		synctest.Wait()
		c.Close()
		synctest.Wait()
		if len(ts.sink.taken()) != 1 || ts.sink.abortions() != 1 {
			t.Errorf("%d messages, %d aborted", len(ts.sink.taken()), ts.sink.abortions())
		}
		ts.end(t)
	})
}

// A panic in one connection costs that connection only.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		ts.sink.panics = true
		bystander := ts.dial(t, "127.0.0.1")
		bystander.hello()
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>")
		c.hearEnd()
		synctest.Wait()
		bystander.say("NOOP")
		bystander.hear("250")
		if ts.Snapshot().Panics != 1 || ts.sink.abortions() != 1 || !strings.Contains(ts.log.String(), "a bug") {
			t.Errorf("counters %+v, log %s", ts.Snapshot(), ts.log)
		}
		bystander.Close()
		ts.end(t)
	})
}

type slowGate struct {
	delay time.Duration
	err   error
}

func (g slowGate) Wait(ctx context.Context) error {
	select {
	case <-time.After(g.delay):
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The gate slows MAIL down, and may refuse it.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, slowGate{delay: time.Second}, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		from := time.Now()
		c.envelope()
		inTime(t, from, time.Second)
		c.Close()
		ts.end(t)
	})
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, slowGate{err: ErrFull}, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example>")
		c.hear("452 4.3.1")
		c.Close()
		ts.end(t)
	})
}

// The end of Serve: an idle client gets a 421, content in transfer is completed and
// then its client gets a 421, new clients are not admitted.
func TestGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		idle := ts.dial(t, "127.0.0.1")
		idle.hello()
		between := ts.dial(t, "127.0.0.1")
		between.hello()
		between.say("MAIL FROM:<a@a.example>")
		between.hear("250")
		busy := ts.dial(t, "127.0.0.1")
		busy.hello()
		busy.envelope()
		busy.say("the first half")
		synctest.Wait()
		ts.stop()
		idle.hear("421 4.3.2 mx.example ")
		idle.hearEnd()
		between.hear("421 4.3.2 mx.example ")
		between.hearEnd()
		time.Sleep(5 * time.Second)
		busy.say("the second half", ".", "MAIL FROM:<c@a.example>")
		busy.hear("250 2.0.0")
		busy.hear("421 4.3.2")
		busy.hearEnd()
		ts.end(t)
		if n := len(ts.sink.taken()); n != 1 {
			t.Errorf("%d messages", n)
		}
	})
}

// The end of Serve does not wait forever: after the grace period the remaining
// connections are cut off.
func TestGraceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{Grace: 3 * time.Second}, nil, EarlyLog)
		slow := ts.dial(t, "127.0.0.1")
		slow.hello()
		slow.envelope()
		waits := ts.dial(t, "127.0.0.1")
		ts.sink.hold = make(chan struct{})
		waits.hello()
		waits.envelope()
		waits.say("text", ".")
		synctest.Wait()
		from := time.Now()
		ts.end(t)
		inTime(t, from, 3*time.Second)
		if n := len(ts.sink.taken()); n != 0 {
			t.Errorf("%d messages", n)
		}
	})
}

// B-01: a client that speaks before it was greeted.
func TestEarlyTalker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{GreetPause: time.Second}, nil, EarlyReject)
		c := ts.dial(t, "127.0.0.1")
		c.say("EHLO spammer.example")
		c.hear("554 5.5.0")
		c.hearEnd()
		patient := ts.dial(t, "127.0.0.1")
		from := time.Now()
		patient.hello()
		inTime(t, from, time.Second)
		patient.Close()
		ts.end(t)
	})
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{GreetPause: time.Second}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.say("EHLO swaks.example", "QUIT")
		c.hear("220 ")
		c.hear("250 ")
		c.hear("221 ")
		ts.end(t)
		if ts.Snapshot().Early != 1 || !strings.Contains(ts.log.String(), "early talker") {
			t.Errorf("counters %+v, log %s", ts.Snapshot(), ts.log)
		}
	})
}

// B-37, B-08: a thousand transactions sent at once; the replies come in order while
// the client is still writing, and are not all buffered.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		var script []string
		for i := range 1000 {
			script = append(script, fmt.Sprintf("MAIL FROM:<%d@a.example>", i), "RCPT TO:<b@b.example>", "BDAT 6 LAST", "text")
		}
		c.say(append(script, "QUIT")...)
		for range 1000 {
			c.hear("250 2.1.0")
			c.hear("250 2.1.5")
			c.hear("250 2.0.0 Ok: queued")
		}
		c.hear("221")
		ts.end(t)
		got := ts.sink.taken()
		if len(got) != 1000 {
			t.Fatalf("%d messages", len(got))
		}
		for i, m := range got {
			if want := mail.Address(fmt.Sprintf("%d@a.example", i)); m.envelope.Sender != want || !strings.HasSuffix(string(m.content), "\r\ntext\r\n") {
				t.Fatalf("message %d is from %s: %q", i, m.envelope.Sender, m.content)
			}
		}
	})
}

// A listener that fails temporarily is retried; one that fails permanently ends
// Serve with its error, and a connection of an unknown kind is not trusted.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		ts.listener.failures <- errors.New("too many open files")
		from := time.Now()
		ts.listener.failures <- errors.New("too many open files")
		inTime(t, from, 5*time.Millisecond)
		ts.dial(t, "127.0.0.1").hear("220")
		inTime(t, from, 15*time.Millisecond)
		ours, theirs := net.Pipe()
		ts.listener.conns <- theirs // its address is "pipe"
		if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read: %v", err)
		}
		ts.listener.Close()
		if err := <-ts.served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// A Config is complete, or all of its errors are returned at once.
func TestConfig(t *testing.T) {
	if _, err := New(Config{}, &memorySink{}, nil, nil); err == nil || !strings.Contains(err.Error(), "hostname") {
		t.Errorf("no hostname: %v", err)
	}
	if _, err := New(Config{Session: sessionConfig()}, &memorySink{}, nil, nil); err == nil {
		t.Error("a server without a policy was made")
	}
	cfg := Config{Session: sessionConfig(), ConnectionLimit: -5, CommandTimeout: -1, Grace: -1}
	err := cfg.WithDefaults().Validate()
	for _, want := range []string{"connection limit", "command timeout", "grace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about the %s: %v", want, err)
		}
	}
	for _, text := range []string{"log", "reject"} {
		var e EarlyTalkers
		if err := e.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
		}
		if got, _ := e.MarshalText(); string(got) != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	if err := new(EarlyTalkers).UnmarshalText([]byte("maybe")); err == nil {
		t.Error("maybe was accepted")
	}
}
