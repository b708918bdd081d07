package client

import "github.com/posthaste-mta/posthaste/mail"

// A keptReply is the reply to a content for one recipient that came before all of the
// content was known to be written.
type keptReply struct {
	recipient int
	reply     mail.Reply
}

// expectFinal adds the replies to a content to those that are expected: one, or with
// LMTP one for each accepted recipient, in the order of their RCPTs (RFC 2033 4.2). The
// end of the content is not known yet.
func (s *Session) expectFinal(t *Transaction) {
	if !s.cfg.LMTP {
		s.put(slot{kind: slotFinal, tx: t}, s.out.commands)
		s.slots.last().end = endUnknown
		return
	}
	t.finals = 0
	for i := range t.Results {
		if t.Results[i].Verdict == Accepted {
			s.put(slot{kind: slotRecipient, tx: t, recipient: int32(i)}, s.out.commands)
			s.slots.last().end = endUnknown
			t.finals++
		}
	}
}

// mayFollow reports whether a transaction may be written directly after the content of
// the previous one. If the server answers that with fewer replies than it must, for
// example with one for all recipients, the reply to the next MAIL would be taken for a
// recipient's, and count as a delivery. So several recipients are followed only after the
// server was seen to answer for each of several, when nothing else could be mistaken for
// an answer. Behind a content that was refused for one of them before its end nothing follows: the
// server may have meant all.
func (s *Session) mayFollow(t *Transaction) bool {
	for i, a := range s.active {
		if a == t && i > 0 {
			before := s.active[i-1]
			return !before.early && (s.counted || before.accepted <= 1)
		}
	}
	return true
}

// onRecipient handles the reply to the content of a transaction for one recipient.
func (s *Session) onRecipient(t *Transaction, i int) {
	class := s.class()
	switch {
	case t.state != txSent || t.end > s.given():
		s.onEarlyRecipient(t, i)
		return
	case class == 3:
		s.desync(WaitFinal, "the reply to the content is 3xx")
		return
	case class == 2:
		s.opened = false
	default:
		s.finalRefused = true
	}
	if t.finals--; class == 2 && t.end > s.out.written {
		t.held, t.kept = true, append(t.kept, keptReply{i, s.reply()})
	} else {
		t.settleRecipient(i, s.reply())
	}
	s.counted = s.counted || t.finals == 0 && t.accepted > 1 && s.slots.len() == 0
	if t.finals == 0 && !t.held {
		s.complete(t)
	}
}

// settleRecipient settles one recipient by the reply to the content for it.
func (t *Transaction) settleRecipient(i int, reply mail.Reply) {
	t.final = true
	verdict := Delivered
	if !reply.Positive() {
		verdict = refusal(reply.Code)
	}
	t.Results[i] = Result{verdict, reply, WaitFinal}
}

// settleKept settles the recipients whose replies were kept.
func (t *Transaction) settleKept() {
	for _, k := range t.kept {
		t.settleRecipient(k.recipient, k.reply)
	}
	t.held, t.kept = false, nil
}

// onEarlyRecipient handles a reply to the content for one recipient that came before the content's
// end was sent. The server may know early that a mailbox is full. Each recipient has a reply
// of his own (RFC 2033 4.2), so the content goes on for the others; if there are none, it ends
// as in SMTP.
//
// If the next envelope is in the output already, what comes for it could be taken for the others'
// replies should the server have meant all of them. Then the session ends, and they are tried
// again: each such attempt settles a recipient, so there are not more than those.
func (s *Session) onEarlyRecipient(t *Transaction, i int) {
	if s.class() < 4 {
		s.desync(WaitDataBlock, "a positive reply came before the end of the content")
		return
	}
	reply := s.reply()
	t.settleRecipient(i, reply)
	t.early, s.finalRefused = true, true
	switch t.finals--; {
	case t.finals == 0:
	case s.slots.last().tx != t:
		t.settle(Accepted, Again, s.own(451, mail.Status{Class: 4, Subject: 5},
			"the content was refused before its end, for another recipient"), WaitFinal)
	default:
		return
	}
	s.fail(Failure{Kind: FailEarly, Stage: WaitDataBlock, Reply: reply})
}
