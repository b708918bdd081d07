package server

import (
	"slices"
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A body is the state of the content of the transaction.
type body struct {
	unstuff smtp.Unstuffer
	header  smtp.HeaderScan
	fields  smtp.FieldScan
	lead    smtp.LeadScan
	begun   []byte // octets held back until lead is decided, then the octets passed on in their place
	led     bool   // lead is decided
	high    bool   // some octet is above 127
	lines   smtp.LineScan
	normal  smtp.Normalizer
	flaws   smtp.Flaw
	failure mail.Reply // why the host could not accept the content
	size    int64      // octets received so far
	handed  int64      // octets passed to the host; size after normalization
	ended   bool       // DATA: the end was seen
	chunk   chunk
	trace   []byte // the Received field; kept for reuse
	scratch []byte // normalized content
}

// A chunk is the state of the BDAT that is being read.
type chunk struct {
	size    int64
	left    int64
	last    bool
	refusal mail.Reply // if set, its octets are dropped and this is the reply
}

func (s *Session) data(arg []byte) {
	switch {
	case len(arg) > 0:
		s.refuse(reply(501, 5, 4, "Syntax: DATA"))
	case s.tx.state == txNone:
		s.refuse(needMail())
	case s.tx.state == txChunks:
		// RFC 3030 2: the two cannot be mixed. The client's intention is unclear, so
		// the content sent so far must not become a message.
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

// beginContent prepares the scanners and writes the Received field.
func (s *Session) beginContent() {
	s.body.lines.Max = s.cfg.TextLineLimit
	s.body.header.Limits = smtp.HeaderLimits{
		Octets:   s.cfg.HeaderLimit,
		Fields:   s.cfg.HeaderFieldLimit,
		Received: s.cfg.HopLimit,
		Own:      s.cfg.OwnHopLimit,
		Host:     s.cfg.Hostname,
	}
	s.body.fields.Begin(s.watch)
	s.body.trace = s.appendReceived(s.body.trace[:0])
	s.slots.content = Content{Octets: s.body.trace, Trace: true}
	s.pending.push(&s.slots.content)
}

// readContent processes the input after DATA.
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
	if s.witness != nil {
		s.witness.Content(s.out, octets)
	}
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
		s.countJunk() // legal, but could be used to keep the server busy
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

// chunkRefusal returns the reason why a BDAT cannot be accepted, whatever its content.
func (s *Session) chunkRefusal(size int64) mail.Reply {
	switch {
	case s.mustEncrypt(smtp.VerbMAIL):
		return needTLS()
	case s.tx.state == txNone:
		return needMail()
	case s.tx.given == 0:
		return reply(554, 5, 1, "Error: no valid recipients")
	case s.cfg.SizeLimit != Unlimited && size > s.cfg.SizeLimit-s.body.size:
		return oversize()
	}
	return mail.Reply{}
}

// lostCount ends the session after a BDAT that cannot be parsed: the end of its
// octets, and so the start of the next command, is unknown, and guessing could
// execute commands contained in a message.
func (s *Session) lostCount() {
	s.refuseAndEnd(reply(501, 5, 4, "Syntax: BDAT octets [LAST]; closing connection"), ReasonProtocol)
}

// readChunk processes the input after BDAT.
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
	if s.witness != nil {
		s.witness.Content(s.out, in[:n])
	}
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

// endPart answers a chunk that is not the last one.
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

// pass scans a piece of content and passes it to the host. Scanning continues
// after a refusal is certain, so that the choice among several reasons does not
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
	s.body.flaws |= s.body.lines.Scan(octets) // of all lines, also those that are removed now
	s.hand(s.leading(s.body.fields.Next(octets)))
}

// leading returns the octets to pass on, preceded by an empty line if the content
// does not begin with a header: after our Received field its first line would be
// taken for a continuation. Octets are held back until this is known, at most one
// line.
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

// hand passes octets to the host as long as there is a draft for them.
func (s *Session) hand(octets []byte) {
	s.body.high = s.body.high || smtp.EightBit(octets)
	if !s.verdict().IsZero() {
		s.abortDraft()
	}
	if s.tx.draft && len(octets) > 0 {
		s.body.handed += int64(len(octets))
		s.slots.content = Content{Octets: octets}
		s.pending.push(&s.slots.content)
	}
}

// handTail passes on what was held back while more content could follow, if anything.
// Content after DATA ends in CRLF, so only BDAT can leave something there.
func (s *Session) handTail() bool {
	tail := s.body.normal.End(s.body.scratch[:0])
	s.body.scratch = tail
	s.body.flaws |= s.body.lines.Scan(tail)
	tail = append(s.body.fields.Next(tail), s.body.fields.End()...)
	if !s.body.led && len(s.body.begun)+len(tail) > 0 {
		tail = s.leadBy(smtp.LeadBody, tail)
	}
	s.hand(tail)
	return len(tail) > 0
}

// tooFarBeyond reports whether content grows beyond one and a half times the
// limit: up to that size it is read, so that the client gets a proper refusal.
func (s *Session) tooFarBeyond(have, add int64) bool {
	limit := s.cfg.SizeLimit
	return limit != Unlimited && add > limit+limit/2-have
}

// verdict returns the reason why the content so far cannot be accepted; zero if it can.
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

// endContent is called after the last octet was passed on.
func (s *Session) endContent(command string) {
	s.body.flaws |= s.body.lines.End()
	if refusal := s.verdict(); !refusal.IsZero() {
		s.drop()
		s.refuseCommand(command, refusal)
		return
	}
	if s.body.high { // whether announced or not, the next server needs BODY=8BITMIME
		s.tx.mail.Body = mail.Body8BitMIME
	}
	s.slots.commit.Envelope = mail.Envelope{
		ID:         s.tx.id,
		Sender:     s.tx.mail.Sender,
		EnvID:      s.tx.mail.EnvID,
		Ret:        s.tx.mail.Ret,
		Body:       s.tx.mail.Body,
		SMTPUTF8:   s.tx.mail.SMTPUTF8,
		Priority:   s.tx.mail.Priority,
		TLS:        s.tx.tls(),
		VERP:       s.tx.verp,
		Size:       s.body.handed + int64(len(s.body.trace)),
		Recipients: s.tx.distinct,
		Client:     s.client(),
	}
	s.slots.commit.Fields, s.slots.commit.Forwarded = s.body.fields.Found(), s.forwarded
	s.pending.push(&s.slots.commit)
}

// committed continues after the end of content. The draft no longer exists.
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
