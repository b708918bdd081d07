package verp

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Sender returns the sender of the transaction with one recipient: the envelope's sender with the recipient
// encoded in it, or the envelope's sender itself if the envelope has no VERP or the address would be too
// long. It depends only on its arguments, so that a receiver that defers unknown senders
// (greylisting) sees the same one at each attempt.
//
// The encoded recipient is the original one (ORCPT, which this program sets when it rewrites an
// address) if that is an address in ASCII. Tags are left out if there are no secrets any more.
func Sender(secrets [][]byte, e *mail.Envelope, r *mail.Recipient) mail.Address {
	if e.VERP.IsZero() {
		return e.Sender
	}
	c := Codec{Delimiters: Delimiters{e.VERP.Before, e.VERP.At}}
	if e.VERP.Tagged {
		c.Secrets = secrets
	}
	if to := smtp.OriginalRecipient(r); to != r.Address && isAddress(to) {
		if a, err := c.Encode(e.Sender, to); err == nil {
			return a
		}
	}
	if a, err := c.Encode(e.Sender, r.Address); err == nil {
		return a
	}
	return e.Sender
}

// SenderOf returns the sender of a delivery, which has a single recipient if its envelope has a VERP.
func SenderOf(secrets [][]byte, d *mail.Delivery) mail.Address {
	if d.Envelope.VERP.IsZero() || len(d.Recipients) != 1 {
		return d.Envelope.Sender
	}
	return Sender(secrets, &d.Envelope, &d.Recipients[0])
}

// isAddress reports whether a text is an address in ASCII with a domain.
func isAddress(a mail.Address) bool {
	p, rest, fault := smtp.ParsePath([]byte("<"+a+">"), smtp.PathRules{Underscore: true, LocalMax: smtp.PathMax})
	return fault == smtp.FaultNone && len(rest) == 0 && p.Address == a && !p.NonASCII
}
