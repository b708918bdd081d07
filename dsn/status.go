package dsn

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// status writes the second part's fields: one group for the message and one
// for each recipient (RFC 3464 2.1 to 2.3).
func (o *output) status(r Report, utf8OK bool) {
	o.field("Reporting-MTA", "dns; "+r.Host)
	if r.EnvID != "" {
		o.field("Original-Envelope-Id", r.EnvID)
	}
	if r.Received != "" {
		o.field("Received-From-MTA", "dns; "+parsePeer(r.Received).field())
	}
	if r.Arrived != 0 {
		o.field("Arrival-Date", FormatDate(r.Arrived))
	}
	if r.Deadline != 0 {
		o.field("Deliver-By-Date", FormatDate(r.Deadline))
	}
	if r.Release != 0 {
		o.field("Future-Release-Request", "until;"+smtp.FormatHoldUntil(r.Release))
	}
	if r.QueueID != 0 {
		o.field(fieldQueueID, r.QueueID.String())
	}
	for i := range r.Recipients {
		o.text("\r\n")
		o.recipient(&r.Recipients[i], utf8OK)
	}
}

// fieldQueueID is an extension field (RFC 3464 2.4) with which an operator can
// find the message in the log.
const fieldQueueID = "X-Posthaste-Queue-Id"

func (o *output) recipient(r *Recipient, utf8OK bool) {
	if r.Original.Type != "" {
		o.field("Original-Recipient", typedField(r.Original, utf8OK))
	}
	o.field("Final-Recipient", typedField(finalAddress(r.Final), utf8OK))
	o.field("Action", r.Kind.String())
	o.field("Status", r.Status.String())
	if r.Reply.By != "" {
		o.field("Remote-MTA", "dns; "+parsePeer(r.Reply.By).field())
	}
	o.diagnostic(r.Reply, utf8OK)
	if r.LastAttempt != 0 {
		o.field("Last-Attempt-Date", FormatDate(r.LastAttempt))
	}
	if r.RetryUntil != 0 {
		o.field("Will-Retry-Until", FormatDate(r.RetryUntil))
	}
}

// finalAddress adds the type to an envelope address (RFC 6533 3).
func finalAddress(a mail.Address) TypedAddress {
	if ascii(string(a)) {
		return TypedAddress{"rfc822", string(a)}
	}
	return TypedAddress{"utf-8", string(a)}
}

func typedField(t TypedAddress, utf8OK bool) string {
	if t.Type == "utf-8" {
		return "utf-8; " + encodeEmbedded(t.Text, utf8OK)
	}
	return t.Type + "; " + t.Text
}
