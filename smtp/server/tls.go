package server

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// TLS is whether a session may be, and must be, encrypted after STARTTLS (RFC 3207). A
// session that is encrypted from its first octet needs neither.
type TLS uint8

const (
	TLSNone     TLS = iota // STARTTLS is not known
	TLSOffered             // it is offered
	TLSRequired            // before it only NOOP, EHLO and QUIT are executed
)

// Security is what was negotiated by TLS; the zero value is plaintext. A host that offers
// AUTH has to keep the connection's exporter (RFC 9266) beside it, for channel bindings.
type Security struct {
	Version string // such as "TLSv1.3"
	Cipher  string // in the words of the IANA registry, such as "TLS_AES_128_GCM_SHA256"
}

// Encrypted reports whether there is TLS.
func (s Security) Encrypted() bool { return s.Version != "" }

// starttls asks the host for a handshake. Input that has come with the command was not
// sent by a client that waits for the reply, and perhaps not by the client: if it were
// executed after the handshake, it would be trusted as if it had been protected
// (CVE-2011-0411). So the session ends, whether or not other early input is tolerated.
func (s *Session) starttls(arg []byte, behind bool) {
	switch {
	case s.security.Encrypted():
		s.refuse(reply(503, 5, 1, "Error: TLS is active already"))
	case s.peer.TLS == TLSNone:
		s.refuse(reply(502, 5, 1, "Error: command not implemented"))
	case behind:
		s.refuseAndEnd(reply(501, 5, 0, "Error: there is input after STARTTLS; closing connection"), ReasonEarly)
	case len(arg) > 0:
		s.refuse(reply(501, 5, 4, "Syntax: STARTTLS"))
	default:
		s.countJunk() // the host may refuse it again and again
		if s.state != atEnd {
			s.pending.push(&s.slots.startTLS)
		}
	}
}

// started continues STARTTLS after the host's answer.
func (s *Session) started(refusal mail.Reply) {
	if !refusal.IsZero() {
		s.refuseCommand("STARTTLS", refusal)
		return
	}
	s.drop()
	s.say(reply(220, 0, 0, "Ready to start TLS"))
	s.state = atHandshake
	s.pending.push(&s.slots.handshake)
}

// Encrypted answers Handshake: from now on all input and output is protected. Whatever
// the client said before is forgotten (RFC 3207 4.2), except for its errors. It may also
// be called before the first Step, if the connection began with TLS.
func (s *Session) Encrypted(sec Security) {
	switch {
	case s.state == atHandshake:
		s.Answer(mail.Reply{})
	case s.state != atGreeting:
		panic("server: Encrypted called with no Handshake to answer")
	}
	s.security = sec
}

// NotEncrypted answers Handshake if it failed: nothing more can be said to the client.
func (s *Session) NotEncrypted() {
	s.Answer(reply(454, 3, 0, "the handshake failed")) // it is not sent
}

// shaken continues after the handshake.
func (s *Session) shaken(failed bool) {
	if failed {
		s.end(ReasonTLS)
		return
	}
	s.state, s.hello, s.user, s.forwarded = s.lineState(), hello{}, "", smtp.Forwarded{}
	s.exchange = exchange{}
}

// mustEncrypt reports whether a verb is refused because TLS is required first. The octets
// of BDAT have to be read nevertheless, so its refusal is chunkRefusal's.
func (s *Session) mustEncrypt(v smtp.Verb) bool {
	if s.peer.TLS != TLSRequired || s.security.Encrypted() {
		return false
	}
	switch v {
	case smtp.VerbEHLO, smtp.VerbNOOP, smtp.VerbSTARTTLS, smtp.VerbBDAT, smtp.VerbForeign:
		return false
	}
	return true
}

func needTLS() mail.Reply { return reply(530, 7, 0, "Error: must issue a STARTTLS command first") }
