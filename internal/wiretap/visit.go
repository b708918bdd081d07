package wiretap

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Choice is whether a Watcher wants to see a session.
type Choice uint8

const (
	Never  Choice = iota // not this client, or not on this listener
	NotYet               // no address that it wants was named so far
	Now
)

// A Client is who a session is with.
type Client struct {
	Listener string
	Address  string // "local" for a program on this machine
}

// What a Visit keeps for Watchers that have not decided yet.
const (
	keptLines  = 50
	keptOctets = 4 << 10
)

// A Visit shows one session of a client. It belongs to the goroutine of the session.
type Visit struct {
	Client    Client
	Mail      bool   // a transaction has begun
	Sender    string // of the transaction, also one that was refused
	Recipient string // the last of the transaction, also one that was refused; "" before the first

	hub    *Hub
	number int64
	to     []*Watcher
	later  []*Watcher // may want it yet
	kept   []Record   // for later: the last ones
	octets int        // of the texts of kept

	replies, line partial // of the server, and of content
	contentLines  int
	content       int64 // octets of the content so far; -1 without
	shown         int   // lines of it that were shown
}

// WatchVisits returns a Watcher of clients' sessions, at most count of them unless that is 0, with so many lines of each content.
// meets is asked when a session begins or is first seen, and after NotYet again at each MAIL and RCPT; it must not keep the Visit. A session is shown
// to its end. The Watcher must be closed.
func (h *Hub) WatchVisits(meets func(*Visit) Choice, count, lines int) (*Watcher, error) {
	return h.add(&Watcher{meets: meets}, count, lines)
}

// Visitors returns a number that changes with the Watchers of clients' sessions, 0 if there are none. It is an atomic load: a
// session that sees a new number calls Visit.
func (h *Hub) Visitors() int64 {
	if h == nil {
		return 0
	}
	return h.visited.Load()
}

// Visit returns a Visit for a session, nil if no Watcher may want it. before is the one that the session has had so far, which goes on; nil without.
// It must not be called within a content.
func (h *Hub) Visit(of Client, before *Visit) *Visit {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v := before
	if v == nil {
		v = &Visit{hub: h, content: -1}
	}
	v.Client = of
	v.later = slices.DeleteFunc(v.later, func(w *Watcher) bool { return !slices.Contains(h.watchers, w) || v.ask(w) != NotYet })
	v.to = slices.DeleteFunc(v.to, func(w *Watcher) bool { return !slices.Contains(h.watchers, w) })
	var fresh []*Watcher
	for _, w := range h.watchers {
		if slices.Contains(v.to, w) || slices.Contains(v.later, w) {
			continue
		}
		switch v.ask(w) {
		case Now:
			fresh = append(fresh, w)
		case NotYet:
			v.later = append(v.later, w)
		}
	}
	if len(v.to)+len(v.later)+len(fresh) == 0 {
		return nil
	}
	return v.welcome(fresh)
}

// welcome shows the session to Watchers from now on. The hub is locked.
func (v *Visit) welcome(fresh []*Watcher) *Visit {
	if v.number == 0 {
		v.number = v.hub.taps.Add(1)
	}
	if len(v.later) == 0 {
		v.kept, v.octets = nil, 0
	}
	v.contentLines = 0
	for _, w := range slices.Concat(v.to, v.later, fresh) {
		v.contentLines = max(v.contentLines, w.lines)
	}
	first := v.first()
	for _, w := range fresh {
		w.left--
		w.Add(first.line())
	}
	v.to = append(v.to, fresh...)
	return v
}

// first returns the line that a Watcher sees first.
func (v *Visit) first() Record {
	return v.record("-", "connection from "+v.Client.Address+" to "+v.Client.Listener)
}

// ask returns what a Watcher wants. The hub is locked.
func (v *Visit) ask(w *Watcher) Choice {
	if w.meets == nil || w.left == 0 {
		return Never
	}
	return w.meets(v)
}

// reconsider asks the Watchers that have not decided, and shows what was kept to those that want the session now.
func (v *Visit) reconsider() {
	v.hub.mu.Lock()
	defer v.hub.mu.Unlock()
	first := v.first()
	v.later = slices.DeleteFunc(v.later, func(w *Watcher) bool {
		choice := v.ask(w)
		if choice != Now {
			return choice == Never
		}
		w.left--
		w.Add(first.line())
		for i := range v.kept {
			w.Add(v.kept[i].line())
		}
		v.to = append(v.to, w)
		return true
	})
	if len(v.later) == 0 {
		v.kept, v.octets = nil, 0
	}
}

// Command shows a command, or a line of an exchange, without its end and its secrets.
func (v *Visit) Command(line string) {
	v.endContent()
	v.show("<", clipped(line))
	verb, rest, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	switch strings.ToUpper(verb) {
	case "MAIL":
		v.Mail, v.Sender, v.Recipient = true, path(rest), ""
	case "RCPT":
		v.Recipient = path(rest)
	case "RSET", "EHLO", "HELO":
		v.Mail, v.Sender, v.Recipient = false, "", ""
		return
	default:
		return
	}
	if len(v.later) > 0 {
		v.reconsider()
	}
}

// path returns the address in the argument of MAIL or RCPT, however wrong that is.
func path(argument string) string {
	_, text, _ := strings.Cut(argument, ":")
	text = strings.TrimLeft(text, " \t")
	if inner, ok := strings.CutPrefix(text, "<"); ok {
		if i := strings.Index(inner, "> "); i >= 0 { // a quoted local part may have either alone
			return inner[:i]
		}
		return strings.TrimSuffix(strings.TrimRight(inner, " \t"), ">")
	}
	text, _, _ = strings.Cut(text, " ")
	return text
}

// Content shows octets of content.
func (v *Visit) Content(octets []byte) {
	if v.content < 0 {
		v.content, v.shown = 0, 0
	}
	v.content += int64(len(octets))
	for len(octets) > 0 && v.shown < v.contentLines {
		n, done := v.line.take(octets)
		if octets = octets[n:]; done {
			v.contentLine()
		}
	}
}

func (v *Visit) contentLine() {
	v.show("<", v.line.end())
	v.shown++
}

// endContent shows the size of the content, if that was what the client sent last.
func (v *Visit) endContent() {
	if v.content < 0 {
		return
	}
	if len(v.line.text) > 0 {
		v.contentLine()
	}
	octets := v.content
	v.content = -1
	v.show("-", fmt.Sprintf("%d octets of content", octets))
}

// Replies shows what the server has sent, or will at once.
func (v *Visit) Replies(octets []byte) {
	for len(octets) > 0 {
		n, done := v.replies.take(octets)
		if octets = octets[n:]; !done {
			return
		}
		v.endContent()
		line := v.replies.end()
		if strings.HasPrefix(line, "334 ") && len(line) > len("334 ") { // a challenge of AUTH
			line = "334 " + Hidden
		}
		v.show(">", line)
	}
}

// Note shows what neither side has said.
func (v *Visit) Note(text string) {
	v.endContent()
	v.show("-", text)
}

// End shows that the session has ended, and why, if that is known.
func (v *Visit) End(why string) {
	v.endContent()
	text := "the connection has ended"
	if why != "" {
		text += ": " + why
	}
	v.show(".", text)
}

// clipped returns a line, or its beginning if it is too long.
func clipped(line string) string {
	if len(line) > lineMax {
		return line[:lineMax] + cut
	}
	return line
}

func (v *Visit) show(direction, text string) {
	if len(v.to) == 0 && len(v.later) == 0 {
		return
	}
	r := v.record(direction, text)
	if len(v.later) > 0 {
		v.keep(r)
	}
	if len(v.to) == 0 {
		return
	}
	line := r.line()
	for _, w := range v.to {
		if !w.ended.Load() {
			w.Add(line)
		}
	}
}

// keep keeps a line, and drops the oldest if those are too many.
func (v *Visit) keep(r Record) {
	v.kept = append(v.kept, r)
	v.octets += len(r.Text)
	drop := 0
	for len(v.kept)-drop > keptLines || v.octets > keptOctets {
		v.octets -= len(v.kept[drop].Text)
		drop++
	}
	v.kept = slices.Delete(v.kept, 0, drop)
}

func (v *Visit) record(direction, text string) Record {
	return Record{time.Now(), v.number, v.Client.Address, direction, text}
}
