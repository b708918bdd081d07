package inbound

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An operator reloads a configuration. A listener that stays is not interrupted, and its
// new limits are for new clients; one that is gone closes, while the session on it goes
// on; and a new one is served.
func TestSetListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		old := ts.dial(t, "127.0.0.1")
		old.hello()
		gone := &testServer{Server: ts.Server, listener: newPipeListener()}
		ts.SetListeners(Listener{Listener: ts.listener}, Listener{Listener: gone.listener, Name: "gone"})
		there := gone.dial(t, "127.0.0.1")
		there.hello()

		came := &testServer{Server: ts.Server, listener: newPipeListener()}
		ts.SetListeners(Listener{Listener: came.listener, Name: "came"}, Listener{Listener: ts.listener, Name: "kept", Limits: Limits{Recipients: 100, CommandTimeout: time.Minute}})
		synctest.Wait()
		select {
		case <-gone.listener.closed:
		default:
			t.Error("the listener that is gone is open")
		}
		for _, c := range []*client{old, there} { // with the limits that they began with
			c.say("EHLO again")
			if lines := c.hearAll(); !strings.Contains(lines, "RCPTMAX=1000") {
				t.Errorf("%q", lines)
			}
		}
		kept := ts.dial(t, "127.0.0.1")
		kept.hear("220")
		kept.say("EHLO x")
		if lines := kept.hearAll(); !strings.Contains(lines, "RCPTMAX=100\n") {
			t.Errorf("%q", lines)
		}
		from := time.Now()
		kept.hear("421 4.4.2")
		inTime(t, from, time.Minute)
		fresh := came.dial(t, "127.0.0.1")
		fresh.hello()
		fresh.envelope()
		fresh.say("x", ".", "QUIT")
		fresh.hear("250")
		fresh.hear("221")
		ts.end(t)
		if !strings.Contains(ts.log.String(), " listener=came\n") {
			t.Errorf("the log does not name the listener:\n%s", ts.log)
		}
	})
}

// A signal to reload may come before Serve, and after its end.
func TestSetListenersEarlyAndLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, err := NewRelayPolicy(RelayConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{Session: sessionConfig()}, &memorySink{}, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, second, late := newPipeListener(), newPipeListener(), newPipeListener()
		s.SetListeners(Listener{Listener: second})
		ts := &testServer{Server: s, listener: second}
		ctx, stop := contextOf(t)
		served := make(chan error)
		go func() { served <- s.Serve(ctx, Listener{Listener: first}) }()
		synctest.Wait()
		select {
		case <-first.closed:
		default:
			t.Error("the listener that was replaced is open")
		}
		ts.dial(t, "127.0.0.1").hear("220")
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.SetListeners(Listener{Listener: late})
		select {
		case <-late.closed:
		default:
			t.Error("a listener is open after the end")
		}
	})
}

// A flood at one listener leaves the others alone: at its limit the oldest client without a
// message makes room, one of this listener. And a client's connections to a listener with a
// limit of its own count there only.
func TestLimitsOfListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{ClientConnectionLimit: 3, LimitExceptions: noNetworks}, nil, EarlyLog)
		few := &testServer{Server: ts.Server, listener: newPipeListener()}
		ts.SetListeners(Listener{Listener: ts.listener}, Listener{Listener: few.listener, Name: "few", Limits: Limits{Connections: 2, ClientConnections: 5}})
		var others []*client
		for range 3 {
			c := ts.dial(t, "192.0.2.1")
			c.hello()
			others = append(others, c)
		}
		c := ts.dial(t, "192.0.2.1")
		c.hear("421 4.7.0")
		one, two := few.dial(t, "192.0.2.1"), few.dial(t, "192.0.2.2")
		one.hello()
		two.hear("220")
		three := few.dial(t, "192.0.2.1")
		one.hear("421 4.7.0")
		one.hearEnd()
		three.hello()
		three.say("MAIL FROM:<a@a.example>")
		three.hear("250 2.1.0")
		four := few.dial(t, "192.0.2.3")
		two.hear("421 4.7.0")
		four.hear("220")
		four.say("EHLO x", "MAIL FROM:<a@a.example>")
		four.hear("250")
		four.hear("250 2.1.0")
		few.dial(t, "192.0.2.4").hear("421 4.7.0") // both have begun a message
		for _, c := range others {
			c.say("NOOP")
			c.hear("250")
		}
		ts.end(t)
		for _, k := range ts.sockets {
			if n := k.terms.Load().counts; n != nil && len(n.byClient)+len(n.byPrefix)+k.open != 0 {
				t.Errorf("left behind: %+v", n)
			}
		}
	})
}

// A listener's size limit is announced and enforced, and its pause before the greeting kept.
func TestSessionLimitsOfListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{GreetPause: 3 * time.Second}, nil, EarlyReject)
		small := &testServer{Server: ts.Server, listener: newPipeListener()}
		ts.SetListeners(Listener{Listener: ts.listener, EarlyTalkers: EarlyReject},
			Listener{Listener: small.listener, EarlyTalkers: EarlyReject, Limits: Limits{Size: 70_000, GreetPause: -1}})
		from := time.Now()
		c := small.dial(t, "127.0.0.1")
		c.hello()
		inTime(t, from, 0)
		c.say("MAIL FROM:<a@a.example> SIZE=70001")
		c.hear("552 5.3.4")
		ts.dial(t, "127.0.0.1").hear("220")
		inTime(t, from, 3*time.Second)
		ts.end(t)
	})
}
