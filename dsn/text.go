package dsn

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A prose is the human-readable text, in lines that end in CRLF.
type prose struct {
	buf []byte
}

// proseWidth leaves room for the "=" at which quoted-printable breaks lines of
// 76 octets, so that text in ASCII is never broken by it.
const proseWidth = 74

// explain writes the first part (RFC 6522 3: for people who cannot read the
// second).
func (c Composer) explain(r Report, o Original) []byte {
	p := &prose{buf: make([]byte, 0, 2<<10)}
	p.greeting(r)
	for _, kind := range [...]mail.ReportKind{mail.ReportFailed, mail.ReportDelayed, mail.ReportDelivered, mail.ReportRelayed} {
		groups, count, until := groupRecipients(r.Recipients, kind)
		if count == 0 {
			continue
		}
		p.paragraph(opening(r, kind, count, until))
		for _, g := range groups {
			p.group(r.Recipients, g, kind)
		}
		if kind == mail.ReportFailed {
			p.paragraph(c.advice())
		}
	}
	p.closing(r, o)
	if c.Footer != "" {
		for line := range strings.SplitSeq(strings.TrimRight(c.Footer, "\n"), "\n") {
			p.line("", oneLine(line))
		}
	}
	return p.buf
}

func (p *prose) greeting(r Report) {
	text := "This is the mail server " + r.Host + ", writing about your message"
	if r.Arrived != 0 {
		text += " of " + FormatDate(r.Arrived)
	}
	p.paragraph(text + ".")
}

// opening returns the first sentence; there is one wording for each kind.
func opening(r Report, kind mail.ReportKind, count int, until mail.Instant) string {
	whom := "this recipient"
	if count > 1 {
		whom = fmt.Sprintf("these %d recipients", count)
	}
	switch kind {
	case mail.ReportFailed:
		return "It could not be delivered to " + whom + ", and it will not be tried again:"
	case mail.ReportDelayed:
		text := "It has not reached " + whom + " yet. You need not do anything: it will be tried again"
		if until != 0 {
			text += " until " + FormatDate(until)
		}
		return text + ", and you will get another report if that fails."
	case mail.ReportRelayed:
		if r.Deadline != 0 { // others may follow (RFC 2852 4.1.4)
			return "It was passed on for " + whom + " to another mail server, which has accepted it. " +
				"This report is for your information, since the message was to be delivered by " + FormatDate(r.Deadline) + ":"
		}
		return "It was passed on for " + whom + " to a mail server that sends no reports of its own. " +
			"That server has accepted it. You will get no further report on whether it arrives:"
	}
	return "It was delivered to " + whom + ":"
}

func (c Composer) advice() string {
	text := "What you can do: see the reason above, and look for typing errors in the address. " +
		"Sending the same message again will not help unless the cause has been removed. "
	if a := cleanHeaderAddress(c.Contact); a != "" {
		return text + "If you need help, write to " + string(a) + " and enclose this report."
	}
	return text + "If you need help, ask your mail administrator and enclose this report."
}

func (p *prose) closing(r Report, o Original) {
	text := "The next part of this report contains the same information for programs."
	switch o.Part {
	case PartHeaders:
		text += " The part after it is the header of your message."
	case PartMessage:
		text += " The part after it is your message."
	case PartLost:
		text += " Neither your message nor its header can be returned with it: our copy has been damaged and cannot be read any more."
	}
	if r.QueueID != 0 {
		text += " In our logs your message has the queue ID " + r.QueueID.String() + "."
	}
	p.paragraph(text)
}

// A group is the recipients that share a verdict and its reason.
type group []int

// groupRecipients sorts the recipients of one kind into groups, in the order of
// their first members, and returns how many they are and until when they will be
// retried.
func groupRecipients(recipients []Recipient, kind mail.ReportKind) (groups []group, count int, until mail.Instant) {
	type reason struct {
		status mail.Status
		reply  mail.Reply
	}
	place := map[reason]int{}
	for i := range recipients {
		r := &recipients[i]
		if r.Kind != kind {
			continue
		}
		count++
		until = max(until, r.RetryUntil)
		why := reason{r.Status, r.Reply}
		at, ok := place[why]
		if !ok {
			at = len(groups)
			place[why] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], i)
	}
	return groups, count, until
}

// group names recipients and gives their reason. Every line of another host's reply
// is marked with ">" and never mixed with our own words.
func (p *prose) group(recipients []Recipient, g group, kind mail.ReportKind) {
	for _, i := range g {
		r := &recipients[i]
		address := string(r.Final)
		if was := r.Original.Text; was != "" && was != address && !strings.EqualFold(was, address) {
			address += " (you wrote to " + was + ")"
		}
		p.line("  ", address)
	}
	p.line("", "")
	r := &recipients[g[0]]
	if why := meaning(r.Status, kind); why != "" {
		p.wrapped("    ", why)
	}
	switch {
	case r.Reply.IsZero() && r.Reply.Text == "":
		p.wrapped("    ", "The status is "+r.Status.String()+".")
	case r.Reply.By != "":
		p.wrapped("    ", "The status is "+r.Status.String()+". The server "+r.Reply.By+" answered:")
	default:
		p.wrapped("    ", "The status is "+r.Status.String()+". This server gives the reason:")
	}
	for _, l := range replyLines(r.Reply) {
		if s := l.String(); s != "" {
			p.wrapped("    > ", s)
		}
	}
	p.line("", "")
}

// paragraph writes wrapped text and an empty line.
func (p *prose) paragraph(text string) {
	p.wrapped("", text)
	p.line("", "")
}

// wrapped writes text in lines of the usual width, each with an indent. Words
// stay whole: part of an address or link is useless.
func (p *prose) wrapped(indent, text string) {
	for text != "" {
		end := wordEnd(text, 0)
		for next := end; next < len(text) && len(indent)+next <= proseWidth; next = wordEnd(text, next) {
			end = next
		}
		if len(indent)+len(text) <= proseWidth {
			end = len(text)
		}
		p.line(indent, text[:end])
		text = strings.TrimLeft(text[end:], " ")
	}
}

func (p *prose) line(indent, text string) {
	p.buf = append(p.buf, indent...)
	p.buf = append(p.buf, text...)
	p.buf = append(p.buf, "\r\n"...)
}

// meaning returns a sentence that explains a status (RFC 3463 3), or "" if the
// status adds nothing to the reply that is quoted.
func meaning(s mail.Status, kind mail.ReportKind) string {
	if kind != mail.ReportFailed && kind != mail.ReportDelayed {
		return ""
	}
	switch [2]uint16{s.Subject, s.Detail} {
	case [2]uint16{1, 1}:
		return "There is no such address at that domain."
	case [2]uint16{1, 2}:
		return "The domain of the address does not exist."
	case [2]uint16{1, 3}:
		return "The address is not a valid one."
	case [2]uint16{1, 10}:
		return "The domain of the address does not accept mail."
	case [2]uint16{2, 1}:
		return "The mailbox is disabled."
	case [2]uint16{2, 2}:
		return "The mailbox is full."
	case [2]uint16{2, 3}, [2]uint16{3, 4}:
		return "The message is larger than that server accepts."
	case [2]uint16{4, 1}:
		return "The mail server of the domain could not be reached."
	case [2]uint16{4, 2}:
		return "The connection to the mail server was lost."
	case [2]uint16{4, 3}, [2]uint16{4, 4}:
		return "No mail server could be found for the domain."
	case [2]uint16{4, 6}:
		return "The message is in a mail loop."
	case [2]uint16{4, 7}:
		return "It could not be delivered in the time allowed for it."
	case [2]uint16{6, 7}, [2]uint16{6, 9}:
		return "A mail server on the way does not support international addresses."
	}
	if s.Subject == 7 {
		return "The rules of the mail server forbid it."
	}
	return ""
}
