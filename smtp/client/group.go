package client

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/smtp"
)

// pump puts as many commands in line for writing as the level and the window
// allow.
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
			s.writeMail(t)
			t.step = stepRcpt
		case stepRcpt:
			s.writeRcpt(t)
		case stepData:
			s.writeData(t)
		}
		s.settleEnvelope(t)
	}
}

// writable returns the transaction whose next command may be written now, or
// nil. Only the end of a content may have another transaction behind it: DATA
// is the last command of a group (RFC 2920 3.1), and what it is answered with
// decides on what may follow.
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

// mayOpen tells whether the first command of a transaction may be written,
// given that all before it are written to their end.
func (s *Session) mayOpen(t *Transaction) bool {
	if s.slots.len() == 0 {
		return true
	}
	return s.level >= Overlap && (!s.streamable(t) || s.fits(t))
}

// mayWrite tells whether one more command may go out before the next reply.
func (s *Session) mayWrite(t *Transaction) bool {
	return s.slots.len() == 0 || t.form == formStream || s.level >= Group && s.slots.size < GroupMax
}

// open chooses how a transaction is to be written.
//
// An envelope that was left open is closed with RSET first, or else our
// recipients might be added to it. One whose content was refused is taken for
// open, too: its end should have closed it (RFC 5321 4.1.1.4), but does not if
// Postfix's smtpd_end_of_data_restrictions refuse. Behind content whose reply is
// not known yet there is no RSET, since hardly any is refused.
// That is not so with BDAT (RFC 3030 2 leaves it open what state a refused one
// leaves behind), and what goes before a streamed message is not known when
// it is written; so at level Stream every MAIL has its RSET.
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

// streamable tells whether a transaction may be written without waiting for
// replies. The first one of a session never is, nor are the last two that the
// server's limit allows: commands count for that, not successes (RFC 9422), and
// what came to be refused is known only later.
func (s *Session) streamable(t *Transaction) bool {
	most := s.caps.Limits.Mails
	return s.level == Stream && s.mails > 0 && !t.Unstreamed && !t.Callout &&
		(most == 0 || s.mails < most-2) &&
		t.Envelope.Size > 0 && t.Envelope.Size <= StreamSizeMax && len(t.Recipients) <= StreamRecipientsMax
}

// fits tells whether a streamed message may join those that are unanswered.
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
		t.settleOpen(t.mailVerdict(), t.mailReply)
	}
	if t.step == stepNone {
		if t.Callout {
			t.settleCallout()
		}
		if t.withheld {
			t.settle(Accepted, Deferred, interrupted())
		}
		s.complete(t)
	}
}

// Wanting returns the transaction whose content is to be supplied now, or nil.
// It may have to be supplied whole; see Transaction.Whole. While there is
// something to be written it is nil, unless the content can go into the same
// write. What was wanted may not be any more after Feed or End.
func (s *Session) Wanting() *Transaction {
	if t := s.content; t != nil && (t.form == formStream || s.out.empty()) {
		return t
	}
	return nil
}

// Supply gives the next piece of the content of the transaction that Wanting
// returned; last tells that it is the last one. The content has CRLF line ends
// and no dot-stuffing. The piece must not be changed before it was written.
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
		s.slots.last().end = s.out.queued
	}
	t.state, t.end = txSent, s.out.queued
	s.content = nil
	s.pump()
}

// Withhold gives up the content of the transaction that Wanting returned: it turned
// out that it cannot be had, or is not what it should be. Nothing is written that
// would end it. In the place of BDAT nothing has been said of the content, so that
// the recipients that the server accepts are Deferred, and the session goes on; the
// RSET in front of the next MAIL takes the envelope back. Behind 354 there is no way
// to break content off but with the connection, as there is no other message that
// has not been answered.
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

// writeChunk writes the whole content behind BDAT. RFC 3030 2 allows chunks of
// no octets, which some servers do not take as the last one; Chunk never
// returns nothing.
func (s *Session) writeChunk(t *Transaction, content []byte) {
	content = smtp.Chunk(content)
	b := append(s.out.commands, "BDAT "...)
	b = strconv.AppendInt(b, int64(len(content)), 10)
	s.put(slot{kind: slotChunk, tx: t}, append(b, " LAST\r\n"...))
	t.begun = s.out.queued
	s.out.piece(content)
	s.slots.last().end = s.out.queued
}
