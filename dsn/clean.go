package dsn

import (
	"strings"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/mail"
)

// Clean returns the report in the form in which it can be written: the value that
// parsing returns after r has been composed. It is idempotent and does not change r.
//
// An unusable value is replaced if its field is required, and left out if the field
// is optional; control characters become "?", and instants are truncated to seconds.
func (r Report) Clean() Report {
	r.Host = cleanHostName(r.Host)
	r.From = cleanHeaderAddress(r.From)
	if r.From == "" || !ascii(string(r.From)) {
		r.From = mail.Address("MAILER-DAEMON@" + r.Host)
	}
	r.To = cleanHeaderAddress(r.To)
	r.MessageID = cleanMessageID(r.MessageID)
	r.EnvID = cleanEnvID(r.EnvID)
	r.Received = parsePeer(r.Received).String()
	r.Date = cleanInstant(r.Date)
	r.Arrived = cleanInstant(r.Arrived)
	r.Deadline = cleanInstant(r.Deadline)
	recipients := make([]Recipient, len(r.Recipients))
	for i := range r.Recipients {
		recipients[i] = r.Recipients[i].Clean()
	}
	r.Recipients = recipients
	return r
}

// Clean returns the recipient in the form in which it can be written.
func (r Recipient) Clean() Recipient {
	r.Original = r.Original.Clean()
	r.Final = cleanAddress(r.Final)
	if gravity(r.Kind) == 0 {
		r.Kind = kindOf(r.Status)
	}
	if !validStatus(r.Status) {
		r.Status = mail.Status{Class: classOf(r.Kind)}
	}
	r.Reply = cleanReply(r.Reply)
	r.LastAttempt = cleanInstant(r.LastAttempt)
	r.RetryUntil = cleanInstant(r.RetryUntil)
	if r.Kind != mail.ReportDelayed {
		r.RetryUntil = 0 // RFC 3464 2.3.9
	}
	return r
}

// kindOf derives the kind of a report from the status, for reports of other
// programs whose Action is unknown to us (such as "expanded").
func kindOf(s mail.Status) mail.ReportKind {
	switch s.Class {
	case 2:
		return mail.ReportRelayed
	case 4:
		return mail.ReportDelayed
	}
	return mail.ReportFailed
}

func validStatus(s mail.Status) bool {
	return (s.Class == 2 || s.Class == 4 || s.Class == 5) && s.Subject <= 999 && s.Detail <= 999
}

// cleanInstant removes the precision that a date does not have.
func cleanInstant(i mail.Instant) mail.Instant {
	const last = 9214646400 * nanoseconds // 2262-01-01, the first second that parseDate rejects
	if i <= 0 || i >= last {
		return 0
	}
	return i - i%nanoseconds
}

// addressMax is the longest path of RFC 5321 4.5.3.1.3, without the brackets.
const addressMax = 254

// cleanAddress converts an address for an address field of the second part. That
// field is required, so there is always a result.
func cleanAddress(a mail.Address) mail.Address {
	s := oneLine(string(a))
	for len(s) > addressMax || !ascii(s) && len(encodeEmbedded(s, false)) > encodedAddressMax {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	if s = strings.Trim(s, " "); s == "" {
		return "?"
	}
	return mail.Address(s)
}

// cleanHeaderAddress returns an address that is allowed between angle brackets
// in a header field (RFC 5322 3.4.1, RFC 6532 3.2), "" for any other. It never
// repairs an address: a part of one could belong to someone else.
func cleanHeaderAddress(a mail.Address) mail.Address {
	local, domain := a.Local(), a.Domain()
	if len(a) > addressMax || domain == "" || !printable(string(a)) {
		return ""
	}
	if !dotAtom(local) && !quoted(local) {
		return ""
	}
	if !dotAtom(domain) && !literal(domain) {
		return ""
	}
	return a
}

func dotAtom(s string) bool {
	return s != "" && s[0] != '.' && s[len(s)-1] != '.' && !strings.Contains(s, "..") &&
		!strings.ContainsAny(s, " \"(),:;<>@[\\]")
}

func literal(s string) bool {
	n := len(s)
	return n > 2 && s[0] == '[' && s[n-1] == ']' && !strings.ContainsAny(s[1:n-1], " \"(),;<>@[\\]")
}

// quoted reports whether s is a quoted-string without folding.
func quoted(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for i := 1; i < len(s)-1; i++ {
		switch s[i] {
		case '"':
			return false
		case '\\':
			if i++; i == len(s)-1 {
				return false
			}
		}
	}
	return true
}

func cleanMessageID(id string) string {
	left, right, ok := strings.Cut(id, "@")
	if !ok || len(id) > 250 || !ascii(id) || !printable(id) || !dotAtom(left) || !dotAtom(right) {
		return ""
	}
	return id
}

// cleanEnvID returns an envelope identifier if it has at most the 100 characters that
// RFC 3461 5.4 allows.
func cleanEnvID(id string) string {
	id = strings.Trim(id, " ")
	if len(id) > 100 || !ascii(id) || !printable(id) {
		return ""
	}
	return id
}

// cleanReply returns the reply that parsing its quotation returns.
func cleanReply(r mail.Reply) mail.Reply {
	r.By = parsePeer(r.By).String()
	r.Text = cleanText(r.Text)
	if r.Code < 200 || r.Code > 599 {
		r.Code = 0
	}
	if r.Code == 0 {
		r.Text = strings.Trim(strings.ReplaceAll(r.Text, "\n", " "), " ")
	}
	if !validStatus(r.Status) || r.Status.Class != r.Code/100 {
		r.Status = mail.Status{} // it was not part of the reply
	}
	if r.Code == 0 && r.Text == "" {
		return mail.Reply{By: r.By}
	}
	c := parseReply(replyLines(r))
	c.By = r.By
	return c
}

// ascii reports whether s has no octet above 127.
func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// printable reports whether s is one line that mail.CleanText would not change.
func printable(s string) bool { return oneLine(s) == s }

// oneLine is mail.CleanText for text that must not have line ends either.
func oneLine(s string) string {
	return strings.ReplaceAll(cleanText(s), "\n", "?")
}

// cleanText is mail.CleanText, which copies, but only for text that would change:
// nearly every text has already been cleaned.
func cleanText(s string) string {
	if len(s) > mail.ReplyTextMax {
		return mail.CleanText(s)
	}
	for i := 0; i < len(s); i++ {
		if (s[i] < ' ' || s[i] >= 0x7f) && s[i] != '\n' {
			return mail.CleanText(s)
		}
	}
	return s
}
