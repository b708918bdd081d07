package wiretap

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of what is shown of a line.
const (
	lineMax = 1000 // octets that are shown of one
	cut     = " …" // in place of the rest of a line
)

// Hidden stands for what is a secret.
const Hidden = "[hidden]"

// A phase is what the client sends.
type phase uint8

const (
	commands phase = iota
	data           // content up to a line with a dot
	chunk          // so many octets
)

// A Tap shows one connection. It belongs to the goroutine of the connection.
type Tap struct {
	to           []*Watcher
	number       int64
	joined       int64 // the hub's number of the watchers that have been asked
	host         string
	redact       func(string) string
	contentLines int

	sent, received partial
	phase          phase
	last           string // the verb of the last command
	owed           int    // replies that the server owes
	auth           bool   // an exchange is going on
	authAfter      int    // replies that come before those to AUTH
	left           int64  // octets of a chunk that are to come
	octets         int64  // of the content so far
	shown          int    // lines of it that were shown
}

// welcome shows the connection to further watchers, which see first what it is.
func (t *Tap) welcome(fresh []*Watcher, what string) {
	others := t.to
	t.to = fresh
	t.Note(what)
	t.to = append(others, fresh...)
}

// A partial is the beginning of a line.
type partial struct {
	text []byte
	more bool // there was more than is kept
}

// take adds octets up to the end of the line, and returns how many those are, and whether the line is complete.
func (p *partial) take(octets []byte) (n int, done bool) {
	n = bytes.IndexByte(octets, '\n') + 1
	if done = n > 0; !done {
		n = len(octets)
	}
	room := max(lineMax+len("\r\n")-len(p.text), 0)
	p.more = p.more || n > room
	p.text = append(p.text, octets[:min(n, room)]...)
	return n, done
}

// end returns the line without its end, and begins the next one.
func (p *partial) end() string {
	text := strings.TrimRight(string(p.text), "\r\n")
	if p.more {
		text += cut
	}
	p.text, p.more = p.text[:0], false
	return text
}

// Sent shows what the client has sent.
func (t *Tap) Sent(octets []byte) {
	for len(octets) > 0 {
		switch t.phase {
		case chunk:
			n := int(min(t.left, int64(len(octets))))
			t.content(octets[:n])
			octets = octets[n:]
			if t.left -= int64(n); t.left == 0 {
				t.endContent()
			}
		case data:
			n, done := t.sent.take(octets)
			t.octets += int64(n)
			if octets = octets[n:]; !done {
				continue
			}
			text := string(t.sent.text)
			if strings.TrimRight(text, "\r\n") == "." {
				t.octets -= int64(len(text))
				t.sent.end()
				t.endContent()
				t.show(">", ".")
				t.owed++
				continue
			}
			t.contentLine(t.sent.end())
		default:
			n, done := t.sent.take(octets)
			if octets = octets[n:]; done {
				t.command(t.sent.end())
			}
		}
	}
}

// command shows a command, or a response within an exchange.
func (t *Tap) command(line string) {
	if t.auth {
		t.show(">", Hidden)
		t.owed++
		return
	}
	words := strings.Fields(line)
	t.last = ""
	if len(words) > 0 {
		t.last = strings.ToUpper(words[0])
	}
	switch {
	case t.last == "AUTH":
		t.auth, t.authAfter = true, t.owed
		line = "AUTH"
		if len(words) > 1 {
			line += " " + words[1]
		}
		if len(words) > 2 {
			line += " " + Hidden
		}
	case t.last == "BDAT" && len(words) > 1:
		if n, err := strconv.ParseInt(words[1], 10, 64); err == nil && n > 0 {
			t.phase, t.left, t.octets, t.shown = chunk, n, 0, 0
		}
	}
	t.owed++
	t.show(">", line)
}

// content shows octets of a chunk.
func (t *Tap) content(octets []byte) {
	t.octets += int64(len(octets))
	for len(octets) > 0 && t.shown < t.contentLines {
		n, done := t.sent.take(octets)
		if octets = octets[n:]; done {
			t.contentLine(t.sent.end())
		}
	}
}

func (t *Tap) contentLine(line string) {
	if t.shown < t.contentLines {
		t.show(">", line)
		t.shown++
	}
}

func (t *Tap) endContent() {
	if len(t.sent.text) > 0 {
		t.contentLine(t.sent.end())
	}
	t.phase = commands
	t.Note(fmt.Sprintf("%d octets of content", t.octets))
}

// Received shows what the server has sent.
func (t *Tap) Received(octets []byte) {
	for len(octets) > 0 {
		n, done := t.received.take(octets)
		if octets = octets[n:]; done {
			t.reply(t.received.end())
		}
	}
}

// reply shows a line of a reply.
func (t *Tap) reply(line string) {
	final := len(line) < 4 || line[3] != '-'
	challenge := t.auth && t.authAfter == 0 && strings.HasPrefix(line, "334")
	if challenge && len(line) > 4 {
		line = line[:4] + Hidden
	}
	if t.redact != nil && strings.HasSuffix(line, cut) { // there may be a part of a secret before it
		line = line[:min(len(line), len("250 "))] + Hidden
	}
	t.show("<", line)
	if !final {
		return
	}
	t.owed = max(t.owed-1, 0)
	switch {
	case challenge:
	case t.auth && t.authAfter > 0:
		t.authAfter--
	case t.auth:
		t.auth = false
	case t.last == "DATA" && strings.HasPrefix(line, "354"):
		t.phase, t.octets, t.shown, t.last = data, 0, 0, ""
	}
}

// Note shows what neither side has said, such as what TLS has negotiated.
func (t *Tap) Note(text string) { t.show("-", text) }

// End shows that the connection has ended.
func (t *Tap) End() { t.show(".", "the connection has ended") }

func (t *Tap) show(direction, text string) {
	if t.redact != nil {
		text = t.redact(text)
	}
	line := (&Record{time.Now(), t.number, t.host, direction, text}).line()
	for _, w := range t.to {
		if !w.ended.Load() {
			w.Add(line)
		}
	}
}
