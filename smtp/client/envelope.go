package client

import (
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// admit settles the recipients that this server cannot serve, before anything
// is written. None of this is worth another server: what one host of a site
// does not offer is taken to be the site's word, as other mail systems do.
func (s *Session) admit(t *Transaction) {
	e := &t.Envelope
	switch {
	case !clean(string(e.Sender)) || !clean(e.EnvID):
		t.settle(Pending, Failed, local(553, 5, 1, 7, "the sender's address cannot be sent"))
	case s.caps.Size && s.caps.SizeMax > 0 && e.Size > s.caps.SizeMax:
		t.settle(Pending, Failed, local(552, 5, 3, 4, "message of "+strconv.FormatInt(e.Size, 10)+
			" octets is larger than "+s.cfg.Peer+" takes ("+strconv.FormatInt(s.caps.SizeMax, 10)+")"))
	case e.Body == mail.Body8BitMIME && !s.caps.EightBit:
		t.settle(Pending, Failed, local(554, 5, 6, 3, s.cfg.Peer+" does not offer 8BITMIME, which the content needs"))
	case !ascii(string(e.Sender)) && !s.caps.UTF8:
		t.settle(Pending, Failed, local(553, 5, 6, 7, s.cfg.Peer+" does not offer SMTPUTF8, which the sender's address needs"))
	default:
		s.admitRecipients(t)
	}
}

func (s *Session) admitRecipients(t *Transaction) {
	admitted := 0
	limits := s.caps.Limits
	for i := range t.Recipients {
		r, result := &t.Recipients[i], &t.Results[i]
		switch {
		case !clean(string(r.Address)) || !clean(r.ORcpt) || r.Address == "":
			*result = Result{Failed, local(553, 5, 1, 3, "the recipient's address cannot be sent")}
		case !ascii(string(r.Address)) && !s.caps.UTF8:
			*result = Result{Failed, local(553, 5, 6, 7, s.cfg.Peer+" does not offer SMTPUTF8, which the recipient's address needs")}
		case t.Envelope.SMTPUTF8 && !s.caps.UTF8:
			*result = Result{Failed, local(554, 5, 6, 9, s.cfg.Peer+" does not offer SMTPUTF8, which the header needs")}
		case limits.Recipients > 0 && admitted >= limits.Recipients, !s.admitDomain(r.Address.Domain()):
			result.Verdict = Again
		default:
			admitted++
		}
	}
}

// admitDomain tells whether the server's limit on recipient domains in a
// session (RFC 9422) lets one more recipient of a domain through.
func (s *Session) admitDomain(domain string) bool {
	most := s.caps.Limits.RecipientDomains
	if most == 0 || slices.ContainsFunc(s.domains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return true
	}
	if len(s.domains) >= most {
		return false
	}
	s.domains = append(s.domains, strings.ToLower(domain))
	return true
}

// pump writes as many commands as the level and the window allow.
func (s *Session) pump() {
	for t := s.sending; t != nil && s.phase == phaseReady && s.mayWrite(); t = s.sending {
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
		if t.step == stepNone {
			s.sending = nil
			s.settleEnvelope(t)
		}
	}
}

// mayWrite tells whether one more command may go out before the next reply.
func (s *Session) mayWrite() bool {
	return s.slots.len() == 0 || s.level >= Group && s.slots.size < GroupMax
}

// command appends words to what is to be written and a slot for the reply.
func (s *Session) command(sl slot, words ...string) {
	from := len(s.cmd)
	for _, w := range words {
		s.cmd = append(s.cmd, w...)
	}
	s.expect(sl, len(s.cmd)-from)
}

func (s *Session) expect(sl slot, size int) {
	sl.size = int32(size)
	if sl.tx != nil {
		sl.tx.unanswered++
	}
	s.slots.push(sl)
}

// writeMail writes MAIL with the parameters that the server offers. What it
// does not offer is left out; admit has seen to it that nothing is lost by
// that but the wish for reports, which is the host's to make good.
func (s *Session) writeMail(t *Transaction) {
	e := &t.Envelope
	from := len(s.cmd)
	b := append(s.cmd, "MAIL FROM:<"...)
	b = append(b, e.Sender...)
	b = append(b, '>')
	if s.caps.Size {
		b = append(b, " SIZE="...)
		b = strconv.AppendInt(b, e.Size, 10)
	}
	if e.Body == mail.Body8BitMIME && s.caps.EightBit {
		b = append(b, " BODY=8BITMIME"...)
	}
	if s.caps.UTF8 && t.needsUTF8() {
		b = append(b, " SMTPUTF8"...)
	}
	if s.caps.DSN && e.Ret != mail.RetUnset {
		b = append(b, " RET="...)
		b = append(b, e.Ret.String()...)
	}
	if s.caps.DSN && e.EnvID != "" {
		b = append(b, " ENVID="...)
		b = append(b, e.EnvID...)
	}
	s.cmd = append(b, '\r', '\n')
	s.mails++
	s.expect(slot{kind: slotMail, tx: t}, len(s.cmd)-from)
}

// writeRcpt writes the next recipient's RCPT, or goes on to DATA.
func (s *Session) writeRcpt(t *Transaction) {
	for t.next < len(t.Recipients) && t.Results[t.next].Verdict != Pending {
		t.next++
	}
	switch {
	case t.mail == mailRefused:
		t.step = stepNone
		return
	case t.full:
		for i := t.next; i < len(t.Results); i++ {
			if t.Results[i].Verdict == Pending {
				t.Results[i].Verdict = Again
			}
		}
		t.step = stepData
		return
	case t.next == len(t.Recipients):
		t.step = stepData
		return
	}
	r := &t.Recipients[t.next]
	from := len(s.cmd)
	b := append(s.cmd, "RCPT TO:<"...)
	b = append(b, r.Address...)
	b = append(b, '>')
	if s.caps.DSN && r.Notify != 0 {
		b = append(b, " NOTIFY="...)
		b = append(b, r.Notify.String()...)
	}
	if s.caps.DSN && r.ORcpt != "" {
		b = append(b, " ORCPT="...)
		b = append(b, r.ORcpt...)
	}
	s.cmd = append(b, '\r', '\n')
	s.expect(slot{kind: slotRcpt, tx: t, recipient: int32(t.next)}, len(s.cmd)-from)
	t.next++
}

// writeData writes DATA unless it is already known that nobody wants the
// message.
func (s *Session) writeData(t *Transaction) {
	t.step = stepNone
	if t.mail != mailRefused && (t.accepted > 0 || t.has(Pending)) {
		s.command(slot{kind: slotData, tx: t}, "DATA\r\n")
	}
}

func (t *Transaction) needsUTF8() bool {
	if t.Envelope.SMTPUTF8 || !ascii(string(t.Envelope.Sender)) {
		return true
	}
	for i := range t.Recipients {
		if !ascii(string(t.Recipients[i].Address)) {
			return true
		}
	}
	return false
}

// local returns a verdict of this program.
func local(code uint16, class, subject, detail uint16, text string) mail.Reply {
	return mail.Reply{Code: code, Status: mail.Status{Class: class, Subject: subject, Detail: detail}, Text: text}
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// clean tells that a text has no control characters. The server side lets none
// in, but what would become a command of its own is looked at once more.
func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return true
}
