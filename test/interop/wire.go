package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// A wire monitors one connection and reports how each transaction was pipelined: by
// what was unanswered when its content was announced. It knows nothing of the
// program under test.
type wire struct {
	counts *wireCounts

	mu        sync.Mutex
	command   []byte // begun and not ended
	chunk     int64  // octets of a BDAT that are missing
	content   bool   // what comes is content, up to a lone dot
	tail      []byte // the last octets of content, at most as many as end it
	reply     []byte // a line, likewise begun
	unheard   []await
	overlaps  bool // MAIL came while an earlier message was unanswered
	announced bool // DATA or BDAT came for that MAIL
	addressed bool // RCPT did
}

// An await is what a reply is awaited to.
type await uint8

const (
	awaitOther await = iota // greeting, EHLO, RCPT, RSET, QUIT
	awaitMail
	awaitData
	awaitMessage // the end of a message's content
)

func newWire(counts *wireCounts) *wire {
	counts.connected()
	return &wire{counts: counts, unheard: []await{awaitOther}}
}

// said takes what the client has sent, before the server has it.
func (w *wire) said(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(data) > 0 {
		switch {
		case w.chunk > 0:
			n := min(w.chunk, int64(len(data)))
			w.chunk -= n
			data = data[n:]
		case w.content:
			data = w.takeContent(data)
		default:
			line, rest, ended := bytes.Cut(data, []byte("\n"))
			w.command = append(w.command, line...)
			if data = rest; ended {
				w.take(string(bytes.ToUpper(bytes.TrimSpace(w.command))))
				w.command = w.command[:0]
			}
		}
	}
}

// endOfContent is a lone dot. The line before it has its end in it.
var endOfContent = []byte("\r\n.\r\n")

// takeContent takes content and returns what follows its end.
func (w *wire) takeContent(data []byte) (rest []byte) {
	for i, c := range data {
		if w.tail = append(w.tail, c); len(w.tail) > len(endOfContent) {
			w.tail = w.tail[1:]
		}
		if c == '\n' && bytes.Equal(w.tail, endOfContent) {
			w.content = false
			w.unheard = append(w.unheard, awaitMessage)
			return data[i+1:]
		}
	}
	return nil
}

// take takes a command, in capital letters.
func (w *wire) take(line string) {
	words := bytes.Fields([]byte(line))
	if len(words) == 0 {
		return
	}
	switch string(words[0]) {
	case "MAIL":
		w.overlaps, w.announced, w.addressed = slices.Contains(w.unheard, awaitMessage), false, false
		w.unheard = append(w.unheard, awaitMail)
	case "DATA":
		w.announce(false)
		w.unheard = append(w.unheard, awaitData)
	case "BDAT":
		w.announce(true)
		if len(words) > 1 {
			w.chunk, _ = strconv.ParseInt(string(words[1]), 10, 64)
		}
		w.unheard = append(w.unheard, awaitMessage)
	case "RCPT":
		w.addressed = true
		w.unheard = append(w.unheard, awaitOther)
	default:
		w.unheard = append(w.unheard, awaitOther)
	}
}

// announce books a transaction. Without recipients it is none: a probe what the server
// does with content that it has to refuse.
func (w *wire) announce(chunk bool) {
	if w.announced {
		return
	}
	w.announced = true
	if chunk && !w.addressed {
		w.counts.probed()
		return
	}
	blind := slices.Contains(w.unheard, awaitMail)
	way := wayLockstep
	switch {
	case chunk && blind:
		way = wayStream
	case w.overlaps:
		way = wayOverlap
	case blind:
		way = wayGroup
	}
	ahead := 0
	for _, a := range w.unheard {
		if a == awaitMessage {
			ahead++
		}
	}
	w.counts.transaction(way, ahead+1)
}

// answered takes what the server has sent, before the client has it.
func (w *wire) answered(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		w.reply = append(w.reply, line...)
		if data = rest; !ended {
			return
		}
		last := len(w.reply) < 4 || w.reply[3] != '-'
		if last && len(w.unheard) > 0 {
			if w.unheard[0] == awaitData && len(w.reply) > 0 && w.reply[0] == '3' {
				w.content, w.tail = true, append(w.tail[:0], "\r\n"...)
			}
			w.unheard = slices.Delete(w.unheard, 0, 1)
		}
		w.reply = w.reply[:0]
	}
}

// A way is how a transaction was pipelined; its number that of the level it takes.
type way uint8

const (
	wayLockstep way = iota // the reply to MAIL was there before DATA was sent
	wayGroup               // it was not
	wayOverlap             // MAIL was sent before the reply to the message before it
	wayStream              // content was sent before the reply to MAIL
)

var wayNames = [...]string{"lockstep", "group", "overlap", "stream"}

// wireCounts are what wires have counted.
type wireCounts struct {
	mu          sync.Mutex
	ways        [len(wayNames)]int
	deepest     int // messages unanswered at once
	connections int
	probes      int
	cuts        int
}

func (c *wireCounts) transaction(w way, depth int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ways[w]++
	c.deepest = max(c.deepest, depth)
}

func (c *wireCounts) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connections++
}

func (c *wireCounts) probed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes++
}

func (c *wireCounts) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts++
}

// pipelined is the number of transactions that were pipelined as at a level.
func (c *wireCounts) pipelined(level string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ways[slices.Index(wayNames[:], level)]
}

// total is how many transactions there were.
func (c *wireCounts) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.ways {
		n += k
	}
	return n
}

// broken is the number of connections that were cut.
func (c *wireCounts) broken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

func (c *wireCounts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := "transactions"
	for w, n := range c.ways {
		if n > 0 {
			text += fmt.Sprintf(" %s %d", wayNames[w], n)
		}
	}
	return fmt.Sprintf("%s, at most %d unanswered; connections %d, cut %d, probed %d", text, c.deepest, c.connections, c.cuts, c.probes)
}
