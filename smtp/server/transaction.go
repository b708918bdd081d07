package server

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A transaction is the state between MAIL and the end of content.
type transaction struct {
	state txState
	draft bool // the host holds a draft for it
	id    mail.QueueID
	date  string // when it began, for the Received field
	mail  smtp.Mail
	verp  mail.VERP
	// lowered reports whether the client has asked for a higher priority.
	lowered bool

	given     int    // recipients accepted, including repetitions
	distinct  uint32 // recipients in the draft
	overshoot int    // recipients refused because of the limit
	first     mail.Recipient
	seen      map[mail.Recipient]struct{} // used from the second distinct recipient on
}

// tls returns what the client has asked of the security of the message's way.
func (tx *transaction) tls() mail.TLSRequest {
	if tx.mail.RequireTLS {
		return mail.TLSRequired
	}
	return mail.TLSUnset
}

type txState uint8

const (
	txNone     txState = iota
	txEnvelope         // MAIL was accepted
	txChunks           // content has begun to arrive by BDAT
)

// duplicatesMax is the number of recipients of a message that are remembered in
// order to drop repetitions (Postfix: duplicate_filter_limit). It bounds memory;
// further repetitions are delivered, which is harmless.
const duplicatesMax = 1000

func (s *Session) pathRules() smtp.PathRules {
	return smtp.PathRules{Bare: s.cfg.LenientPaths, Underscore: s.cfg.Underscores, LocalMax: s.cfg.LocalPartLimit, Domain: s.peer.Domain}
}

func (s *Session) mail(arg []byte) {
	if s.hello.name == "" {
		s.refuse(reply(503, 5, 1, "Error: send EHLO first"))
		return
	}
	if s.tx.given > 0 {
		s.refuse(reply(503, 5, 1, "Error: nested MAIL command"))
		return
	}
	// Also if this MAIL is refused: otherwise the recipients that a pipelining
	// client sends after it would be added to the previous message.
	s.drop()
	m, fault := smtp.ParseMail(arg, s.pathRules())
	if fault != smtp.FaultNone {
		s.refuse(fault.Reply(smtp.VerbMAIL))
		return
	}
	if m.Auth && s.usable() == 0 && s.user == "" { // not offered
		s.refuse(smtp.FaultParamUnknown.Reply(smtp.VerbMAIL))
		return
	}
	if m.Prioritized && !s.peer.Priority {
		s.refuse(smtp.FaultParamUnknown.Reply(smtp.VerbMAIL))
		return
	}
	if m.Held && s.peer.FutureRelease == 0 {
		s.refuse(smtp.FaultParamUnknown.Reply(smtp.VerbMAIL))
		return
	}
	if m.By.Mode != mail.ByNone && !s.peer.DeliverBy {
		s.refuse(smtp.FaultParamUnknown.Reply(smtp.VerbMAIL))
		return
	}
	if m.By.Mode == mail.ByReturn && m.By.Time < s.peer.DeliverByMin { // RFC 2852 3
		s.refuse(reply(555, 5, 4, "Error: with R, BY must be at least "+strconv.FormatInt(int64(s.peer.DeliverByMin/time.Second), 10)+" seconds"))
		return
	}
	if m.RequireTLS && !s.peer.RequireTLS {
		s.refuse(smtp.FaultParamUnknown.Reply(smtp.VerbMAIL))
		return
	}
	if m.RequireTLS && !s.security.Encrypted() {
		s.refuse(reply(530, 7, 10, "Error: REQUIRETLS is for sessions under TLS"))
		return
	}
	verp, refusal := s.verp(&m)
	if !refusal.IsZero() {
		s.refuse(refusal)
		return
	}
	if s.cfg.SizeLimit != Unlimited && m.Size > s.cfg.SizeLimit {
		s.refuse(oversize())
		return
	}
	if s.tx.lowered = m.Prioritized && m.Priority > s.peer.PriorityMax; s.tx.lowered {
		m.Priority = s.peer.PriorityMax
	}
	s.tx.mail, s.tx.verp = m, verp
	s.slots.begin = Begin{Client: s.client(), Sender: m.Sender, Size: m.Size, Priority: m.Priority, Hold: m.Hold, By: m.By, Mail: &s.tx.mail}
	s.pending.push(&s.slots.begin)
}

// verp returns what XVERP asks for, or why it is refused. The replies are Postfix's.
func (s *Session) verp(m *smtp.Mail) (mail.VERP, mail.Reply) {
	switch {
	case !m.XVERP:
		return mail.VERP{}, mail.Reply{}
	case s.peer.VERP.IsZero():
		return mail.VERP{}, smtp.FaultParamUnknown.Reply(smtp.VerbMAIL)
	}
	v := s.peer.VERP
	if m.VERP != "" {
		var ok bool
		if v, ok = smtp.ParseVERP(m.VERP, s.peer.VERPFilter); !ok {
			return v, reply(501, 5, 4, "Error: XVERP needs two characters from "+cmp.Or(s.peer.VERPFilter, smtp.VERPFilter))
		}
	}
	if m.Sender == "" {
		return v, reply(503, 5, 4, "Error: XVERP requires non-null sender")
	}
	return v, mail.Reply{}
}

func needMail() mail.Reply { return reply(503, 5, 1, "Error: need MAIL command") }

func oversize() mail.Reply { return reply(552, 3, 4, "Message size exceeds fixed limit") }

// begun continues MAIL after the host's answer.
func (s *Session) begun(refusal mail.Reply) {
	if !refusal.IsZero() {
		sender := s.tx.mail.Sender
		s.tx = transaction{}
		s.refuseCommand("MAIL FROM:<"+string(sender)+">", refusal)
		return
	}
	s.tx.state, s.tx.draft = txEnvelope, true
	if s.tx.lowered { // RFC 6710 4.1
		s.say(reply(250, 3, 6, "Priority lowered to "+strconv.Itoa(int(s.tx.mail.Priority))))
		return
	}
	s.ok("2.1.0 Ok")
}

// client describes the client for the envelope and the Received field.
func (s *Session) client() mail.Client {
	row := 0
	switch {
	case s.tx.mail.SMTPUTF8:
		row = 2
	case s.hello.extended:
		row = 1
	}
	column := 0
	if s.security.Encrypted() {
		column++
	}
	if s.user != "" {
		column += 2
	}
	return mail.Client{Addr: s.peer.Addr, Helo: s.hello.name, Proto: protocols[row][column]}
}

// protocols are the names of RFC 3848 and RFC 6531 4.3: with TLS, with authentication,
// and with both. There are none for HELO with TLS; Postfix writes the same.
var protocols = [...][4]string{
	{"SMTP", "SMTPS", "SMTPA", "SMTPSA"},
	{"ESMTP", "ESMTPS", "ESMTPA", "ESMTPSA"},
	{"UTF8SMTP", "UTF8SMTPS", "UTF8SMTPA", "UTF8SMTPSA"},
}

func (s *Session) rcpt(arg []byte) {
	switch s.tx.state {
	case txNone:
		s.refuse(needMail())
		return
	case txChunks:
		s.refuse(reply(503, 5, 1, "Error: content has begun"))
		return
	}
	r, fault := smtp.ParseRcpt(arg, s.pathRules(), s.tx.mail.SMTPUTF8)
	if fault != smtp.FaultNone {
		s.refuse(fault.Reply(smtp.VerbRCPT))
		return
	}
	if s.peer.RecipientLimit != Unlimited && s.tx.given >= s.peer.RecipientLimit {
		s.tooManyRecipients()
		return
	}
	if s.tx.holds(r.Recipient) {
		s.tx.given++
		s.ok("2.1.5 Ok")
		return
	}
	s.slots.recipient = Recipient{Client: s.client(), Sender: s.tx.mail.Sender, Recipient: r.Recipient}
	s.pending.push(&s.slots.recipient)
}

// tooManyRecipients refuses a recipient temporarily; the client sends it in
// another transaction (RFC 5321 4.5.3.1.10). Up to the overshoot this is no error.
func (s *Session) tooManyRecipients() {
	s.tx.overshoot++
	r := reply(452, 5, 3, "Error: too many recipients")
	switch {
	case s.tx.overshoot > s.cfg.RecipientOvershoot:
		s.refuseAndEnd(s.goodbye(5, 3, "Error: too many recipients"), ReasonOvershoot)
	case s.tx.overshoot == 1:
		s.slots.rejected = Rejected{Command: printable(string(s.command)), Reply: r}
		s.pending.push(&s.slots.rejected)
		s.say(r)
	default:
		s.say(r)
	}
}

// added continues RCPT after the host's answer.
func (s *Session) added(refusal mail.Reply) {
	r := s.slots.recipient.Recipient
	if !refusal.IsZero() {
		s.refuseCommand("RCPT TO:<"+string(r.Address)+">", refusal)
		return
	}
	s.tx.add(r)
	s.ok("2.1.5 Ok")
}

// holds reports whether the very same RCPT was accepted before, including its
// parameters, which select the reports that the sender wants about the recipient.
func (tx *transaction) holds(r mail.Recipient) bool {
	if tx.distinct == 0 {
		return false
	}
	if tx.seen == nil {
		return duplicateKey(r) == duplicateKey(tx.first)
	}
	_, found := tx.seen[duplicateKey(r)]
	return found
}

// add counts a recipient that was added to the draft.
func (tx *transaction) add(r mail.Recipient) {
	switch {
	case tx.distinct == 0:
		tx.first = r
	case tx.seen == nil:
		tx.seen = map[mail.Recipient]struct{}{duplicateKey(tx.first): {}, duplicateKey(r): {}}
	case len(tx.seen) < duplicatesMax:
		tx.seen[duplicateKey(r)] = struct{}{}
	}
	tx.given++
	tx.distinct++
}

// duplicateKey returns the recipient in the form used to find repetitions, with
// the domain in lower case.
func duplicateKey(r mail.Recipient) mail.Recipient {
	if domain := r.Address.Domain(); domain != strings.ToLower(domain) {
		r.Address = mail.Address(r.Address.Local() + "@" + strings.ToLower(domain))
	}
	return r
}

// drop ends the transaction, if there is one, without a message.
func (s *Session) drop() {
	if s.tx.state != txNone {
		s.forwarded = smtp.Forwarded{}
	}
	s.abortDraft()
	s.tx = transaction{}
	s.body = body{trace: s.body.trace, fields: s.body.fields} // with their memory
}

// abortDraft lets the host discard the draft; the transaction may continue
// without one until it is refused.
func (s *Session) abortDraft() {
	if s.tx.draft {
		s.tx.draft = false
		s.pending.push(&s.slots.abort)
	}
}
