package client

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// admit settles the recipients that this server cannot serve, before anything
// is written. None of these is tried at another server: an extension that one host
// of a site does not offer is assumed to be missing at all of them, as other mail
// systems assume.
func (s *Session) admit(t *Transaction) {
	e := &t.Envelope
	switch {
	case e.By.Returns(s.now):
		t.settle(Pending, Failed, late(), WaitNothing)
	case !clean(string(e.Sender)) || !clean(e.EnvID):
		t.settle(Pending, Failed, local(553, 5, 1, 7, "the sender's address cannot be sent"), WaitNothing)
	case s.caps.Size && s.caps.SizeMax > 0 && e.Size > s.caps.SizeMax:
		t.settle(Pending, Failed, local(552, 5, 3, 4, "message of "+strconv.FormatInt(e.Size, 10)+
			" octets is larger than "+s.cfg.Peer+" takes ("+strconv.FormatInt(s.caps.SizeMax, 10)+")"), WaitNothing)
	case e.Body == mail.Body8BitMIME && !s.caps.EightBit:
		t.settle(Pending, Failed, local(554, 5, 6, 3, s.cfg.Peer+" does not offer 8BITMIME, which the content needs"), WaitNothing)
	case !ascii(string(e.Sender)) && !s.caps.UTF8:
		t.settle(Pending, Failed, local(553, 5, 6, 7, s.cfg.Peer+" does not offer SMTPUTF8, which the sender's address needs"), WaitNothing)
	case t.RequireTLS && !s.caps.RequireTLS:
		t.settle(Pending, Failed, local(550, 5, 7, 30, s.cfg.Peer+" does not offer REQUIRETLS, which the sender demands"), WaitNothing)
	case s.strict(t) && !s.caps.DeliverBy:
		t.settle(Pending, Failed, local(550, 5, 3, 3, s.cfg.Peer+" does not offer DELIVERBY, so that it may deliver late what the sender wants returned"), WaitNothing)
	case s.strict(t) && !s.takesBy(t):
		t.settle(Pending, Failed, local(550, 5, 3, 3, s.cfg.Peer+" does not deliver in less than "+strconv.FormatInt(int64(s.caps.DeliverByMin/time.Second), 10)+
			" seconds what is otherwise returned, and "+strconv.FormatInt(int64(smtp.Remaining(e.By, s.now).Time/time.Second), 10)+" are left"), WaitNothing)
	default:
		s.admitRecipients(t)
	}
}

// expired ends a transaction instead of writing its MAIL if the deadline of a message that is then returned has passed
// since Start: it may have waited for as long as the content before it took to write.
func (s *Session) expired(t *Transaction) bool {
	if !t.Envelope.By.Returns(s.now) {
		return false
	}
	t.settle(Pending, Failed, late(), WaitNothing)
	t.step = stepNone
	s.promised--
	return true
}

// late is the reply for mail that is returned because of its deadline.
func late() mail.Reply { return local(554, 5, 4, 7, "delivery time expired") }

// strict reports whether the server must promise to return the message by its deadline. One that speaks LMTP need not: it
// does not pass mail on, it delivers it.
func (s *Session) strict(t *Transaction) bool {
	return t.StrictBy && !s.cfg.LMTP && t.Envelope.By.Mode == mail.ByReturn
}

// takesBy reports whether the server takes the message's deadline, if it has one. One that does not offer
// DELIVERBY does not, nor one whose minimum is longer than what is left, which would refuse the message for it.
func (s *Session) takesBy(t *Transaction) bool {
	by := &t.Envelope.By
	switch {
	case by.Mode == mail.ByNone:
		return true
	case !s.caps.DeliverBy:
		return false
	}
	return by.Mode != mail.ByReturn || smtp.Remaining(*by, s.now).Time >= s.caps.DeliverByMin
}

func (s *Session) admitRecipients(t *Transaction) {
	admitted := 0
	limits := s.caps.Limits
	for i := range t.Recipients {
		r, result := &t.Recipients[i], &t.Results[i]
		switch {
		case !clean(string(r.Address)) || !clean(r.ORcpt) || r.Address == "":
			*result = Result{Verdict: Failed, Reply: local(553, 5, 1, 3, "the recipient's address cannot be sent")}
		case !ascii(string(r.Address)) && !s.caps.UTF8:
			*result = Result{Verdict: Failed, Reply: local(553, 5, 6, 7, s.cfg.Peer+" does not offer SMTPUTF8, which the recipient's address needs")}
		case t.Envelope.SMTPUTF8 && !s.caps.UTF8:
			*result = Result{Verdict: Failed, Reply: local(554, 5, 6, 9, s.cfg.Peer+" does not offer SMTPUTF8, which the header needs")}
		case limits.Recipients > 0 && admitted >= limits.Recipients, !s.admitDomain(r.Address.Domain()):
			result.Verdict = Again
		default:
			admitted++
		}
	}
}

// admitDomain reports whether the server's limit on recipient domains in a
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

// command queues words for writing, and a slot for the reply.
func (s *Session) command(sl slot, words ...string) {
	b := s.out.commands
	for _, w := range words {
		b = append(b, w...)
	}
	s.put(sl, b)
}

// put is like command, for a command already appended to the output's commands.
func (s *Session) put(sl slot, commands []byte) {
	sl.size = int32(len(commands) - len(s.out.commands))
	s.out.extend(commands)
	sl.end = s.out.queued
	if sl.tx != nil {
		sl.tx.unanswered++
	}
	s.slots.push(sl)
}

// writeMail writes MAIL with the parameters that the server supports. Others are
// left out; admit has made sure that nothing is lost by that except the request
// for reports, which the host must fulfill.
func (s *Session) writeMail(t *Transaction) {
	e := &t.Envelope
	b := append(s.out.commands, "MAIL FROM:<"...)
	b = append(b, e.Sender...)
	b = append(b, '>')
	if s.caps.Size && !t.Callout {
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
	if s.caps.Priority && e.Priority != 0 {
		b = append(b, " MT-PRIORITY="...)
		b = strconv.AppendInt(b, int64(e.Priority), 10)
	}
	if t.RequireTLS {
		b = append(b, " REQUIRETLS"...)
	}
	if t.deadline = e.By.Mode != mail.ByNone && s.caps.DeliverBy && (s.strict(t) || s.takesBy(t)); t.deadline {
		b = append(b, " BY="...)
		b = append(b, smtp.Remaining(e.By, s.now).String()...)
	}
	s.mails++
	s.promised--
	s.put(slot{kind: slotMail, tx: t}, append(b, '\r', '\n'))
}

// writeRcpt writes the next recipient's RCPT, or continues with DATA.
func (s *Session) writeRcpt(t *Transaction) {
	for t.next < len(t.Recipients) && t.Results[t.next].Verdict != Pending {
		t.next++
	}
	switch {
	case t.refused():
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
	b := append(s.out.commands, "RCPT TO:<"...)
	b = append(b, r.Address...)
	b = append(b, '>')
	if notify := s.notify(t, r); s.caps.DSN && notify != 0 {
		b = append(b, " NOTIFY="...)
		b = append(b, notify.String()...)
	}
	if s.caps.DSN && r.ORcpt != "" {
		b = append(b, " ORCPT="...)
		b = append(b, r.ORcpt...)
	}
	s.put(slot{kind: slotRcpt, tx: t, recipient: int32(t.next)}, append(b, '\r', '\n'))
	t.next++
}

// notify returns the NOTIFY of a recipient. A server that does not get the deadline of a message of mode
// ByNotify is asked for a report on delays of its own (RFC 2852 4.1.4.2, which overrides
// RFC 3461 5.2.1 here).
func (s *Session) notify(t *Transaction, r *mail.Recipient) mail.Notify {
	e := &t.Envelope
	switch {
	case e.By.Mode != mail.ByNotify || t.deadline || s.now >= e.By.At || e.Sender == "" || r.Notify == mail.NotifyNever:
		return r.Notify
	case r.Notify == 0:
		return mail.NotifyFailure | mail.NotifyDelay
	}
	return r.Notify | mail.NotifyDelay
}

// writeData writes DATA, or requests the content that follows BDAT, unless it is
// already known that no recipient was accepted. A call-out ends here.
func (s *Session) writeData(t *Transaction) {
	t.step = stepNone
	switch {
	case t.Callout:
		// Even if no recipient was accepted: a server with an open envelope waits
		// for content.
		s.command(slot{kind: slotReset, tx: t}, "RSET\r\n")
	case !t.wanted():
	case t.form == formStream:
		t.state, s.content = txContent, t
	default:
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

// local returns a reply of this program.
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

// clean reports whether a text has no control characters. The server side admits
// none, but a line end would become a command of its own, so this checks again.
func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return true
}
