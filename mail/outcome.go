package mail

// A Result is what became of one recipient in one attempt.
type Result uint8

const (
	Pending   Result = iota // not tried yet
	Delivered               // the next hop took responsibility
	Deferred                // to be tried again
	Failed                  // never to be tried again
	// Untried means that an attempt ended before the recipient's turn, for no
	// fault of its own: a connection was lost, or a server takes no more
	// recipients in one transaction. It goes to another connection at once and
	// never reaches the spool.
	Untried
	// Moved means that the recipient was put into a message of its own, whose queue ID
	// the reply's text names. Only the spool records it; see Split.
	Moved
)

// Settled tells whether the recipient needs no further attempt.
func (r Result) Settled() bool { return r == Delivered || r == Failed || r == Moved }

// String returns the word that logs and commands show.
func (r Result) String() string {
	switch r {
	case Delivered:
		return "sent"
	case Deferred:
		return "deferred"
	case Failed:
		return "bounced"
	case Untried:
		return "untried"
	case Moved:
		return "moved"
	}
	return "pending"
}

// A ReportKind says which report, if any, is owed to the sender about a
// recipient (the Action field of RFC 3464 2.3.3).
type ReportKind uint8

const (
	ReportNone      ReportKind = iota
	ReportFailed               // "failed"
	ReportDelayed              // "delayed"
	ReportDelivered            // "delivered": a transport of ours made the final delivery
	ReportRelayed              // "relayed": the next hop does not speak DSN
)

// String returns the Action field's value.
func (k ReportKind) String() string {
	return [...]string{"", "failed", "delayed", "delivered", "relayed"}[k]
}

// An Outcome is what is known of one recipient after an attempt.
type Outcome struct {
	Index  uint32 // the recipient's number within its message
	Result Result
	Report ReportKind // owed to the sender and not yet made
	Reply  Reply      // what decided the result
	// Unknown, with Deferred, means that the message was sent to its end and the
	// reply did not come: the next hop may have taken it or not (RFC 1047). Of a
	// call-out it means that the next hop refused the sender, and so has said
	// nothing about the recipient.
	Unknown bool
	// Expired, with Failed, means that the recipient was given up because of the
	// message's age. Reply is then the last answer, as it came, if there was one.
	Expired bool
	At      Instant
}

// A RecipientOutcome is a recipient together with its last outcome.
type RecipientOutcome struct {
	Recipient Recipient
	Outcome   Outcome
}
