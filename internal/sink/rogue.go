package sink

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Way is how a Rogue stalls: at a stage, which is "greeting", the verb of a command,
// "content", or "." for the reply to the end of the content.
//
//   - silent: says nothing more
//   - drip: says a reply that never ends, an octet every 100 ms
//   - part: says the first line of a reply, and nothing more
//   - octet: says the whole reply and, behind it, the first octet of another
//   - twice: says the whole reply twice, and nothing more
//   - mixed: says a line with another code in front of the reply, and goes on
//   - deaf: reads an octet every 100 ms, out of a small buffer
//   - never: reads nothing more for a minute
//   - hold: signals Held and replies when Release is closed
//   - slow: says the reply after Rogue.Delay, and goes on
type Way struct{ Stage, How string }

// A Rogue is a receiver that takes some messages as a good one does, so that many
// connections are opened to it, and then stalls on every connection. It checks nothing.
// Its counters may be read at any time; Busy and Delay are set before the first
// connection comes.
type Rogue struct {
	Way
	Good  atomic.Int64  // after how many messages it begins
	Busy  time.Duration // how long it takes over each message
	Delay time.Duration // of "slow"

	Held    chan struct{} // of "hold": gets one for each reply that waits for Release
	Release chan struct{}

	Taken, Open atomic.Int64 // messages, connections
	Stalled     atomic.Int64 // how often it has begun to stall

	listener net.Listener
	conns    sync.Map
	keys     sync.Map // of messages, to how often they were taken (*atomic.Int64)
}

// Infest has a Rogue take the connections of a listener until Close.
func Infest(ln net.Listener, w Way, good int64) *Rogue {
	r := &Rogue{Way: w, listener: ln, Held: make(chan struct{}, 100), Release: make(chan struct{})}
	r.Good.Store(good)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.conns.Store(c, true)
			r.Open.Add(1)
			go func() {
				defer r.Open.Add(-1)
				defer r.conns.Delete(c)
				defer c.Close() //nolint:errcheck // nothing depends on it
				r.serve(c)
			}()
		}
	}()
	return r
}

// Address is where it listens.
func (r *Rogue) Address() string { return r.listener.Addr().String() }

// Close ends all connections. A Rogue that sleeps is not waited for.
func (r *Rogue) Close() {
	r.listener.Close() //nolint:errcheck // it is of no more use
	r.conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
}

// Times returns how often it has accepted the message with a Message-ID.
func (r *Rogue) Times(key string) int64 {
	if n, ok := r.keys.Load(key); ok {
		return n.(*atomic.Int64).Load()
	}
	return 0
}

func (r *Rogue) serve(c net.Conn) {
	if tcp, is := c.(*net.TCPConn); is && (r.How == "never" || r.How == "deaf") {
		tcp.SetReadBuffer(4096) //nolint:errcheck // then it stalls a little later
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
		if !r.say(c, verb, reply) || verb == "QUIT" || verb == "DATA" && !r.take(c, in) {
			return
		}
	}
}

// take reads one message. It reports whether the session goes on.
func (r *Rogue) take(c net.Conn, in *bufio.Reader) bool {
	key := ""
	for line := ""; line != ".\r\n"; {
		if r.stalls("content") {
			r.stall(c, "")
			return false
		}
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			return false
		}
		if id, ok := strings.CutPrefix(line, "Message-ID: "); ok {
			key = strings.TrimSpace(id)
		}
	}
	time.Sleep(r.Busy)
	n, _ := r.keys.LoadOrStore(key, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if !r.say(c, ".", "250 taken") {
		return false
	}
	r.Taken.Add(1)
	return true
}

func (r *Rogue) stalls(stage string) bool { return r.Stage == stage && r.Taken.Load() >= r.Good.Load() }

// say reports whether the session goes on.
func (r *Rogue) say(c net.Conn, stage, reply string) bool {
	if r.stalls(stage) && !r.stall(c, reply+"\r\n") {
		return false
	}
	_, err := c.Write([]byte(reply + "\r\n"))
	return err == nil
}

// roguePace is the time between two octets.
const roguePace = 100 * time.Millisecond

// stall reports whether to send the reply now; if not, it returns when the
// connection is closed.
func (r *Rogue) stall(c net.Conn, reply string) bool {
	r.Stalled.Add(1)
	say := func(text string) bool { _, err := c.Write([]byte(text)); return err == nil }
	read := 4096
	switch r.How {
	case "slow":
		time.Sleep(r.Delay)
		return true
	case "hold":
		r.Held <- struct{}{}
		<-r.Release
		return true
	case "mixed":
		return say("550-no\r\n")
	case "never":
		time.Sleep(time.Minute) // its own end closes it: nothing reveals that the peer has gone
		return false
	case "octet":
		say(reply + "2")
	case "twice":
		say(reply + reply)
	case "part":
		say("250-")
	case "drip":
		for more := say("250-"); more; more = say("2") {
			time.Sleep(roguePace)
		}
		return false
	case "deaf":
		read = 1
	}
	for buf := make([]byte, read); ; {
		if _, err := c.Read(buf); err != nil {
			return false
		}
		if read == 1 {
			time.Sleep(roguePace)
		}
	}
}
