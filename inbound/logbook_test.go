package inbound

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that is refused 9,300 times a second fills the log, and the disk with it.
// It gets a few lines, and one with the count; the count of an interval that a stop
// cuts short is not lost.
func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{ClientConnectionLimit: 1, LimitExceptions: nil}, nil, EarlyLog)
		first := ts.dial(t, "192.0.2.1")
		first.hear("220")
		refuse := func(n int) {
			for range n {
				c := ts.dial(t, "192.0.2.1")
				c.hear("421")
				c.Close()
			}
		}
		lines := func(text string) int { return strings.Count(ts.log.String(), text) }
		refuse(1000)
		if n := lines(`msg="connection refused"`); n != logInFull {
			t.Errorf("%d lines for 1000 refusals, want %d", n, logInFull)
		}
		first.say("NOOP")
		first.hear("250")
		time.Sleep(logInterval)
		synctest.Wait()
		if lines(fmt.Sprintf("client=192.0.2.1 reason=%q again=%d within=60", refusedClient.String(), 1000-logInFull)) != 1 {
			t.Errorf("no count in the log:\n%s", ts.log)
		}
		refuse(7)
		first.Close()
		ts.end(t)
		if lines(fmt.Sprintf("again=%d ", 7-logInFull)) != 1 {
			t.Errorf("the last count is lost:\n%s", ts.log)
		}
	})
}

// Very many clients that are each refused once use bounded memory and a bounded
// number of lines.
func TestRefusalsOfManyClients(t *testing.T) {
	var log syncBuffer
	b := newLogbook(slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 100_000 {
		b.note(0, "rejected", fmt.Sprint("192.0.2.", i), fmt.Sprint("reason ", i%1000))
	}
	if len(b.seen) > 2*occurrencesMax+1 {
		t.Errorf("%d occurrences are remembered", len(b.seen))
	}
	b.close(logInterval)
	total := strings.Count(log.String(), "\n")
	if total > (2*occurrencesMax+1)*(logInFull+1) || !strings.Contains(log.String(), "client=others reason=others again=") {
		t.Errorf("%d lines", total)
	}
}

// A full disk refuses all clients: that is one problem, not one for each client.
func TestFullDiskIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		ts.sink.refuse(fmt.Errorf("%w: 3 MB left", ErrFull))
		for i := range 100 {
			c := ts.dial(t, fmt.Sprintf("192.0.2.%d", i))
			c.hello()
			c.say("MAIL FROM:<a@a.example>")
			c.hear("452 4.3.1")
			c.Close()
		}
		ts.sink.refuse(errors.New("the disk is on fire"))
		c := ts.dial(t, "192.0.2.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example>")
		c.hear("451 4.3.0")
		c.Close()
		ts.end(t)
		if n := strings.Count(ts.log.String(), `msg="no room for messages"`); n != logInFull+1 {
			t.Errorf("%d lines, want %d\n%s", n, logInFull+1, ts.log)
		}
		if !strings.Contains(ts.log.String(), fmt.Sprintf("again=%d", 100-logInFull)) || !strings.Contains(ts.log.String(), "the disk is on fire") {
			t.Errorf("log:\n%s", ts.log)
		}
	})
}

// A client that declares the size of its message is refused at MAIL if there is no
// room for it, before it has sent anything; smaller messages are accepted.
func TestAnnouncedSizeNeedsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		ts.sink.room = 50_000
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example> SIZE=50001")
		c.hear("452 4.3.1")
		c.say("MAIL FROM:<a@a.example> SIZE=50000")
		c.hear("250")
		c.Close()
		ts.end(t)
	})
}
