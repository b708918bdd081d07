package server

import (
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// replyTextMax limits the text so that a line with code, status, our name and CRLF
// fits into the 512 octets of RFC 5321 4.5.3.1.5.
const replyTextMax = 480

// say appends a reply, with its status on every line (RFC 2034 4).
func (s *Session) say(r mail.Reply) {
	text := r.Text
	for more := true; more; {
		var line string
		line, text, more = strings.Cut(text, "\n")
		s.out = strconv.AppendUint(s.out, uint64(r.Code), 10)
		if more {
			s.out = append(s.out, '-')
		} else {
			s.out = append(s.out, ' ')
		}
		if r.Status != (mail.Status{}) {
			s.out = appendStatus(s.out, r.Status)
		}
		s.out = appendPlain(s.out, line[:min(len(line), replyTextMax)])
		s.out = append(s.out, "\r\n"...)
	}
}

func appendStatus(dst []byte, st mail.Status) []byte {
	dst = strconv.AppendUint(dst, uint64(st.Class), 10)
	dst = append(dst, '.')
	dst = strconv.AppendUint(dst, uint64(st.Subject), 10)
	dst = append(dst, '.')
	dst = strconv.AppendUint(dst, uint64(st.Detail), 10)
	return append(dst, ' ')
}

// appendPlain appends text with everything except printable ASCII replaced:
// replies are ASCII, whatever they quote (RFC 5321 4.2).
func appendPlain(dst []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c < ' ' || c > '~' {
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

// ok appends a 250 whose status and text are fixed.
func (s *Session) ok(text string) {
	s.out = append(append(append(s.out, "250 "...), text...), "\r\n"...)
}

// reply returns a reply of this server; the class of its status follows from code.
func reply(code, subject, detail uint16, text string) mail.Reply {
	return mail.Reply{Code: code, Status: mail.Status{Class: code / 100, Subject: subject, Detail: detail}, Text: text}
}

// goodbye returns a 421, which begins with our name (RFC 5321 4.2.3).
func (s *Session) goodbye(subject, detail uint16, text string) mail.Reply {
	return reply(421, subject, detail, s.cfg.Hostname+" "+text)
}

// refuse rejects the command of this Step.
func (s *Session) refuse(r mail.Reply) { s.refuseCommand(string(s.command), r) }

// refuseCommand sends a refusal, notifies the host, and counts it against the
// client unless the cause is ours.
func (s *Session) refuseCommand(command string, r mail.Reply) {
	s.say(r)
	s.slots.rejected = Rejected{Command: printable(command), Reply: r}
	s.pending.push(&s.slots.rejected)
	if r.Status.Subject != 3 || r.Permanent() {
		s.countError()
	}
}

// refuseAndEnd is refuse for errors that end the session.
func (s *Session) refuseAndEnd(r mail.Reply, why Reason) {
	s.say(r)
	s.slots.rejected = Rejected{Command: printable(string(s.command)), Reply: r}
	s.pending.push(&s.slots.rejected)
	s.drop()
	s.end(why)
}

// tally counts the client's errors since its last accepted message.
type tally struct {
	errors int
	junk   int // commands without effect
}

func (s *Session) countError() {
	s.tally.errors++
	switch {
	case s.tally.errors >= s.cfg.HardErrorLimit:
		s.say(s.goodbye(7, 0, "Error: too many errors"))
		s.drop()
		s.end(ReasonErrors)
	case s.tally.errors > s.cfg.SoftErrorLimit:
		s.slots.pause.For = s.cfg.ErrorDelay
		s.pending.push(&s.slots.pause)
	}
}

func (s *Session) countJunk() {
	if s.tally.junk++; s.tally.junk > s.cfg.JunkLimit {
		s.countError()
	}
}

// commandShown is the maximum length of a command in a log line.
const commandShown = 200

func printable(command string) string {
	cut := command[:min(len(command), commandShown)]
	return mail.CleanText(strings.ReplaceAll(cut, "\n", "?"))
}
