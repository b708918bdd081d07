package outbound

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A stall is a server that stops keeping to the protocol at one point of a
// connection, in which the connection must not remain longer than limit.
type stall struct {
	state string // the state of the connection
	say   map[string]string
	wait  client.WaitKind // what the session waits for there
}

// stalls returns every state of a connection in which the server is to speak or to
// read next, and for each of them the ways in which it does neither.
func stalls(level mail.Level) (list []stall) {
	ehlo := "250-mx|250-PIPELINING|250 CHUNKING"
	if level == mail.LevelLockStep {
		ehlo = "250 mx"
	}
	for _, at := range []struct {
		state string // an occasion of a fakeServer
		wait  client.WaitKind
		good  string // what it says there the first time, or nothing
		say   map[string]string
	}{
		{state: "greeting", wait: client.WaitGreeting},
		{state: "ehlo", wait: client.WaitHello},
		{state: "helo", wait: client.WaitHello, say: map[string]string{"ehlo": "502 what"}},
		{state: "mail", wait: client.WaitMail},
		{state: "mail", wait: client.WaitMail, good: "250 ok;"},
		{state: "rcpt", wait: client.WaitRcpt},
		{state: "rcpt", wait: client.WaitRcpt, good: "250 ok;"},
		{state: "data", wait: client.WaitDataInit},
		{state: "final", wait: client.WaitFinal},
		{state: "final", wait: client.WaitFinal, good: "250 taken;"},
		{state: "rset", wait: client.WaitReset, say: map[string]string{"rcpt": "550 no;250 ok"}},
		{state: "idle", wait: client.WaitUnasked},
	} {
		for name, fault := range map[string]string{
			"silence": "", "2": "part 2", "25": "part 25", "250": "part 250", "line": "part 250 ok", "first": "part 250-ok|", "second": "part 250-ok|2",
			"deaf": "deaf", "deaf2": "deaf part 2",
			"drip": "drip=5s 250-" + strings.Repeat("x", 200), "trickle": "drip=1s 250-" + strings.Repeat("x", 5000),
		} {
			if at.state == "idle" && !strings.Contains(fault, "2") {
				continue // it keeps to the protocol: only a hangup ends that
			}
			say := map[string]string{"ehlo": ehlo}
			maps.Copy(say, at.say)
			say[at.state] = at.good + fault
			list = append(list, stall{at.state + "=" + at.good + name, say, at.wait})
		}
	}
	for _, part := range []string{"2", "250", "250-ok|", "250 ok|2"} { // together with the reply that ends the work
		list = append(list, stall{"final+" + part, map[string]string{"ehlo": ehlo, "final": "part 250 taken|" + part}, client.WaitUnasked})
	}
	for _, reading := range []string{"deaf 354 go", "deaf part 354 go|2"} {
		if level < mail.LevelStream {
			list = append(list, stall{"data=" + reading, map[string]string{"ehlo": ehlo, "data": reading}, client.WaitDataBlock})
		}
	}
	return append(list, stall{"dial", map[string]string{"dial": "hang"}, client.WaitNothing})
}

// A connection is in no state for longer than that state's time, whatever the
// server does or leaves undone there, whether or not work waits for the connection
// and whether or not Hangup was called; and all that was sent gets its result.
// Without a deadline for the rest of a reply that nothing asked for, one octet
// behind a final reply held a connection, and the message sent to it next, until
// the program was restarted.
func TestEveryStateHasADeadline(t *testing.T) {
	config := TransportConfig{
		HeloTimeout: 11 * time.Second, MailTimeout: 22 * time.Second, RcptTimeout: 33 * time.Second,
		DataInitTimeout: 44 * time.Second, DataXferTimeout: 55 * time.Second, DataDoneTimeout: 66 * time.Second,
		RsetTimeout: 77 * time.Second, ConnectTimeout: 88 * time.Second,
	}
	met := map[client.WaitKind]bool{client.WaitNothing: true, client.WaitQuit: true} // see TestPartingHasADeadline
	for _, level := range levels {
		for _, s := range stalls(level) {
			for _, when := range []string{"before", "after", "hangup"} {
				t.Run(fmt.Sprintf("%v/%s/%s", level, s.state, when), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { stalled(t, config, level, s, when) })
				})
				met[s.wait] = true
			}
		}
	}
	for k := client.WaitNothing; k <= client.WaitUnasked; k++ {
		if !met[k] {
			t.Errorf("nothing stalled while waiting for %v", k)
		}
	}
}

// idles reports whether the server has begun to say something unasked before the
// second message is sent.
func (s *stall) idles(when string) bool {
	return when == "after" && s.wait == client.WaitUnasked && strings.Contains(s.say["idle"]+s.say["final"], "part")
}

// longest returns how long a connection may be in the state in which the server
// stalls. What stalls between two messages may be taken for the reply to whatever
// was sent next.
func (s *stall) longest(config *TransportConfig, level mail.Level, when string) time.Duration {
	switch {
	case s.state == "dial":
		return config.ConnectTimeout
	case s.idles(when):
		return -lastWords // work does not wait for its last words
	case level < mail.LevelStream && s.wait != client.WaitUnasked:
		return config.wait(s.wait)
	}
	return max(config.RcptTimeout, config.DataDoneTimeout, config.RsetTimeout)
}

// stalled sends two messages, the second with the first, or a second after it, or
// not at all, to a server that stalls.
func stalled(t *testing.T, config TransportConfig, level mail.Level, s stall, when string) {
	n := newFakeNet()
	n.add("1", s.say)
	content := fakeContent{data: strings.Repeat("x\r\n", 50000)}
	if s.wait != client.WaitDataBlock && s.state != "dial" {
		content.data = "x\r\n"
	}
	c := newTestClient(t, n, store{1: content}, config)
	limit := s.longest(c.transports["smtp"], level, when) + lastWords + time.Second/2
	began := time.Now()
	k, _ := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx1", Addr: address("1")}, Level: level})
	told, sent := 0, 0
	if k != nil {
		send := func() {
			sent++
			d := message(1, "b@example.net")
			d.Envelope.Size = int64(len(content.data))
			k.Send(uint64(sent), d)
		}
		if send(); when == "before" {
			send()
		}
		var running sync.WaitGroup
		running.Go(func() {
			k.Run(t.Context(), func(id uint64, r mail.DeliveryResult) {
				if told++; id != uint64(told) {
					t.Errorf("result of %d reported when it was the turn of %d", id, told)
				}
				if id == 2 && s.idles(when) && r.Outcomes[0].Result != mail.Untried {
					t.Errorf("the message behind has suffered: %+v", r)
				}
			})
		})
		switch when {
		case "after":
			time.Sleep(time.Second / 2)
			synctest.Wait()
			send()
		case "hangup":
			k.Hangup()
		}
		running.Wait()
	}
	took := time.Since(began)
	if took > limit {
		t.Errorf("took %v, want at most %v", took, limit)
	}
	if k != nil && when != "after" && told != sent || told < min(sent, 1) {
		t.Errorf("%d were sent, %d told", sent, told)
	}
	n.running.Wait()
}

// A connection that is hung up says goodbye, or finds out what it is to find out
// before, in a time that the server cannot stretch: not by saying nothing, nor by
// reading nothing, nor by having begun to say something.
func TestPartingHasADeadline(t *testing.T) {
	config := TransportConfig{RsetTimeout: 7 * time.Second}
	for name, say := range map[string]map[string]string{
		"quit unanswered": {"quit": ""},
		"quit in part":    {"quit": "part 2"},
		"quit unread":     {"idle": "deaf"},
		"idle in part":    {"idle": "part 2"},
		"idle in drips":   {"idle": "drip=500ms 250-" + strings.Repeat("x", 5000)},
		"probe: silence":  {"rset": ""},
		"probe: part":     {"rset": "part 250-reset|"},
		"probe: drips":    {"rset": "drip=500ms 250-" + strings.Repeat("x", 5000)},
		"probe: MAIL":     {"mail": "250 ok;part 2"},
		"probe: BDAT":     {"bdat": "part 503"},
		"probe: QUIT":     {"quit": "part 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet()
				say["ehlo"] = "250-mx|250-PIPELINING|250 CHUNKING"
				n.add("1", say)
				c := newTestClient(t, n, store{1: {data: "x\r\n"}}, config)
				k, _ := c.Dial(t.Context(), mail.Opening{
					Transport: "smtp", Host: mail.Host{Addr: address("1")}, Level: mail.LevelOverlap, Probe: strings.HasPrefix(name, "probe"),
				})
				k.Send(1, message(1, "b@example.net"))
				var running sync.WaitGroup
				running.Go(func() { k.Run(t.Context(), func(uint64, mail.DeliveryResult) {}) })
				time.Sleep(600 * time.Millisecond)
				began := time.Now()
				k.Hangup()
				running.Wait()
				if took := time.Since(began); took > 2*config.RsetTimeout {
					t.Errorf("took %v", took)
				}
				n.running.Wait()
			})
		})
	}
}

// Nothing that a session waits for may last, but for what only we can bring about.
func TestEveryWaitEnds(t *testing.T) {
	config := TransportConfig{}.WithDefaults()
	l := &line{config: &config}
	for k := client.WaitNothing; k <= client.WaitUnasked; k++ {
		if l.until(k).IsZero() != (k == client.WaitNothing) {
			t.Errorf("waiting for %v ends at %v", k, l.until(k))
		}
	}
}
