package dsn

import "github.com/posthaste-mta/posthaste/mail"

// A Report is one delivery status notification about one message.
type Report struct {
	MessageID string       // the report's own, without angle brackets; "" writes none
	Date      mail.Instant // of the report; to the second
	From      mail.Address // the author of the report; "" becomes MAILER-DAEMON at Host
	To        mail.Address // the sender of the message; "" if it cannot be written in a header field

	Host     string       // Reporting-MTA: the name of this host
	QueueID  mail.QueueID // of the message; 0 writes none
	EnvID    string       // Original-Envelope-Id, xtext decoded; "" if the sender gave none
	Received string       // Received-From-MTA, as "name[address]"; "" writes none
	Arrived  mail.Instant // Arrival-Date; 0 writes none
	Deadline mail.Instant // Deliver-By-Date (RFC 2852 5); 0 writes none
	Release  mail.Instant // Future-Release-Request (RFC 4865 5.1.2); 0 writes none

	Recipients []Recipient
}

// A Recipient is the part of a Report about one recipient.
type Recipient struct {
	Original TypedAddress
	Final    mail.Address    // as in the envelope that was received
	Kind     mail.ReportKind // the Action field
	Status   mail.Status     // the verdict; its class matches Kind in reports of ours

	// Reply is the reply that led to the verdict. By names the remote host
	// (Remote-MTA); if it is empty, the reply is this program's.
	Reply mail.Reply

	LastAttempt mail.Instant // 0 writes none
	RetryUntil  mail.Instant // written for mail.ReportDelayed only; 0 writes none
}

// RecipientOf converts an outcome for a report. until is when this program will give
// up, 0 if the report must not state it.
//
// The verdict's class is that of the report's kind, whatever the reply's is: mail
// that expires fails although the last reply was a temporary one
// (RFC 3464 2.3.4), which is quoted unchanged. Our own verdicts are not quoted as the
// remote host's reply: a status of another class than the code, the reason why the
// host was not asked again, and, for mail that earlier versions recorded as expired
// without marking it, the code, because they kept only the text.
func RecipientOf(ro mail.RecipientOutcome, until mail.Instant) Recipient {
	out := ro.Outcome
	r := Recipient{
		Original:    ParseORCPT(ro.Recipient.ORcpt),
		Final:       ro.Recipient.Address,
		Kind:        out.Report,
		Status:      verdict(out.Report, out.Reply.Status),
		Reply:       out.Reply,
		LastAttempt: out.At,
	}
	late := mail.Status{Class: 5, Subject: 4, Detail: 7}
	expired := out.Expired || out.Result == mail.Failed && out.Reply.Status == late
	if expired {
		r.Status = late
	}
	if r.Reply.By != "" {
		r.Reply = r.Reply.Said()
	}
	switch {
	case !out.Expired && expired && r.Reply.By != "" && r.Reply.Status == late:
		if r.Reply.Status = (mail.Status{}); r.Reply.Code == 550 {
			r.Reply.Code = 0
		}
	case r.Reply.Status.Class != r.Reply.Code/100:
		r.Reply.Status = mail.Status{}
	}
	if r.Kind == mail.ReportDelayed {
		r.RetryUntil = until
	}
	return r
}

// verdict changes a status to the class that its kind of report requires.
func verdict(kind mail.ReportKind, s mail.Status) mail.Status {
	s.Class = classOf(kind)
	return s
}

// classOf returns the class of the statuses in reports of a kind
// (RFC 3464 2.3.4, RFC 3463 3.1).
func classOf(kind mail.ReportKind) uint16 {
	switch kind {
	case mail.ReportFailed:
		return 5
	case mail.ReportDelayed:
		return 4
	}
	return 2
}

// Kind returns the most serious kind among the recipients, which determines the
// subject: failed, delayed, relayed, delivered, in this order.
// mail.ReportNone if there are no recipients.
func (r Report) Kind() mail.ReportKind {
	kind := mail.ReportNone
	for i := range r.Recipients {
		if gravity(r.Recipients[i].Kind) > gravity(kind) {
			kind = r.Recipients[i].Kind
		}
	}
	return kind
}

func gravity(k mail.ReportKind) int {
	switch k {
	case mail.ReportFailed:
		return 4
	case mail.ReportDelayed:
		return 3
	case mail.ReportRelayed:
		return 2
	case mail.ReportDelivered:
		return 1
	}
	return 0
}

// Needs returns the extensions that the report requires of every server on its way:
// 8BITMIME if it contains an octet above 127, and SMTPUTF8 if the address it goes to
// has one, since then no other path exists (RFC 6531 3.2). For an ASCII address
// everything else is encoded, because the path back is unknown (RFC 6533 3).
func Needs(r Report, o Original) (body mail.BodyType, utf8 bool) {
	utf8 = !ascii(string(cleanHeaderAddress(r.To)))
	if utf8 || encodingOf(o.Clean(), utf8) == encoding8Bit {
		body = mail.Body8BitMIME
	}
	return body, utf8
}
