package server

import (
	"bytes"
	"encoding/base64"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// An exchange is the progress of AUTH (RFC 4954).
type exchange struct {
	mechanism smtp.Mechanisms
	challenge []byte // of the host, to be sent
	user      string // likewise: the answer of the host
	messages  uint8  // of the client
	// refused is set from a refused AUTH until the next command: a client that has not
	// waited for the refusal sends its answers, which then look like commands.
	refused bool
}

// exchangeLineMax is the longest line of an exchange with its CRLF (RFC 4954 4.3), and
// messagesMax the number of the client's messages; the mechanisms have at most three.
const (
	exchangeLineMax = 12288
	messagesMax     = 10
)

// usable returns the mechanisms that are there now: without TLS none that shows the
// password to whoever reads the connection, none that is bound to TLS, and none at all
// where TLS has to come first.
func (s *Session) usable() smtp.Mechanisms {
	switch {
	case s.security.Encrypted():
		return s.peer.Mechanisms
	case s.peer.TLS == TLSRequired:
		return 0
	}
	return s.peer.Mechanisms &^ (smtp.Revealing | smtp.Bound)
}

// conceal keeps what a client may have sent of a password out of the log: the argument of
// AUTH, also where AUTH is not the first word, and what follows a refused AUTH and is no command. It reports whether
// nothing but the log needs the line.
func (s *Session) conceal(v smtp.Verb) (hidden bool) {
	first := bytes.TrimLeft(s.command, " \t")
	switch {
	case v == smtp.VerbAUTH || len(first) >= 4 && bytes.EqualFold(first[:4], []byte("AUTH")):
		s.command = []byte("AUTH")
		s.exchange.refused = true // until auth begins an exchange
	case s.exchange.refused && v == smtp.VerbUnknown:
		s.command = []byte(afterAUTH)
	default:
		end := authEnd(s.command, v == smtp.VerbUnknown)
		if s.exchange.refused = end > 0; !s.exchange.refused {
			return false
		}
		s.command = []byte(string(s.command[:end]) + " " + Concealed)
		return v == smtp.VerbUnknown // other commands have arguments that are used
	}
	return true
}

// afterAUTH is what the log has in place of a line that follows a refused AUTH and is no command.
const afterAUTH = "(after AUTH)"

// authEnd returns the end of AUTH in a line in which more follows: a space, or anything if the line is no command. It is 0 if there
// is no such thing.
func authEnd(line []byte, anything bool) int {
	const word = "AUTH"
	for end := len(word); end < len(line); end++ {
		if (anything || line[end] <= ' ') && bytes.EqualFold(line[end-len(word):end], []byte(word)) {
			return end
		}
	}
	return 0
}

// auth begins an exchange. What is refused here is not decoded.
func (s *Session) auth(arg []byte) {
	name, initial, given := bytes.Cut(arg, []byte(" "))
	m := smtp.ParseMechanism(string(name))
	var r mail.Reply
	switch {
	case s.peer.Mechanisms == 0:
		r = reply(502, 5, 1, "Error: command not implemented")
	case s.hello.name == "":
		r = reply(503, 5, 1, "Error: send EHLO first")
	case s.user != "":
		r = reply(503, 5, 1, "Error: already authenticated")
	case s.tx.state != txNone:
		r = reply(503, 5, 1, "Error: MAIL transaction in progress")
	case len(name) == 0:
		r = reply(501, 5, 4, "Syntax: AUTH mechanism")
	case m == 0:
		r = reply(504, 5, 4, "Error: mechanism is not known")
	case s.peer.Mechanisms&m == 0:
		r = reply(534, 7, 9, "Error: mechanism is not permitted here")
	case s.usable()&m == 0:
		r = reply(538, 7, 11, "Error: the mechanism needs TLS first")
	}
	if !r.IsZero() {
		s.refuseAuth(r)
		return
	}
	s.command = []byte("AUTH " + m.String())
	s.exchange = exchange{mechanism: m}
	if !given {
		s.ask(nil)
		return
	}
	if string(initial) == "=" { // an initial response of no octets (RFC 4954 4)
		initial = nil
	}
	s.respond(initial)
}

// respond decodes a message of the client and passes it on. Padding that is missing, or in
// the middle, and octets that are not of the alphabet are wrong (RFC 4954 4).
func (s *Session) respond(text []byte) {
	message := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(message, text)
	if err != nil {
		clear(message)
		s.refuseAuth(reply(501, 5, 2, "Error: the response is not base64"))
		return
	}
	s.ask(message[:n])
}

// ask passes a message on to the host.
func (s *Session) ask(message []byte) {
	s.state = s.lineState()
	s.slots.auth = Authenticate{Begins: s.exchange.messages == 0, Mechanism: s.exchange.mechanism, Response: message}
	s.exchange.messages++
	s.pending.push(&s.slots.auth)
}

// Challenge answers Authenticate: the exchange goes on. Octets are those of the server's
// message, not encoded, which is sent at the next Step.
func (s *Session) Challenge(octets []byte) {
	s.exchange.challenge = append([]byte{}, octets...) // not nil
	s.Answer(mail.Reply{})
}

// Authenticated answers Authenticate: the client has shown that it is this user.
func (s *Session) Authenticated(user string) {
	if user == "" {
		panic("server: Authenticated called without a user")
	}
	s.exchange.user = user
	s.Answer(mail.Reply{})
}

// authenticated continues AUTH after the host's answer.
func (s *Session) authenticated(refusal mail.Reply) {
	clear(s.slots.auth.Response)
	s.slots.auth.Response = nil
	switch {
	case !refusal.IsZero():
		s.command = []byte("AUTH " + s.exchange.mechanism.String())
		s.refuseAuth(refusal)
	case s.exchange.challenge == nil:
		s.user = s.exchange.user
		s.exchange = exchange{}
		s.say(reply(235, 7, 0, "Authentication successful"))
	case s.exchange.messages >= messagesMax:
		s.refuseAuth(reply(501, 5, 2, "Error: the exchange has too many messages"))
	default:
		s.out = append(s.out, "334 "...)
		s.out = base64.StdEncoding.AppendEncode(s.out, s.exchange.challenge)
		s.out = append(s.out, "\r\n"...)
		s.exchange.challenge = nil
		s.state = atExchange
	}
}

// readResponse processes one line of an exchange.
func (s *Session) readResponse(in []byte) (n int, w Waiting, more bool) {
	if len(in) == 0 {
		return 0, ForCommand, false // the client may be asking its user
	}
	i := bytes.IndexByte(in[:min(len(in), exchangeLineMax)], '\n')
	switch {
	case i < 0 && len(in) < exchangeLineMax:
		return 0, ForLine, false
	case i < 0:
		s.testify(Concealed)
		s.exchange = exchange{refused: true}
		s.state, s.skip = atOverlong, skip{inExchange: true}
		return 0, 0, true
	}
	line := in[:i+1]
	defer clear(line) // it may have a password, and the host's buffer is used again
	s.command = []byte("AUTH " + s.exchange.mechanism.String())
	s.testify(Concealed)
	text, framed := s.frame(line)
	switch {
	case !framed:
		s.refuseAuth(reply(501, 5, 2, "Error: lines end in <CR><LF>"))
	case string(text) == "*":
		s.refuseAuth(reply(501, 7, 0, "Authentication canceled"))
	default:
		s.respond(text)
	}
	return i + 1, 0, true
}

// refuseAuth ends an exchange, if there is one.
func (s *Session) refuseAuth(r mail.Reply) {
	s.state = s.lineState()
	s.exchange = exchange{refused: true}
	s.refuse(r)
}
