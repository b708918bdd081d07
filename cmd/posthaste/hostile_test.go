package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A rogue is a receiver that takes some messages as a good one does, so that many
// connections are opened to it, and then stalls at one stage on every connection.
type rogue struct {
	stage   string // "greeting", a verb, "." or "content"
	how     string // what it does there; see stall
	good    int64  // after how many messages it begins
	address string

	taken   atomic.Int64
	open    atomic.Int64
	stalled atomic.Int64  // sessions that came to that
	held    chan struct{} // how is "hold": gets one for each reply that waits for release
	release chan struct{}
	keys    sync.Map // of messages, to how often they were taken (*atomic.Int64)
}

// take counts a message that is about to be acknowledged.
func (r *rogue) take(key string) {
	n, _ := r.keys.LoadOrStore(key, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// infest starts a rogue.
func infest(t *testing.T, stage, how string, good int64) *rogue {
	t.Helper()
	ln := listen(t)
	r := &rogue{stage: stage, how: how, good: good, address: ln.Addr().String(), held: make(chan struct{}, 100), release: make(chan struct{})}
	var conns sync.Map
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Store(c, true)
			r.open.Add(1)
			running.Go(func() {
				defer r.open.Add(-1)
				defer c.Close()
				r.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		running.Wait()
	})
	return r
}

// serve is one session, without a check of anything.
func (r *rogue) serve(c net.Conn) {
	in := bufio.NewReader(c)
	if !r.say(c, "greeting", "220 rogue") {
		return
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		verb, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		reply := map[string]string{"EHLO": "250-rogue\r\n250 PIPELINING", "DATA": "354 go"}[verb]
		if reply == "" {
			reply = "250 ok"
		}
		if verb == "MAIL" && (r.stalls("greeting") || r.stalls("EHLO")) {
			return // no old connection goes on
		}
		if !r.say(c, verb, reply) || verb == "QUIT" {
			return
		}
		if verb != "DATA" {
			continue
		}
		key := ""
		for line != ".\r\n" {
			if r.stalls("content") && r.stall(c, "") {
				return
			}
			if line, err = in.ReadString('\n'); err != nil {
				return
			}
			if id, ok := strings.CutPrefix(line, "Message-ID: "); ok {
				key = strings.TrimSpace(id)
			}
		}
		r.take(key)
		if !r.say(c, ".", "250 taken") {
			return
		}
		r.taken.Add(1)
	}
}

func (r *rogue) stalls(stage string) bool { return r.stage == stage && r.taken.Load() >= r.good }

func (r *rogue) say(c net.Conn, stage, reply string) (more bool) {
	if r.stalls(stage) {
		return !r.stall(c, reply+"\r\n")
	}
	_, err := c.Write([]byte(reply + "\r\n"))
	return err == nil
}

// stall returns when the other end has closed the connection.
func (r *rogue) stall(c net.Conn, reply string) bool {
	r.stalled.Add(1)
	slowly := time.NewTicker(100 * time.Millisecond)
	defer slowly.Stop()
	switch r.how {
	case "deaf":
		for buf := make([]byte, 1); ; { // an octet at a time, as slowly as it may
			<-slowly.C
			if _, err := c.Read(buf); err != nil {
				return true
			}
		}
	case "octet": // behind the reply
		c.Write([]byte(reply + "2"))
	case "twice":
		c.Write([]byte(reply + reply))
	case "hold":
		r.held <- struct{}{}
		<-r.release
		c.Write([]byte(reply))
		return false
	case "mixed":
		c.Write([]byte("550-no\r\n" + reply))
		return false
	case "part":
		c.Write([]byte("250-"))
	case "drip":
		for err := error(nil); err == nil; {
			_, err = c.Write([]byte("2"))
			if reply != "" {
				reply = ""
				_, err = c.Write([]byte("50-"))
			}
			<-slowly.C
		}
		return true
	}
	for buf := make([]byte, 4096); ; {
		if _, err := c.Read(buf); err != nil {
			return true
		}
	}
}

// Six destinations whose receivers stall, in whatever state of a session, after
// they have taken enough mail to be given many connections, must not keep mail of a
// healthy destination waiting.
func TestHostileDestinations(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][][2]string{
		"octet":   {{".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}},
		"silent":  {{"greeting", ""}, {"EHLO", ""}, {"MAIL", ""}, {"RCPT", ""}, {"DATA", ""}, {".", ""}},
		"partial": {{"greeting", "drip"}, {"EHLO", "part"}, {"MAIL", "drip"}, {"RCPT", "part"}, {"DATA", "drip"}, {".", "part"}},
		"held":    {{"MAIL", ""}, {"RCPT", ""}, {"DATA", ""}, {".", ""}, {"MAIL", "part"}, {".", "drip"}},
		"slow":    {{"content", "deaf"}, {"content", "deaf"}, {"content", "deaf"}, {"content", ""}, {"content", "drip"}, {"content", "part"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := receive(t, sink.Config{})
			table := []string{"good.test", box.address}
			var rogues []*rogue
			for i, what := range list {
				r := infest(t, what[0], what[1], 100)
				rogues = append(rogues, r)
				table = append(table, fmt.Sprintf("d%d.test", i), r.address)
			}
			r := start(t, t.TempDir(), "shutdown_time = \"1s\"\n"+routes(table...))
			var clients sync.WaitGroup
			for i := range rogues {
				clients.Go(func() {
					var batch []feed.Message
					for n := range 200 {
						m := letter(fmt.Sprintf("<%d.%d>", i, n), mail.Address(fmt.Sprintf("u%d@d%d.test", n, i)))
						if name == "slow" && n > 50 {
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
					if rg.stalled.Load() == 0 {
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
			began := time.Now()
			r.feed(batch...)
			r.until("all good mail is delivered", func() bool { return len(box.deliveries()) >= 20 })
			took := time.Since(began)
			open := int64(0)
			for _, rg := range rogues {
				open += rg.open.Load()
			}
			t.Logf("20 of 20 in %v beside %d connections that stall", took, open)
			if took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			box.copies().matches(t, want)
		})
	}
}

// Receivers that take a message and then say more than they were asked, or say it
// with different codes, are given every message once, and none comes back.
func TestUnaskedReplies(t *testing.T) {
	t.Parallel()
	var table []string
	var batch []feed.Message
	rogues := map[string]*rogue{}
	for _, how := range []string{"octet", "twice", "mixed"} {
		rogues[how] = infest(t, ".", how, 0)
		table = append(table, how+".test", rogues[how].address)
		for n := range 8 {
			batch = append(batch, letter(fmt.Sprintf("<%s.%d>", how, n), mail.Address(fmt.Sprintf("u%d@%s.test", n, how))))
		}
	}
	r := start(t, t.TempDir(), routes(table...))
	r.feed(batch...)
	r.settled()
	for how, rogue := range rogues {
		for n := range 8 {
			count, _ := rogue.keys.Load(fmt.Sprintf("<%s.%d>", how, n))
			if c, ok := count.(*atomic.Int64); !ok || c.Load() != 1 {
				t.Errorf("message %d for %s was not taken once: %v", n, how, count)
			}
		}
	}
	if n := r.log.count("status=bounced") + r.log.count("status=deferred"); n > 0 {
		t.Errorf("%d recipients were deferred or bounced", n)
	}
}
