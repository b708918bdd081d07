package feedback

import (
	"errors"

	"github.com/posthaste-mta/posthaste/mail"
)

// ErrUnknown means that a message is no report that this package understands. Errors of Parse
// wrap it and say why.
var ErrUnknown = errors.New("not understood")

// A Kind is the kind of a message.
type Kind uint8

const (
	KindUnknown   Kind = iota // not understood
	KindStatus                // a delivery status notification
	KindComplaint             // a feedback report
	KindAutoReply             // an answer of a program, such as a vacation notice
)

// String returns the word that views and logs have.
func (k Kind) String() string {
	return [...]string{"unknown", "status", "complaint", "auto-reply"}[k]
}

// A Report is the contents of a message. All texts are free of control characters, and addresses are
// such as envelopes have.
type Report struct {
	Kind      Kind
	MessageID string       // the report's own, without brackets; "" if it has none
	Own       bool         // the caller has made it: it needs no tag to be believed
	From      mail.Address // the author, as claimed
	Reporter  string       // Reporting-MTA, or User-Agent of a complaint
	EnvID     string       // Original-Envelope-Id
	Entries   []Entry      // at least one in a status or a complaint
	Complaint Complaint
	Original  Original
	Omitted   int // entries beyond EntriesMax
}

// An Entry is the part of a report about one recipient.
type Entry struct {
	Original mail.Address // as the sender gave it; "" if the report does not say
	Final    mail.Address // as the receiver knew him; "" if the report does not say
	Redacted bool         // an address was made unreadable (RFC 6590)

	// The rest is of a status.
	Action mail.ReportKind
	Status mail.Status
	Reply  mail.Reply // zero if there is none
}

// A Complaint is the rest of a feedback report.
type Complaint struct {
	Type        string       // "abuse", "fraud", "virus", "not-spam", "opt-out", "auth-failure" or "other" (RFC 5965 7.3)
	Sender      mail.Address // Original-Mail-From
	SourceIP    string       // from where the message came
	Incidents   uint         // of which this is one; 1 or more
	Domain      string       // Reported-Domain
	AuthFailure string       // what failed (RFC 6591 3.1); "" in other types
}

// An Original is the part of the original message that a report returns.
type Original struct {
	MessageID  string       // without brackets
	From       mail.Address // the author
	ReturnPath mail.Address // the envelope sender that a receiver noted
	QueueID    mail.QueueID // that a server of the given name noted; 0 if none
}
