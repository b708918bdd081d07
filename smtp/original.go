package smtp

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// OriginalRecipient returns the address of a recipient as the sender gave it, as far as it is known:
// that in ORCPT (RFC 3461 4.2), or else the present one. It is printable, and is not parsed.
func OriginalRecipient(r *mail.Recipient) mail.Address {
	if kind, text, ok := strings.Cut(r.ORcpt, ";"); ok && strings.EqualFold(kind, "rfc822") {
		if a, ok := DecodeXtext(text); ok && a != "" && !strings.ContainsFunc(a, isControl) {
			return mail.Address(a)
		}
	}
	return r.Address
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
