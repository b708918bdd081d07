package client

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// answer gives the reply that was just read to the command it belongs to.
func (s *Session) answer() {
	if !s.slots.answerable() {
		s.unsolicited()
		return
	}
	sl := s.slots.pop()
	t := sl.tx
	if t != nil {
		t.unanswered--
		t.spoken = t.spoken || s.parser.Code() != 421
	}
	if s.parser.Code() == 421 && sl.kind != slotGreeting && sl.kind != slotQuit {
		s.closed(sl)
		return
	}
	switch sl.kind {
	case slotGreeting:
		s.onGreeting()
	case slotEhlo:
		s.onEhlo()
	case slotHelo:
		s.onHelo()
	case slotReset:
		s.onReset()
	case slotMail:
		s.onMail(t)
	case slotRcpt:
		s.onRcpt(t, int(sl.recipient))
	case slotData:
		s.onData(t)
	case slotFinal:
		s.onFinal(t)
	case slotEmptied:
		s.onEmptied(t)
	case slotQuit:
		s.fail(Failure{Kind: FailQuit, Stage: WaitQuit, Reply: s.reply()})
	}
	if t != nil && s.phase != phaseOver {
		s.settleEnvelope(t)
	}
}

// reply returns the reply that was just read.
func (s *Session) reply() mail.Reply { return s.parser.Reply(s.cfg.Peer) }

// class returns the first digit of the reply that was just read.
func (s *Session) class() uint16 { return s.parser.Code() / 100 }

// unsolicited handles a reply that no command asked for. After it nothing says
// any more which reply belongs to which command, so that a final reply that
// came just before it may have been to something else.
func (s *Session) unsolicited() {
	if s.parser.Code() == 421 {
		s.fail(Failure{Kind: FailClosed, Reply: s.reply()})
		return
	}
	s.garbled(WaitNothing, "a reply came that belongs to no command")
	s.doubt(s.failure.Reply)
}

// closed handles 421, which ends the session whatever it is said to
// (RFC 5321 3.8).
func (s *Session) closed(sl slot) {
	reply := s.reply()
	if sl.kind == slotFinal { // not in doubt: the server has said that it did not take the message
		sl.tx.settle(Accepted, Deferred, reply)
	}
	s.fail(Failure{Kind: FailClosed, Stage: sl.kind.wait(), Reply: reply})
}

func (s *Session) onGreeting() {
	switch s.class() {
	case 2:
		if s.looks() {
			return
		}
		s.phase = phaseHello
		s.command(slot{kind: slotEhlo}, "EHLO ", s.cfg.Hello, "\r\n")
	case 3:
		s.garbled(WaitGreeting, "the greeting is a 3xx reply")
	default:
		s.refused(FailGreeting, WaitGreeting)
	}
}

// onEhlo falls back to HELO after a 5yz only (RFC 5321 3.2): a server that is
// in trouble for now will not do better with HELO.
func (s *Session) onEhlo() {
	switch s.class() {
	case 2:
		if s.looks() {
			return
		}
		s.caps = smtp.ParseCaps(s.parser.Text())
		if s.caps.Pipelining {
			s.level = s.cfg.Level
		}
		s.phase = phaseReady
	case 5:
		s.command(slot{kind: slotHelo}, "HELO ", s.cfg.Hello, "\r\n")
	case 3:
		s.garbled(WaitHello, "the reply to EHLO is 3xx")
	default:
		s.refused(FailHello, WaitHello)
	}
}

func (s *Session) onHelo() {
	switch s.class() {
	case 2:
		s.phase = phaseReady
	case 3:
		s.garbled(WaitHello, "the reply to HELO is 3xx")
	default:
		s.refused(FailHello, WaitHello)
	}
}

// refused ends a session that never began, with a goodbye.
func (s *Session) refused(kind FailureKind, stage WaitKind) {
	s.fail(Failure{Kind: kind, Stage: stage, Reply: s.reply()})
	s.cmd = append(s.cmd, "QUIT\r\n"...)
}

// looks tells whether the server has our own name, and ends the session if so.
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

func (s *Session) onReset() {
	if s.class() != 2 {
		s.outOfStep(WaitReset, s.reply())
		return
	}
	s.opened = false
}

func (s *Session) onMail(t *Transaction) {
	switch s.class() {
	case 2:
		t.mail = mailAccepted
		s.opened = true
	case 3:
		s.garbled(WaitMail, "the reply to MAIL is 3xx")
	default:
		reply := s.reply()
		if s.lostStep(reply) {
			s.outOfStep(WaitMail, reply)
			return
		}
		t.mail = mailRefused
		t.mailReply = reply
	}
}

func (s *Session) onRcpt(t *Transaction, i int) {
	class := s.class()
	switch {
	case class == 3:
		s.garbled(WaitRcpt, "the reply to RCPT is 3xx")
	case t.mail == mailRefused:
		if class == 2 {
			s.outOfStep(WaitRcpt, s.mixup())
		}
	case class == 2:
		t.Results[i].Verdict = Accepted
		t.accepted++
	default:
		s.refuseRcpt(t, i)
	}
}

func (s *Session) refuseRcpt(t *Transaction, i int) {
	reply := s.reply()
	switch {
	case s.lostStep(reply):
		s.outOfStep(WaitRcpt, reply)
	case tooMany(reply) && t.accepted > 0:
		t.full = true
		t.Results[i] = Result{Again, reply}
	default:
		t.Results[i] = Result{refusal(reply.Code), reply}
	}
}

// tooMany tells whether a reply to RCPT means that the transaction has as many
// recipients as the server takes (RFC 5321 4.5.3.1.10, which has 552 read as
// 452). The same codes are used for full mailboxes; an enhanced code, if there
// is one, tells which it is. Without any recipient accepted before, it is about
// the recipient, or a loop would be built out of it.
func tooMany(r mail.Reply) bool {
	if r.Code != 452 && r.Code != 552 {
		return false
	}
	return r.Status == (mail.Status{}) || r.Status.Subject == 5 && r.Status.Detail == 3
}

func (s *Session) onData(t *Transaction) {
	class := s.class()
	switch {
	case t.mail == mailRefused:
		if class < 4 {
			s.outOfStep(WaitDataInit, s.mixup())
		}
	case class == 2:
		s.garbled(WaitDataInit, "the reply to DATA is 2xx")
	case class == 3 && t.accepted == 0:
		t.state = txEmptied
		s.command(slot{kind: slotEmptied, tx: t}, ".\r\n")
	case class == 3:
		t.state = txContent
		s.content = t
		s.stuffer.Reset()
		s.expect(slot{kind: slotFinal, tx: t}, 0)
		s.slots.hand() // its reply may come early, and then it counts
		s.slots.written()
	case t.accepted > 0:
		reply := s.reply()
		if s.lostStep(reply) {
			s.outOfStep(WaitDataInit, reply)
			return
		}
		t.settle(Accepted, refusal(reply.Code), reply)
	}
}

func (s *Session) onFinal(t *Transaction) {
	if t.state != txFinal {
		s.onEarlyFinal(t)
		return
	}
	class := s.class()
	if class == 3 {
		s.garbled(WaitFinal, "the reply to the content is 3xx")
		return
	}
	verdict := Delivered
	if class != 2 {
		verdict = refusal(s.parser.Code())
	}
	t.settle(Accepted, verdict, s.reply())
	t.final = true
	s.opened = false // the end of the content clears all buffers, whatever is said to it (RFC 5321 4.1.1.4)
	s.complete(t)
}

// onEarlyFinal handles a reply to content whose end was not sent. A refusal
// counts, for there is no other way for a server to stop a client that is
// sending content; anything else is nonsense. Either way the connection is
// closed, since content cannot be broken off.
func (s *Session) onEarlyFinal(t *Transaction) {
	if s.class() < 4 {
		s.garbled(WaitDataBlock, "a positive reply came before the end of the content")
		return
	}
	reply := s.reply()
	t.settle(Accepted, refusal(reply.Code), reply)
	s.fail(Failure{Kind: FailEarly, Stage: WaitDataBlock, Reply: reply})
}

func (s *Session) onEmptied(t *Transaction) {
	if s.class() == 3 {
		s.garbled(WaitFinal, "the reply to a lone dot is 3xx")
		return
	}
	if s.class() == 2 {
		s.tally.EmptyTaken++
	}
	s.complete(t)
}

// settleEnvelope completes a transaction that ended with its envelope.
func (s *Session) settleEnvelope(t *Transaction) {
	if t.state != txEnvelope || t.unanswered > 0 {
		return
	}
	if t.mail == mailRefused {
		t.step = stepNone
		t.settle(Pending, refusal(t.mailReply.Code), t.mailReply)
	}
	if t.step == stepNone {
		s.complete(t)
	}
}

// lostStep tells whether a refusal says that the server did not see the
// commands in our order. To bounce mail for that would be wrong: it is worth
// trying again in lock-step, where the same words are taken as they are.
func (s *Session) lostStep(r mail.Reply) bool {
	if s.level == LockStep {
		return false
	}
	return r.Code == 500 || r.Code == 503 || r.Code == 554 && r.Status.Subject == 5
}

// mixup returns the reply for a transaction whose MAIL was refused while
// something behind it was accepted.
func (s *Session) mixup() mail.Reply {
	return s.own(451, mail.Status{Class: 4, Subject: 5, Detail: 1}, "recipients were taken after MAIL had been refused")
}
