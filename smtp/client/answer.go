package client

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// answer passes the reply that was just read to the command it belongs to.
func (s *Session) answer() {
	s.serial++
	if s.unasked() {
		s.unsolicited()
		return
	}
	sl := s.slots.pop()
	t := sl.tx
	if t != nil {
		t.unanswered--
		t.spoken = t.spoken || s.parser.Code() != 421
		t.dismissed = false
	}
	s.listen(sl)
	if s.parser.Code() == 421 && sl.kind != slotGreeting && sl.kind != slotQuit && s.closed(sl) {
		return
	}
	switch sl.kind {
	case slotGreeting:
		s.onGreeting()
	case slotEhlo:
		s.onEhlo()
	case slotHelo:
		s.onHelo()
	case slotStartTLS:
		s.onStartTLS()
	case slotAuth:
		s.onAuth()
	case slotReset:
		s.onReset(t)
	case slotMail:
		s.onMail(t)
	case slotRcpt:
		s.onRcpt(t, int(sl.recipient))
	case slotData:
		s.onData(t)
	case slotFinal, slotChunk:
		s.onFinal(t)
	case slotRecipient:
		s.onRecipient(t, int(sl.recipient))
	case slotEmptied:
		s.onEmptied(t)
	case slotProbe:
		s.onProbe(int(sl.recipient))
	case slotParting:
		s.onParting()
	case slotQuit:
		s.fail(Failure{Kind: FailQuit, Stage: WaitQuit, Reply: s.reply()})
	}
	if t != nil && s.phase != phaseOver {
		s.settleEnvelope(t)
	}
	s.drained()
}

// unasked reports whether no command asked for the reply that is being read.
func (s *Session) unasked() bool { return s.slots.len() == 0 || !s.asked(s.slots.first()) }

// asked reports whether the reply to a slot's command may arrive now: the host
// was given the command to write before the reply began. When one goroutine
// writes while another reads, it is not known whether the command has been
// written. A refusal may arrive before the end of the content.
func (s *Session) asked(first *slot) bool {
	given := s.given()
	return first.end <= given || first.kind.content() && first.tx.begun <= given
}

// given returns the offset up to which output given to the host can have caused
// the reply that was just read. The server has not seen what a short write left
// over.
func (s *Session) given() int64 { return min(s.heard, s.out.handed) }

// reply returns the reply that was just read.
func (s *Session) reply() mail.Reply { return s.parser.Reply(s.cfg.Peer) }

// class returns the first digit of the reply that was just read.
func (s *Session) class() uint16 { return s.parser.Code() / 100 }

// unaskedText is the error of a server that sends an unsolicited reply.
const unaskedText = "a reply came that belongs to no command"

// unsolicited handles a reply that no command asked for.
func (s *Session) unsolicited() {
	if s.probe == ProbeUnderWay {
		s.probe = ProbeExecuted
	}
	if s.parser.Code() == 421 {
		s.fail(Failure{Kind: FailClosed, Reply: s.reply()})
		return
	}
	s.desync(WaitNothing, unaskedText)
}

// closed handles 421, which ends the session whatever command it answers
// (RFC 5321 3.8), and reports whether it ended at once. The reply answers one
// transaction, whose message was then certainly not accepted, even if its content
// has been sent.
//
// This holds if the server closes the connection, as it must. Some servers send
// 421 and continue (go-smtp leaves this to its user): they accept a message whose
// content has already arrived, for those recipients that they did not refuse. So
// if messages were streamed, the session waits for the server's next action, and
// treats 421 like any other refusal until then.
func (s *Session) closed(sl slot) (over bool) {
	t := sl.tx
	streamed := t != nil && t.form == formStream
	if streamed && s.phase == phaseDrain {
		return false
	}
	f := Failure{Kind: FailClosed, Stage: sl.kind.wait(), Reply: s.reply()}
	if streamed && s.slots.len() > 0 {
		s.drain(f)
		t.dismissed = true
		return false
	}
	switch {
	case sl.kind == slotRecipient && t.state == txSent && t.end <= s.given():
		// What the server has done for the other recipients is not known.
		t.settleRecipient(int(sl.recipient), f.Reply)
	case t != nil && t.state == txSent:
		t.state = txEnvelope
	}
	s.fail(f)
	return true
}

func (s *Session) onGreeting() {
	switch s.class() {
	case 2:
		if s.looks() {
			return
		}
		s.hello()
	case 3:
		s.garbled(WaitGreeting, "the greeting is a 3xx reply")
	default:
		s.refused(FailGreeting, WaitGreeting)
	}
}

// hello introduces the client: at the beginning, and again under TLS.
func (s *Session) hello() {
	s.phase = phaseHello
	verb := "EHLO "
	if s.cfg.LMTP {
		verb = "LHLO "
	}
	s.command(slot{kind: slotEhlo}, verb, s.cfg.Hello, "\r\n")
}

// onEhlo falls back to HELO only after a 5yz reply (RFC 5321 3.2): a server with
// a temporary problem will not do better with HELO. A server that refuses LHLO does
// not speak LMTP; it may speak SMTP, in which case it would answer once for all
// recipients.
func (s *Session) onEhlo() {
	switch class := s.class(); {
	case class == 2:
		if s.looks() {
			return
		}
		s.caps = smtp.ParseCaps(s.parser.Text())
		s.greeted()
	case class == 5 && !s.cfg.LMTP:
		s.command(slot{kind: slotHelo}, "HELO ", s.cfg.Hello, "\r\n")
	case class == 3:
		s.garbled(WaitHello, "the reply to EHLO is 3xx")
	default:
		s.refused(FailHello, WaitHello)
	}
}

// highest returns the highest level that the server's offers allow.
func (s *Session) highest() Level {
	switch {
	case !s.caps.Pipelining:
		return LockStep
	case !s.streams():
		return min(s.cfg.Level, Overlap)
	}
	return s.cfg.Level
}

// streams reports whether the protocol and the server's extensions permit level
// Stream. LMTP does not: the number of replies to a content depends on those to RCPT.
func (s *Session) streams() bool {
	return !s.cfg.LMTP && s.caps.Pipelining && s.caps.Chunking && !s.caps.Burl
}

func (s *Session) onHelo() {
	switch s.class() {
	case 2:
		s.greeted()
	case 3:
		s.garbled(WaitHello, "the reply to HELO is 3xx")
	default:
		s.refused(FailHello, WaitHello)
	}
}

// greeted goes on when the server's extensions are known: with TLS, or without.
func (s *Session) greeted() {
	switch {
	case s.secured || s.cfg.TLS == TLSNever:
	case s.caps.StartTLS:
		s.command(slot{kind: slotStartTLS}, "STARTTLS\r\n")
		return
	case s.cfg.TLS == TLSRequired:
		s.insecure("TLS is required, but the server does not offer it")
		return
	}
	s.protected()
}

// protected goes on when the connection is as secure as it will be: with authentication, or with mail.
func (s *Session) protected() {
	if s.cfg.Auth != nil {
		s.authenticate()
		return
	}
	s.level = s.highest()
	s.phase = phaseReady
}

// onStartTLS has the host negotiate TLS if the server is ready for it. One that is not goes on
// in plaintext if that will do: it has said so before anything was negotiated.
func (s *Session) onStartTLS() {
	switch {
	case s.parser.Code() == 220:
		s.phase = phaseHandshake
	case s.class() == 2 || s.class() == 3:
		s.garbled(WaitStartTLS, "the reply to STARTTLS makes no sense")
	case s.cfg.TLS == TLSRequired:
		s.insecure("TLS is required, but the server refuses it: " + s.parser.Reply("").String())
	default:
		s.protected()
	}
}

// insecure ends a session that cannot be secured as it must be, with QUIT.
func (s *Session) insecure(what string) {
	s.fail(Failure{Kind: FailSecurity, Stage: WaitStartTLS, Reply: s.own(451, mail.Status{Class: 4, Subject: 7, Detail: 4}, what)})
	s.out.extend(append(s.out.commands, "QUIT\r\n"...))
}

// HandshakeFailed ends the session because TLS could not be negotiated, or the server's
// certificate is not what it must be. Nothing more is written.
func (s *Session) HandshakeFailed(why string) {
	s.fail(Failure{Kind: FailSecurity, Stage: WaitHandshake, Reply: s.own(451, mail.Status{Class: 4, Subject: 7, Detail: 5}, why)})
}

// injected ends a session in which octets came in plaintext before TLS that was to be next. Whoever
// has sent them might want them to be taken for what the server says under TLS.
func (s *Session) injected() {
	text := "octets in plaintext follow the reply to STARTTLS"
	if s.cfg.TLS == TLSImplicit {
		text = "octets in plaintext came in place of the TLS handshake"
	}
	s.fail(Failure{Kind: FailSecurity, Stage: WaitHandshake, Reply: s.own(451, mail.Status{Class: 4, Subject: 7}, text)})
}

// refused ends a session whose greeting, EHLO or AUTH was refused, with QUIT.
func (s *Session) refused(kind FailureKind, stage WaitKind) {
	s.fail(Failure{Kind: kind, Stage: stage, Reply: s.reply()})
	s.out.extend(append(s.out.commands, "QUIT\r\n"...))
}

// looks reports whether the server has our own name, and if so ends the session.
func (s *Session) looks() bool {
	if s.cfg.Self == "" {
		return false
	}
	line, _, _ := strings.Cut(s.parser.Text(), "\n")
	name, _, _ := strings.Cut(line, " ")
	if !strings.EqualFold(strings.TrimSuffix(name, "."), strings.TrimSuffix(s.cfg.Self, ".")) {
		return false
	}
	s.fail(Failure{
		Kind:  FailLoop,
		Stage: WaitHello,
		Reply: s.own(554, mail.Status{Class: 5, Subject: 4, Detail: 6}, "the server has our own name: mail loops back to us"),
	})
	return true
}
