package server

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// etrn asks the host to have the mail for a domain tried (RFC 1985 5). The checks and their replies are
// Postfix's. The command has no effect on this session, so it counts like NOOP.
func (s *Session) etrn(arg []byte) {
	switch {
	case !s.peer.ETRN:
		s.refuse(reply(502, 5, 1, "Error: command not implemented"))
		return
	case s.hello.name == "":
		s.refuse(reply(503, 5, 1, "Error: send EHLO first"))
		return
	case s.tx.state != txNone:
		s.refuse(reply(503, 5, 1, "Error: MAIL transaction in progress"))
		return
	case len(arg) == 0:
		s.refuse(reply(500, 5, 4, "Syntax: ETRN domain"))
		return
	}
	e, ok := smtp.ParseETRN(arg)
	if !ok {
		s.refuse(reply(501, 5, 4, "Error: invalid parameter syntax"))
		return
	}
	s.countJunk()
	if s.state != atEnd {
		s.slots.etrn.Argument = e
		s.pending.push(&s.slots.etrn)
	}
}

// etrnAnswered continues ETRN after the host's answer.
func (s *Session) etrnAnswered(r mail.Reply) {
	switch {
	case r.IsZero():
		s.ok("2.0.0 Queuing started")
	case r.Positive():
		s.say(r)
	default:
		s.refuseCommand("ETRN "+s.slots.etrn.Argument.String(), r)
	}
}
