package header

import "bytes"

// A Kind is the meaning of a header field for a submission server.
type Kind uint8

const (
	KindOther      Kind = iota
	KindNone            // no field
	KindFrom            //
	KindSender          // Sender
	KindReplyTo         // Reply-To and other fields with addresses for answers
	KindDate            //
	KindMessageID       //
	KindTo              // To and Cc
	KindBcc             // left out
	KindResentTo        // Resent-To and Resent-Cc
	KindResentBcc       // left out
	KindResentFrom      // Resent-From, Resent-Sender and Resent-Reply-To
	KindResent          // another field that says that the message was resent (RFC 5322 3.6.6)
	KindReturnPath      // left out: it is for the last server to write (RFC 5321 4.4)
	KindMailbox         // left out: the line between the messages of a mailbox file
	Kinds               // how many there are
)

// LeftOut reports whether a field must not be in a message that is sent.
func (k Kind) LeftOut() bool {
	return k == KindBcc || k == KindResentBcc || k == KindReturnPath || k == KindMailbox
}

// OfSenders reports whether a field has addresses of those who send the message, to whom
// answers go.
func (k Kind) OfSenders() bool {
	return k == KindFrom || k == KindSender || k == KindReplyTo || k == KindResentFrom
}

// OfRecipients reports whether a field has addresses of those to whom the message goes.
func (k Kind) OfRecipients() bool { return k == KindTo || k == KindResentTo }

// kinds are the fields that are not of KindOther, by their names.
var kinds = [...]struct {
	name string
	kind Kind
}{
	{"From", KindFrom}, {"To", KindTo}, {"Cc", KindTo}, {"Date", KindDate}, {"Message-ID", KindMessageID}, {"Bcc", KindBcc},
	{"Sender", KindSender}, {"Reply-To", KindReplyTo}, {"Errors-To", KindReplyTo}, {"Return-Path", KindReturnPath},
	{"Resent-To", KindResentTo}, {"Resent-Cc", KindResentTo}, {"Resent-Bcc", KindResentBcc},
	{"Resent-From", KindResentFrom}, {"Resent-Sender", KindResentFrom}, {"Resent-Reply-To", KindResentFrom},
	{"Resent-Date", KindResent}, {"Resent-Message-ID", KindResent},
}

// KindOf returns the kind of a field by its name, in which case does not matter.
func KindOf(name []byte) Kind {
	for i := range kinds {
		if len(kinds[i].name) == len(name) && bytes.EqualFold([]byte(kinds[i].name), name) {
			return kinds[i].kind
		}
	}
	return KindOther
}

// IsName reports whether a text is the name of a field (RFC 5322 2.2).
func IsName(name []byte) bool {
	for _, c := range name {
		if c <= ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	return len(name) > 0
}

// DateLayout is the date-time of RFC 5322 3.3, for package time.
const DateLayout = "Mon, 2 Jan 2006 15:04:05 -0700"
