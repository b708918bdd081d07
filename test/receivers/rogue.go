package main

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A way is how a rogue stalls: at a stage, which is "greeting", the verb of a command,
// "content", or "." for the reply to the end of the content.
type way struct{ stage, how string }

// ways are all that rogues do, in groups of six and one of the rest.
//
//   - silent: says nothing more
//   - drip: says a reply that never ends, one octet every 100 ms
//   - part: says the first line of a reply, and nothing more
//   - octet: says the whole reply and, behind it, the first octet of another
//   - deaf: reads one octet every 100 ms, out of a small buffer
//   - never: reads nothing more
var ways = []way{
	{".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"},
	{"greeting", "silent"}, {"EHLO", "silent"}, {"MAIL", "silent"}, {"RCPT", "silent"}, {"DATA", "silent"}, {".", "silent"},
	{"greeting", "drip"}, {"EHLO", "drip"}, {"MAIL", "drip"}, {"RCPT", "drip"}, {"DATA", "drip"}, {".", "drip"},
	{"greeting", "part"}, {"EHLO", "part"}, {"MAIL", "part"}, {"RCPT", "part"}, {"DATA", "part"}, {".", "part"},
	{"content", "deaf"}, {"content", "never"}, {"content", "never"}, {"content", "drip"}, {"MAIL", "never"}, {"EHLO", "octet"},
}

// A rogue is a receiver that takes some messages as a good one does, and then stalls
// on every connection.
type rogue struct {
	way
	good    atomic.Int64  // messages that it takes first
	busy    time.Duration // how long it takes over each of these
	delay   time.Duration // of "slow", before the reply
	address string

	ln      net.Listener
	taken   atomic.Int64
	open    atomic.Int64
	stalled atomic.Int64
	conns   sync.Map
}

// infest starts a rogue.
func infest(w way, good int64, delay time.Duration) (*rogue, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &rogue{way: w, delay: delay, address: ln.Addr().String(), ln: ln}
	r.good.Store(good)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.open.Add(1)
			r.conns.Store(c, true)
			go func() {
				defer r.open.Add(-1)
				defer r.conns.Delete(c)
				defer c.Close()
				r.serve(c)
			}()
		}
	}()
	return r, nil
}

func (r *rogue) close() {
	r.ln.Close() //nolint:errcheck // it is of no more use
	r.conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
}

// serve is one session, without a check of anything.
func (r *rogue) serve(c net.Conn) {
	if r.how == "never" || r.how == "deaf" {
		c.(*net.TCPConn).SetReadBuffer(4096) //nolint:errcheck // then it stalls a little later
	}
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
			return // only a new connection can stall there
		}
		if !r.say(c, verb, reply) || verb == "QUIT" {
			return
		}
		if verb != "DATA" {
			continue
		}
		for line != ".\r\n" {
			if r.stalls("content") {
				r.stall(c, "")
				return
			}
			if line, err = in.ReadString('\n'); err != nil {
				return
			}
		}
		time.Sleep(r.busy)
		if !r.say(c, ".", "250 taken") {
			return
		}
		r.taken.Add(1)
	}
}

func (r *rogue) stalls(stage string) bool { return r.stage == stage && r.taken.Load() >= r.good.Load() }

// say reports whether the session goes on.
func (r *rogue) say(c net.Conn, stage, reply string) bool {
	if r.stalls(stage) {
		if r.how != "slow" {
			r.stall(c, reply+"\r\n")
			return false
		}
		r.stalled.Add(1)
		time.Sleep(r.delay)
	}
	_, err := c.Write([]byte(reply + "\r\n"))
	return err == nil
}

// stall returns when the connection is closed.
func (r *rogue) stall(c net.Conn, reply string) {
	r.stalled.Add(1)
	const pace = 100 * time.Millisecond
	switch r.how {
	case "deaf":
		for buf := make([]byte, 1); ; time.Sleep(pace) {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	case "never":
		// Its own end closes it, so nothing tells that the peer has gone.
		time.Sleep(time.Minute)
		return
	case "octet":
		c.Write([]byte(reply + "2")) //nolint:errcheck // the read tells
	case "part":
		c.Write([]byte("250-")) //nolint:errcheck // the read tells
	case "drip":
		if _, err := c.Write([]byte("250-")); err != nil {
			return
		}
		for {
			if _, err := c.Write([]byte("2")); err != nil {
				return
			}
			time.Sleep(pace)
		}
	}
	for buf := make([]byte, 4096); ; {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}
