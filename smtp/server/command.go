package server

import (
	"bytes"
	"strconv"
	"time"

	"github.com/posthaste-mta/posthaste/smtp"
)

// skipMax is the maximum length, beyond the limit, of the part of an overlong
// line that is read and dropped before the connection is closed.
const skipMax = 64 << 10

// tlsHandshake is the first octet of a TLS ClientHello.
const tlsHandshake = 0x16

func (s *Session) greet(early bool) {
	s.state = s.lineState()
	if early && s.peer.RejectEarly {
		s.refuseAndEnd(reply(554, 5, 0, "Error: you spoke before the greeting"), ReasonEarly)
		return
	}
	if early {
		s.note("(greeting)")
	}
	if !s.peer.Refusal.IsZero() {
		s.say(s.peer.Refusal)
		return
	}
	s.out = append(s.out, "220 "...)
	s.out = append(s.out, s.cfg.Hostname...)
	s.out = append(s.out, ' ')
	s.out = append(s.out, s.cfg.Banner...)
	s.out = append(s.out, "\r\n"...)
}

// readCommand processes one command line.
func (s *Session) readCommand(in []byte) (n int, w Waiting, more bool) {
	if len(in) == 0 {
		if s.tx.state != txNone {
			return 0, ForTransaction, false
		}
		return 0, ForCommand, false
	}
	if in[0] == tlsHandshake {
		// Binary data follows, which may contain no LF for a long time.
		s.testify("(a TLS handshake)")
		s.refuseAndEnd(reply(521, 5, 2, "This port speaks plain SMTP"), ReasonProtocol)
		return 0, 0, true
	}
	i := bytes.IndexByte(in[:min(len(in), s.cfg.LineLimit)], '\n')
	switch {
	case i >= 0:
		s.obey(in[:i+1], len(in) > i+1)
		return i + 1, 0, true
	case len(in) < s.cfg.LineLimit:
		return 0, ForLine, false
	}
	s.command = in[:commandShown]
	if verb, _ := smtp.ParseCommand(s.command); verb == smtp.VerbBDAT {
		s.testify(string(s.command))
		s.lostCount()
		return 0, 0, true
	}
	s.testify("(overlong line)")
	s.state, s.skip = atOverlong, skip{}
	return 0, 0, true
}

// skip is the progress in dropping the rest of an overlong line.
type skip struct {
	octets     int
	cr         bool // the last octet was a CR
	inExchange bool // of AUTH
}

func (s *Session) skipLine(in []byte) (n int, more bool) {
	s.command = []byte("(overlong line)")
	for n < len(in) {
		i := bytes.IndexByte(in[n:], '\n')
		size := i + 1
		if i < 0 {
			size = len(in) - n
		}
		piece := in[n : n+size]
		s.skip.octets += size
		if s.skip.octets > s.cfg.LineLimit+skipMax {
			s.refuseAndEnd(s.goodbye(5, 2, "Error: line too long"), ReasonProtocol)
			return n, true
		}
		n += size
		if i > 0 && piece[i-1] == '\r' || i == 0 && s.skip.cr {
			s.state = s.lineState()
			r := reply(500, 5, 2, "Error: line too long")
			if s.skip.inExchange {
				r = reply(500, 5, 6, "Error: authentication exchange line is too long") // RFC 4954 6
			}
			s.refuse(r)
			return n, true
		}
		s.skip.cr = piece[size-1] == '\r'
	}
	return n, false
}

// obey executes a command line. behind reports whether more input came with it.
func (s *Session) obey(line []byte, behind bool) {
	s.command = bytes.TrimRight(line, "\r\n")
	text, framed := s.frame(line)
	verb, arg := smtp.ParseCommand(text)
	hidden := s.conceal(verb)
	if hidden {
		defer clear(line) // the host's buffer is used again
	}
	s.testifyCommand(hidden, arg)
	switch {
	case !framed && verb == smtp.VerbBDAT:
		s.lostCount()
	case !framed && len(text) == len(line)-1:
		s.refuse(reply(500, 5, 2, "Error: lines end in <CR><LF>"))
	case !framed:
		s.refuse(reply(501, 5, 2, "Error: control character in command"))
	case verb == smtp.VerbQUIT:
		s.quit()
	case s.mustEncrypt(verb):
		s.refuse(needTLS())
	case s.state == atRefused:
		s.refuse(reply(503, 5, 1, "Error: no service for you, please QUIT"))
	case behind && verb == smtp.VerbSTARTTLS:
		s.starttls(arg, behind)
	case behind && s.mustWait(verb) && s.peer.RejectEarly:
		s.refuseAndEnd(reply(554, 5, 0, "Error: you did not wait for the reply to this command"), ReasonEarly)
	default:
		if behind && s.mustWait(verb) {
			s.note(string(s.command))
		}
		s.dispatch(verb, arg)
	}
}

// frame removes the line end. framed is false if the line end is not CRLF or if
// there is a CR or NUL elsewhere, where another server might see a line end.
func (s *Session) frame(line []byte) (text []byte, framed bool) {
	text, framed = bytes.CutSuffix(line, []byte("\r\n"))
	if !framed {
		text, framed = line[:len(line)-1], s.peer.Normalize
	}
	return text, framed && bytes.IndexByte(text, '\r') < 0 && bytes.IndexByte(text, 0) < 0
}

// mustWait reports whether a client must wait for the reply to the verb before
// it sends anything else. After HELO it always must, because PIPELINING was not
// offered.
func (s *Session) mustWait(v smtp.Verb) bool {
	return v.EndsGroup() || s.hello.name != "" && !s.hello.extended
}

// note notifies the host, once per session, that the client did not wait.
func (s *Session) note(command string) {
	if s.noted {
		return
	}
	s.noted = true
	s.slots.early.Command = printable(command)
	s.pending.push(&s.slots.early)
}

// dispatch calls the method for the verb.
func (s *Session) dispatch(v smtp.Verb, arg []byte) {
	switch v {
	case smtp.VerbMAIL:
		s.mail(arg)
	case smtp.VerbRCPT:
		s.rcpt(arg)
	case smtp.VerbDATA:
		s.data(arg)
	case smtp.VerbBDAT:
		s.bdat(arg)
	case smtp.VerbEHLO:
		s.helo(arg, true)
	case smtp.VerbHELO:
		s.helo(arg, false)
	case smtp.VerbRSET:
		s.rset(arg)
	case smtp.VerbNOOP:
		s.ok("2.0.0 Ok")
		s.countJunk()
	case smtp.VerbVRFY:
		s.vrfy(arg)
	case smtp.VerbHELP:
		s.say(reply(214, 0, 0, "EHLO HELO MAIL RCPT DATA BDAT RSET NOOP VRFY HELP QUIT"))
		s.countJunk()
	case smtp.VerbSTARTTLS:
		s.starttls(arg, false)
	case smtp.VerbXCLIENT:
		s.xclient(arg)
	case smtp.VerbXFORWARD:
		s.xforward(arg)
	case smtp.VerbAUTH:
		s.auth(arg)
	case smtp.VerbETRN:
		s.etrn(arg)
	case smtp.VerbEXPN, smtp.VerbRare:
		s.refuse(reply(502, 5, 1, "Error: command not implemented"))
	case smtp.VerbForeign:
		s.refuseAndEnd(reply(521, 5, 2, "Error: this is not the protocol you think"), ReasonProtocol)
	default:
		s.refuse(reply(500, 5, 2, "Error: command not recognized"))
	}
}

// heloMax is the longest name accepted in EHLO: a domain, RFC 5321 4.5.3.1.2.
const heloMax = smtp.DomainMax

// helo accepts any printable name. Many clients do not know theirs, and
// service must not depend on it (RFC 5321 4.1.4). The name is cleaned wherever it
// is shown. Replies to EHLO have no status code (RFC 2034 4).
func (s *Session) helo(arg []byte, extended bool) {
	if len(arg) == 0 || len(arg) > heloMax || !isPrintable(string(arg)) {
		r := reply(501, 0, 0, "Syntax: EHLO or HELO hostname")
		r.Status.Class = 0
		s.refuse(r)
		return
	}
	s.drop()
	if s.hello.name != string(arg) {
		s.hello.name = string(arg)
	}
	s.hello.extended = extended
	if extended {
		s.extensions()
	} else {
		s.ok(s.cfg.Hostname)
	}
	s.countJunk()
}

// extensions appends the reply to EHLO.
func (s *Session) extensions() {
	s.line250(s.cfg.Hostname)
	s.line250("PIPELINING")
	s.out = append(s.out, "250-SIZE"...)
	if s.cfg.SizeLimit != Unlimited {
		s.out = append(s.out, ' ')
		s.out = strconv.AppendInt(s.out, s.cfg.SizeLimit, 10)
	}
	s.out = append(s.out, "\r\n"...)
	s.line250("8BITMIME")
	s.line250("SMTPUTF8")
	s.line250("DSN")
	s.line250("ENHANCEDSTATUSCODES")
	if s.peer.Priority {
		s.line250("MT-PRIORITY")
	}
	if most := s.peer.FutureRelease; most > 0 {
		s.out = append(s.out, "250-FUTURERELEASE "...)
		s.out = strconv.AppendInt(s.out, int64(most/time.Second), 10)
		s.out = append(append(append(s.out, ' '), smtp.FormatHoldUntil(s.peer.Begun.Add(most))...), "\r\n"...)
	}
	if s.peer.DeliverBy {
		s.out = append(s.out, "250-DELIVERBY"...)
		if least := s.peer.DeliverByMin; least > 0 {
			s.out = append(s.out, ' ')
			s.out = strconv.AppendInt(s.out, int64(least/time.Second), 10)
		}
		s.out = append(s.out, "\r\n"...)
	}
	if s.peer.RequireTLS && s.security.Encrypted() { // RFC 8689 2: not before
		s.line250("REQUIRETLS")
	}
	if !s.peer.VERP.IsZero() {
		s.line250("XVERP")
	}
	if s.peer.ETRN {
		s.line250("ETRN")
	}
	if s.peer.RecipientLimit != Unlimited {
		s.out = append(s.out, "250-LIMITS RCPTMAX="...)
		s.out = strconv.AppendInt(s.out, int64(s.peer.RecipientLimit), 10)
		s.out = append(s.out, "\r\n"...)
	}
	if s.peer.TLS != TLSNone && !s.security.Encrypted() {
		s.line250("STARTTLS")
	}
	if m := s.usable(); m != 0 {
		s.line250("AUTH " + m.String())
	}
	if s.peer.XClient {
		s.line250("XCLIENT " + smtp.XClientAttributes.String())
	}
	if s.peer.XForward {
		s.line250("XFORWARD " + smtp.XForwardAttributes.String())
	}
	s.ok("CHUNKING")
}

func (s *Session) line250(text string) {
	s.out = append(append(append(s.out, "250-"...), text...), "\r\n"...)
}

func (s *Session) rset(arg []byte) {
	if len(arg) > 0 {
		s.refuse(reply(501, 5, 4, "Syntax: RSET"))
		return
	}
	s.drop()
	s.ok("2.0.0 Ok")
	s.countJunk()
}

// vrfy does not reveal which addresses exist (RFC 5321 3.5.3, 7.3).
func (s *Session) vrfy(arg []byte) {
	if len(arg) == 0 {
		s.refuse(reply(501, 5, 4, "Syntax: VRFY address"))
		return
	}
	s.say(reply(252, 0, 0, "Send some mail, I will try my best"))
	s.countJunk()
}

func (s *Session) quit() {
	s.say(reply(221, 0, 0, "Bye"))
	s.drop()
	s.end(ReasonQuit)
}
