package server

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// xclient has the host take the client for another one (Postfix's XCLIENT_README). The
// session begins anew with the greeting.
func (s *Session) xclient(arg []byte) {
	if !s.mayForward(s.peer.XClient) {
		return
	}
	f, wrong := smtp.ParseForwarded(arg, smtp.XClientAttributes)
	if wrong != "" {
		s.refuse(reply(501, 5, 4, "Error: bad attribute of XCLIENT: "+wrong))
		return
	}
	s.countJunk()
	if s.state != atEnd {
		s.slots.identify.Client = f
		s.pending.push(&s.slots.identify)
	}
}

// identified continues XCLIENT after the host's answer.
func (s *Session) identified(refusal mail.Reply) {
	if !refusal.IsZero() {
		s.say(refusal)
		s.drop()
		s.end(ReasonHost)
		return
	}
	s.drop()
	s.hello, s.user, s.forwarded, s.state = hello{}, s.slots.identify.Client.Login, smtp.Forwarded{}, atGreeting
	s.exchange = exchange{}
}

// Identified answers Identify: the session goes on with another client.
func (s *Session) Identified(peer Peer) {
	s.Answer(mail.Reply{})
	if peer.RecipientLimit == 0 {
		peer.RecipientLimit = s.cfg.RecipientLimit
	}
	s.peer = peer
}

// xforward notes for the log what a filter says of the client that it has the message from
// (Postfix's XFORWARD_README). It holds for one message.
func (s *Session) xforward(arg []byte) {
	if !s.mayForward(s.peer.XForward) {
		return
	}
	f, wrong := smtp.ParseForwarded(arg, smtp.XForwardAttributes)
	if wrong != "" {
		s.refuse(reply(501, 5, 4, "Error: bad attribute of XFORWARD: "+wrong))
		return
	}
	s.forwarded.Merge(&f) // attributes may come in several commands
	s.ok("2.0.0 Ok")
	s.countJunk()
}

// mayForward refuses a command that is not for this client, or not for this moment.
func (s *Session) mayForward(permitted bool) bool {
	switch {
	case !permitted:
		s.refuse(reply(550, 7, 0, "Error: insufficient authorization"))
		return false
	case s.tx.state != txNone:
		s.refuse(reply(503, 5, 1, "Error: MAIL transaction in progress"))
		return false
	}
	return true
}
