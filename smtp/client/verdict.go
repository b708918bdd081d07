package client

import "github.com/posthaste-mta/posthaste/mail"

func (s *Session) onReset(t *Transaction) {
	if s.class() != 2 {
		t.fenced = t.fenced && !t.dismissed // a server that sends 421 need not execute the RSET
		s.outOfStep(t, FailStep, WaitReset, s.reply())
		return
	}
	s.opened = false
}

func (s *Session) onMail(t *Transaction) {
	behindRefusal := s.finalRefused && t.level == Overlap
	s.finalRefused = false
	switch s.class() {
	case 2:
		t.mail = mailAccepted
		s.opened = true
	case 3:
		s.desync(WaitMail, "the reply to MAIL is 3xx")
	default:
		t.mail, t.mailReply = mailRefused, s.reply()
		// Sendmail (8.17) keeps the DSN parameters of a MAIL that it has refused,
		// and permanently refuses every further one as a duplicate, until RSET.
		s.opened = s.opened || t.Envelope.EnvID != "" || t.Envelope.Ret != mail.RetUnset
		switch {
		case t.mailReply.Code == 421 && t.reused: // the server ends the session; the message is not the cause
			t.mail = mailOutOfStep
		case t.mailReply.Code == 503 && t.fenced:
			t.mail = mailOutOfStep
			s.outOfStep(t, FailFence, WaitMail, t.mailReply)
		case t.mailReply.Code == 503 && behindRefusal:
			// The refused content has not closed the envelope, contrary to RFC
			// 5321 4.1.1.4. RSET will, so the connection can be kept.
			t.mail = mailOutOfStep
			s.opened = true
		case s.lostStep(t.mailReply):
			t.mail = mailOutOfStep
			s.outOfStep(t, FailStep, WaitMail, t.mailReply)
		}
	}
}

func (s *Session) onRcpt(t *Transaction, i int) {
	class := s.class()
	switch {
	case class == 3:
		s.desync(WaitRcpt, "the reply to RCPT is 3xx")
	case class == 2:
		t.Results[i].Verdict = Accepted
		if t.accepted++; t.Callout {
			t.Results[i].Reply = s.reply()
		}
		if t.refused() {
			s.mixedUp(t, WaitRcpt)
		}
	case !t.refused():
		s.refuseRcpt(t, i)
	}
}

func (s *Session) refuseRcpt(t *Transaction, i int) {
	reply := s.reply()
	switch {
	case s.lostStep(reply):
		t.Results[i] = Result{Again, reply, WaitRcpt}
		s.outOfStep(t, FailStep, WaitRcpt, reply)
	case tooMany(reply) && t.accepted > 0:
		t.full = true
		t.Results[i] = Result{Again, reply, WaitRcpt}
	default:
		t.Results[i] = Result{refusal(reply.Code), reply, WaitRcpt}
	}
}

// tooMany reports whether a reply to RCPT means that the server accepts no more
// recipients in the transaction (RFC 5321 4.5.3.1.10, which says to treat 552 like
// 452). The same codes are used for full mailboxes; an enhanced code, if there is
// one, distinguishes them. If no recipient was accepted before, the reply is taken
// to be about the recipient, or it would lead to an endless loop.
func tooMany(r mail.Reply) bool {
	if r.Code != 452 && r.Code != 552 {
		return false
	}
	return r.Status == (mail.Status{}) || r.Status.Subject == 5 && r.Status.Detail == 3
}

func (s *Session) onData(t *Transaction) {
	class := s.class()
	switch {
	case class == 2:
		s.desync(WaitDataInit, "the reply to DATA is 2xx")
	case class == 3 && t.refused():
		s.mixedUp(t, WaitDataInit)
	case class == 3 && s.phase == phaseDrain:
		s.fail(s.failure) // content can no longer be omitted, but must not be sent
	case class == 3 && t.accepted == 0 && s.cfg.LMTP:
		// DATA must be refused (RFC 2033 4.2). A lone dot would get no reply.
		s.garbled(WaitDataInit, "DATA was accepted without recipients")
	case class == 3 && t.accepted == 0:
		t.state = txEmptied
		s.command(slot{kind: slotEmptied, tx: t}, ".\r\n")
	case class == 3:
		s.stuffer.Reset()
		s.content, t.state, t.begun = t, txContent, s.out.queued
		s.expectFinal(t)
	case t.accepted > 0:
		reply := s.reply()
		if s.lostStep(reply) {
			t.settle(Accepted, Again, reply, WaitDataInit)
			s.outOfStep(t, FailStep, WaitDataInit, reply)
			return
		}
		t.settle(Accepted, refusal(reply.Code), reply, WaitDataInit)
	}
}

// onFinal handles the reply to the content of a transaction.
func (s *Session) onFinal(t *Transaction) {
	class := s.class()
	switch {
	case t.state != txSent || t.end > s.given():
		s.onEarlyFinal(t)
	case class == 3:
		s.desync(WaitFinal, "the reply to the content is 3xx")
	default:
		if class == 2 {
			s.opened = false
		}
		s.finalRefused = class != 2
		t.finalReply, t.strange = s.reply(), t.form == formStream && s.alarm.rings()
		if t.held = class == 2 && t.end > s.out.written; !t.held {
			s.settleFinal(t)
			s.complete(t)
		}
	}
}

// release concludes transactions whose final reply came while their content was
// being written, if all of it is now known to be written. Until then the content
// may yet be cut off, and the reply may have answered something else.
func (s *Session) release() {
	for len(s.active) > 0 && s.active[0].held && s.active[0].end <= s.out.written {
		t := s.active[0]
		if s.settleHeld(t); t.finals > 0 {
			return
		}
		s.complete(t)
	}
}

// settleHeld settles a transaction by what was held back until its content was written.
func (s *Session) settleHeld(t *Transaction) {
	if s.cfg.LMTP {
		t.settleKept()
		return
	}
	s.settleFinal(t)
}

// settleFinal settles a transaction by its final reply.
func (s *Session) settleFinal(t *Transaction) {
	reply := t.finalReply
	t.final, t.held = true, false
	switch {
	case reply.Positive() && t.refused():
		t.astray = true
		s.tally.Astray++
		t.settle(Accepted, Delivered, reply, WaitFinal)
		s.mixedUp(t, WaitFinal)
	case reply.Positive() && t.accepted == 0:
		s.tally.EmptyTaken++
	case reply.Positive() && t.strange:
		t.settle(Accepted, Doubtful, reply, WaitFinal)
	case reply.Positive():
		t.settle(Accepted, Delivered, reply, WaitFinal)
	case t.form == formStream && t.accepted > 0 && !t.refused() && s.lostStep(reply):
		t.settle(Accepted, Again, reply, WaitFinal)
		s.outOfStep(t, FailStep, WaitFinal, reply)
	case !t.refused():
		t.settle(Accepted, refusal(reply.Code), reply, WaitFinal)
	}
	if t.refused() {
		t.settleOpen(t.mailVerdict(), t.mailReply, WaitMail)
	}
}

// onEarlyFinal handles a reply to content whose end was not sent. A refusal
// counts, because a server has no other way to stop a client that is sending
// content; any other reply is an error. Either way the connection is closed,
// since content cannot be broken off.
func (s *Session) onEarlyFinal(t *Transaction) {
	if s.class() < 4 {
		s.desync(WaitDataBlock, "a positive reply came before the end of the content")
		return
	}
	reply := s.reply()
	t.settle(Accepted, refusal(reply.Code), reply, WaitFinal)
	s.fail(Failure{Kind: FailEarly, Stage: WaitDataBlock, Reply: reply})
}

func (s *Session) onEmptied(t *Transaction) {
	if s.class() == 3 {
		s.desync(WaitFinal, "the reply to a lone dot is 3xx")
		return
	}
	if s.class() == 2 {
		s.tally.EmptyTaken++
	}
	s.complete(t)
}

// lostStep reports whether a refusal means that the server did not see the
// commands in our order. It would be wrong to bounce mail for that: it is worth
// another attempt in lock-step, where the same reply is accepted as it is.
func (s *Session) lostStep(r mail.Reply) bool {
	if s.level == LockStep {
		return false
	}
	return r.Code == 500 || r.Code == 503 || r.Code == 554 && r.Status.Subject == 5
}

// mixedUp ends the session because the MAIL of a transaction was refused while
// a later command of it was accepted: the server has added it to an older
// transaction.
func (s *Session) mixedUp(t *Transaction, stage WaitKind) {
	kind := FailStep
	if t.fenced {
		kind = FailFence
	}
	t.mail, t.mailReply = mailOutOfStep, s.own(451, mail.Status{Class: 4, Subject: 5, Detail: 1},
		"recipients were taken after MAIL had been refused")
	s.outOfStep(t, kind, stage, t.mailReply)
}
