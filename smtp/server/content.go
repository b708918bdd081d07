package server

import (
	"slices"
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A body is what is known of the content of the transaction.
type body struct {
	unstuff smtp.Unstuffer
	header  smtp.HeaderScan
	lead    smtp.LeadScan
	begun   []byte // octets withheld until lead is decided, then what is handed in their place
	led     bool   // it is
	high    bool   // some octet is above 127
	lines   smtp.LineScan
	normal  smtp.Normalizer
	flaws   smtp.Flaw
	failure mail.Reply // why the host could not take the content
	size    int64      // octets received so far
	handed  int64      // octets given to the host; differs by what is normalised
	ended   bool       // DATA: the end was seen
	chunk   chunk
	trace   []byte // the Received field; kept for the next one
	scratch []byte // normalised content
}

// A chunk is what is known of the BDAT that is being read.
type chunk struct {
	size    int64
	left    int64
	last    bool
	refusal mail.Reply // its octets are thrown away, then this is the reply
}

func (s *Session) data(arg []byte) {
	switch {
	case len(arg) > 0:
		s.refuse(reply(501, 5, 4, "Syntax: DATA"))
	case s.tx.state == txNone:
		s.refuse(needMail())
	case s.tx.state == txChunks:
		// RFC 3030 2: the two do not mix. What the client means is unclear, so
		// what it sent so far will not become a message.
		s.drop()
		s.refuse(reply(503, 5, 1, "Error: DATA after BDAT"))
	case s.tx.given == 0:
		s.refuse(reply(554, 5, 1, "Error: no valid recipients"))
	default:
		s.out = append(s.out, "354 End data with <CR><LF>.<CR><LF>\r\n"...)
		s.state = atContent
		s.beginContent()
	}
}

// beginContent makes the scanners ready and writes the Received field.
func (s *Session) beginContent() {
	s.body.lines.Max = s.cfg.TextLineLimit
	s.body.header.Limits = smtp.HeaderLimits{
		Octets:   s.cfg.HeaderLimit,
		Fields:   s.cfg.HeaderFieldLimit,
		Received: s.cfg.HopLimit,
		Own:      s.cfg.OwnHopLimit,
		Host:     s.cfg.Hostname,
	}
	s.body.trace = s.appendReceived(s.body.trace[:0])
	s.slots.content.Octets = s.body.trace
	s.pending.push(&s.slots.content)
}

// readContent takes what follows DATA.
func (s *Session) readContent(in []byte) (n int, more bool) {
	if s.body.ended {
		s.state = s.lineState()
		s.endContent("DATA")
		return 0, true
	}
	if len(in) == 0 {
		return 0, false
	}
	octets, n, end := s.body.unstuff.Next(in)
	s.body.ended = end
	s.pass("DATA", octets)
	return n, true
}

func (s *Session) bdat(arg []byte) {
	size, last, ok := smtp.ParseChunk(arg)
	if !ok {
		s.lostCount()
		return
	}
	if s.tooFarBeyond(s.body.size, size) {
		s.refuseAndEnd(s.goodbye(3, 4, "Error: message size exceeds fixed limit"), ReasonOversize)
		return
	}
	if size == 0 && !last {
		s.countJunk() // legal, and a way to keep us busy
		if s.state == atEnd {
			return
		}
	}
	refusal := s.chunkRefusal(size)
	if !refusal.IsZero() {
		s.drop()
	}
	s.body.chunk = chunk{size: size, left: size, last: last, refusal: refusal}
	s.state = atChunk
	if refusal.IsZero() && s.tx.state == txEnvelope {
		s.tx.state = txChunks
		s.beginContent()
	}
}

// chunkRefusal tells why a BDAT cannot be accepted, whatever it carries.
func (s *Session) chunkRefusal(size int64) mail.Reply {
	switch {
	case s.tx.state == txNone:
		return needMail()
	case s.tx.given == 0:
		return reply(554, 5, 1, "Error: no valid recipients")
	case s.cfg.SizeLimit != Unlimited && size > s.cfg.SizeLimit-s.body.size:
		return oversize()
	}
	return mail.Reply{}
}

// lostCount ends the session after a BDAT that cannot be read: where its
// octets end and the next command begins is unknown, and to guess is to obey
// commands out of a message.
func (s *Session) lostCount() {
	s.refuseAndEnd(reply(501, 5, 4, "Syntax: BDAT octets [LAST]; closing connection"), ReasonProtocol)
}

// readChunk takes what follows BDAT.
func (s *Session) readChunk(in []byte) (n int, more bool) {
	c := &s.body.chunk
	if c.left == 0 {
		if c.last && s.handTail() {
			return 0, true
		}
		s.state = s.lineState()
		s.endChunk()
		return 0, true
	}
	if len(in) == 0 {
		return 0, false
	}
	n = int(min(int64(len(in)), c.left))
	c.left -= int64(n)
	if c.refusal.IsZero() {
		s.pass("BDAT", in[:n])
	}
	return n, true
}

func (s *Session) endChunk() {
	c := s.body.chunk
	switch {
	case !c.refusal.IsZero():
		s.body.chunk = chunk{}
		s.refuseCommand("BDAT", c.refusal)
	case c.last:
		s.endContent("BDAT")
	default:
		s.endPart(c.size)
	}
}

// endPart answers a chunk that is not the last.
func (s *Session) endPart(size int64) {
	if refusal := s.verdict(); !refusal.IsZero() {
		s.drop()
		s.refuseCommand("BDAT", refusal)
		return
	}
	s.out = append(s.out, "250 2.0.0 Ok: "...)
	s.out = strconv.AppendInt(s.out, size, 10)
	s.out = append(s.out, " octets\r\n"...)
}

// pass looks at a piece of content and hands it on. Scanning goes on after a
// refusal is certain, so that which of several reasons is given does not
// depend on their order in time.
func (s *Session) pass(command string, octets []byte) {
	if len(octets) == 0 {
		return
	}
	if s.tooFarBeyond(s.body.size, int64(len(octets))) {
		s.command = []byte(command)
		s.refuseAndEnd(s.goodbye(3, 4, "Error: message size exceeds fixed limit"), ReasonOversize)
		return
	}
	s.body.size += int64(len(octets))
	s.body.flaws |= s.body.header.Scan(octets)
	if s.peer.Normalize {
		s.body.scratch = s.body.normal.Append(s.body.scratch[:0], octets)
		octets = s.body.scratch
	}
	s.hand(s.leading(octets))
}

// leading returns the octets to be handed on, with an empty line in front if the content
// begins with no header: behind our Received field its first line would be taken for
// more of it. Until that is known octets are withheld, a line at most.
func (s *Session) leading(octets []byte) []byte {
	b := &s.body
	if b.led {
		return octets
	}
	lead := b.lead.Scan(octets)
	if lead == smtp.LeadOpen {
		b.begun = append(b.begun, octets...)
		return nil
	}
	return s.leadBy(lead, octets)
}

func (s *Session) leadBy(lead smtp.Lead, octets []byte) []byte {
	b := &s.body
	b.led = true
	switch {
	case lead == smtp.LeadBody:
		b.begun = slices.Concat([]byte("\r\n"), b.begun, octets)
	case len(b.begun) == 0:
		return octets
	default:
		b.begun = append(b.begun, octets...)
	}
	return b.begun
}

// hand gives octets to the host as long as there is a draft for them.
func (s *Session) hand(octets []byte) {
	s.body.flaws |= s.body.lines.Scan(octets)
	s.body.high = s.body.high || smtp.EightBit(octets)
	if !s.verdict().IsZero() {
		s.abortDraft()
	}
	if s.tx.draft && len(octets) > 0 {
		s.body.handed += int64(len(octets))
		s.slots.content.Octets = octets
		s.pending.push(&s.slots.content)
	}
}

// handTail hands on what the normaliser withholds, if anything. Content behind
// DATA ends in CRLF, so that only BDAT can leave something there.
func (s *Session) handTail() bool {
	tail := s.body.normal.End(s.body.scratch[:0])
	s.body.scratch = tail
	if !s.body.led && len(s.body.begun)+len(tail) > 0 {
		tail = s.leadBy(smtp.LeadBody, tail)
	}
	s.hand(tail)
	return len(tail) > 0
}

// tooFarBeyond tells whether content grows beyond one and a half times the
// limit: up to there it is read, so that the client gets a proper refusal.
func (s *Session) tooFarBeyond(have, add int64) bool {
	limit := s.cfg.SizeLimit
	return limit != Unlimited && add > limit+limit/2-have
}

// verdict tells why the content so far cannot be accepted; zero if it can.
func (s *Session) verdict() mail.Reply {
	flaws := s.body.flaws
	switch {
	case flaws == 0 && s.body.failure.IsZero() && (s.cfg.SizeLimit == Unlimited || s.body.size <= s.cfg.SizeLimit):
		return mail.Reply{}
	case flaws&smtp.FlawNewline != 0:
		return reply(550, 6, 11, "Error: bare <CR> or <LF> in message")
	case flaws&smtp.FlawNUL != 0:
		return reply(554, 6, 0, "Error: NUL in message")
	case flaws&smtp.FlawLongLine != 0:
		return reply(554, 6, 0, "Error: line too long in message")
	case flaws&smtp.FlawHops != 0:
		return reply(554, 4, 6, "Error: too many hops")
	case flaws&smtp.FlawHeaderSize != 0:
		return reply(552, 3, 4, "Error: message header too large")
	case flaws&smtp.FlawHeaderFields != 0:
		return reply(554, 6, 0, "Error: too many header fields")
	case s.cfg.SizeLimit != Unlimited && s.body.size > s.cfg.SizeLimit:
		return oversize()
	}
	return s.body.failure
}

// endContent is reached once the last octet was handed on.
func (s *Session) endContent(command string) {
	s.body.flaws |= s.body.lines.End()
	if refusal := s.verdict(); !refusal.IsZero() {
		s.drop()
		s.refuseCommand(command, refusal)
		return
	}
	if s.body.high { // whether it was said or not, that is what servers are to be told
		s.tx.mail.Body = mail.Body8BitMIME
	}
	s.slots.commit.Envelope = mail.Envelope{
		ID:         s.tx.id,
		Sender:     s.tx.mail.Sender,
		EnvID:      s.tx.mail.EnvID,
		Ret:        s.tx.mail.Ret,
		Body:       s.tx.mail.Body,
		SMTPUTF8:   s.tx.mail.SMTPUTF8,
		Size:       s.body.handed + int64(len(s.body.trace)),
		Recipients: s.tx.distinct,
		Client:     s.client(),
	}
	s.pending.push(&s.slots.commit)
}

// committed goes on after the end of content. The draft is gone either way.
func (s *Session) committed(refusal mail.Reply) {
	id := s.tx.id
	s.tx.draft = false
	s.drop()
	if !refusal.IsZero() {
		s.refuseCommand("end of content", refusal)
		return
	}
	s.tally = tally{}
	text := id.String()
	s.out = append(s.out, "250 2.0.0 Ok: queued as "...)
	s.out = append(s.out, text...)
	s.out = append(s.out, "\r\n"...)
}
