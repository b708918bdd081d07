package client

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// pump queues as many commands for writing as the level and the window allow.
func (s *Session) pump() {
	for s.phase == phaseReady {
		t := s.writable()
		if t == nil {
			return
		}
		switch t.step {
		case stepReset:
			s.command(slot{kind: slotReset, tx: t}, "RSET\r\n")
			t.step = stepMail
		case stepMail:
			if !s.expired(t) {
				s.writeMail(t)
				t.step = stepRcpt
			}
		case stepRcpt:
			s.writeRcpt(t)
		case stepData:
			s.writeData(t)
		}
		s.settleEnvelope(t)
	}
}

// writable returns the transaction whose next command may be written now, or
// nil. Another transaction may follow only the end of a content: DATA is the last
// command of a group (RFC 2920 3.1), and the reply to it decides what may follow.
func (s *Session) writable() *Transaction {
	for _, t := range s.active {
		switch {
		case t.state == txSent || t.state == txDone:
			continue
		case t.state == txQueued && s.mayOpen(t):
			s.open(t)
			return t
		case t.state == txEnvelope && t.step != stepNone && s.mayWrite(t):
			return t
		}
		return nil
	}
	return nil
}

// mayOpen reports whether the first command of a transaction may be written,
// given that all earlier transactions are completely written.
func (s *Session) mayOpen(t *Transaction) bool {
	switch {
	case s.slots.len() == 0:
		return true
	case s.level < Overlap || s.cfg.LMTP && !s.mayFollow(t):
		return false
	}
	return !s.streamable(t) || s.fits(t)
}

// mayWrite reports whether one more command may be sent before the next reply.
func (s *Session) mayWrite(t *Transaction) bool {
	return s.slots.len() == 0 || t.form == formStream || s.level >= Group && s.slots.size < GroupMax
}

// open chooses how a transaction is written.
//
// An envelope that was left open is first closed with RSET, or our recipients
// might be added to it. An envelope whose content was refused is assumed to be
// open, too: the end of the content should have closed it (RFC 5321 4.1.1.4), but
// does not if Postfix's smtpd_end_of_data_restrictions refuse. No RSET follows
// content whose reply is not known yet, because content is hardly ever refused.
// BDAT is different (RFC 3030 2 does not define the state after a refused one),
// and the outcome of earlier commands is not known when a streamed message is
// written; so at level Stream every MAIL has its RSET.
func (s *Session) open(t *Transaction) {
	behind := s.slots.len() > 0
	t.state, t.step = txEnvelope, stepMail
	t.fenced = s.level == Stream && s.mails > 0
	if t.fenced || s.opened && !behind {
		t.step = stepReset
	}
	switch {
	case s.streamable(t):
		t.form, t.level = formStream, Stream
	case behind:
		t.level = Overlap
	default:
		t.level = min(s.level, Group)
	}
	s.used = max(s.used, t.level)
}

// streamable reports whether a transaction may be written without waiting for
// replies. The first one of a session never is, nor are the last two that the
// server's limit allows: the limit counts commands, not successes (RFC 9422), and
// refusals become known only later. Nor is mail that the server may refuse because of its deadline.
func (s *Session) streamable(t *Transaction) bool {
	most := s.caps.Limits.Mails
	return s.level == Stream && s.mails > 0 && !t.Unstreamed && !t.RequireTLS && !t.Callout && t.Envelope.By.Mode != mail.ByReturn &&
		(most == 0 || s.mails < most-2) &&
		t.Envelope.Size > 0 && t.Envelope.Size <= StreamSizeMax && len(t.Recipients) <= StreamRecipientsMax
}

// fits reports whether a streamed message may join the unanswered ones.
func (s *Session) fits(t *Transaction) bool {
	octets := t.Envelope.Size
	for _, a := range s.active {
		if a.state == txSent && a.form == formStream {
			octets += a.Envelope.Size
		}
	}
	return octets <= StreamOctetsMax
}

// settleEnvelope completes a transaction that ended with its envelope.
func (s *Session) settleEnvelope(t *Transaction) {
	if t.form == formStream && t.state == txContent && !t.wanted() {
		t.state, t.step, s.content = txEnvelope, stepNone, nil // BDAT would be refused
	}
	if t.state != txEnvelope || t.unanswered > 0 {
		return
	}
	if t.refused() {
		t.step = stepNone
		t.settleOpen(t.mailVerdict(), t.mailReply, WaitMail)
	}
	if t.step == stepNone {
		if t.Callout {
			t.settleCallout()
		}
		if t.withheld {
			t.settle(Accepted, Deferred, interrupted(), WaitNothing)
		}
		s.complete(t)
	}
}

// Wanting returns the transaction whose content must be supplied now, or nil. The
// content may be needed in one piece; see Transaction.Whole. While there is output
// to be written Wanting returns nil, unless the content can go into the same
// write. The result is valid only until the next Feed or End.
func (s *Session) Wanting() *Transaction {
	if t := s.content; t != nil && (t.form == formStream || s.out.empty()) {
		return t
	}
	return nil
}

// Supply provides the next piece of the content of the transaction that Wanting
// returned; last marks the last piece. The content has CRLF line ends and no
// dot-stuffing. The piece must not be changed until it is written.
func (s *Session) Supply(piece []byte, last bool) {
	t := s.Wanting()
	switch {
	case t == nil:
		panic("smtp/client: content supplied that is not wanted")
	case t.form == formStream && !last:
		panic("smtp/client: content supplied in parts that is wanted whole")
	case t.form == formStream:
		s.writeChunk(t, piece)
	default:
		s.out.piece(s.stuffer.Encode(piece))
		if !last {
			return
		}
		s.out.piece(s.stuffer.End())
		s.slots.endContent(s.out.queued)
	}
	t.state, t.end = txSent, s.out.queued
	s.content = nil
	s.pump()
}

// Withhold gives up the content of the transaction that Wanting returned, because
// it is not available or not valid. The end of the content is never written.
// Before BDAT the server has seen nothing of the content: the recipients that it
// accepts are Deferred, the session continues, and the RSET before the next MAIL
// cancels the envelope. After 354 content can be broken off only by closing the
// connection; at that point no other message is unanswered.
func (s *Session) Withhold() {
	t := s.Wanting()
	switch {
	case t == nil:
		panic("smtp/client: content withheld that is not wanted")
	case t.form != formStream:
		s.End(LossAbandoned)
		return
	}
	t.state, t.step, t.withheld, s.content = txEnvelope, stepNone, true, nil
	s.settleEnvelope(t)
	s.pump()
}

// writeChunk writes the whole content after BDAT. RFC 3030 2 allows empty chunks,
// but some servers do not accept one as the last; Chunk never returns an empty
// one.
func (s *Session) writeChunk(t *Transaction, content []byte) {
	content = smtp.Chunk(content)
	b := append(s.out.commands, "BDAT "...)
	b = strconv.AppendInt(b, int64(len(content)), 10)
	s.put(slot{kind: slotChunk, tx: t}, append(b, " LAST\r\n"...))
	t.begun = s.out.queued
	s.out.piece(content)
	s.slots.last().end = s.out.queued
}
