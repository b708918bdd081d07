package mail

// A Result is the result of one attempt for one recipient.
type Result uint8

const (
	Pending   Result = iota // not tried yet
	Delivered               // the next hop took responsibility
	Deferred                // to be retried
	Failed                  // never to be retried
	// Untried means that an attempt ended before the recipient's turn, through no
	// fault of its own: a connection was lost, or a server accepts no more
	// recipients in one transaction. The recipient is retried on another connection
	// at once, and this result never reaches the spool.
	Untried
	// Moved means that the recipient was moved to a separate message, whose queue ID
	// is in the reply's text. Only the spool records it; see Split.
	Moved
)

// Settled reports whether the recipient needs no further attempt.
func (r Result) Settled() bool { return r == Delivered || r == Failed || r == Moved }

// String returns the word for logs and commands.
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

// A ReportKind is the kind of report, if any, that is owed to the sender about a
// recipient (the Action field of RFC 3464 2.3.3).
type ReportKind uint8

const (
	ReportNone      ReportKind = iota
	ReportFailed               // "failed"
	ReportDelayed              // "delayed"
	ReportDelivered            // "delivered": one of our transports made the final delivery
	ReportRelayed              // "relayed": the next hop does not support DSN, or the message has a deadline
)

// String returns the Action field's value.
func (k ReportKind) String() string {
	return [...]string{"", "failed", "delayed", "delivered", "relayed"}[k]
}

// An Outcome is the state of one recipient after an attempt.
type Outcome struct {
	Index  uint32 // the recipient's number within its message
	Result Result
	Report ReportKind // owed to the sender and not yet made
	Reply  Reply      // the reply that decided the result
	// Unknown, with Deferred, means that the message was sent completely and the
	// reply did not come: the next hop may or may not have accepted it (RFC 1047).
	// For a call-out it means that the next hop refused the sender, and so has said
	// nothing about the recipient.
	Unknown bool
	// Expired, with Failed, means that the recipient failed because of the
	// message's age. Reply is then the last reply, unchanged, if there was one.
	Expired bool
	// Stage is where in the conversation Reply was given, for rules and the log. It is not stored.
	Stage Stage
	At    Instant
	// Via is where the attempt went that deferred the recipient; zero if that is not known.
	// The host of the core sets it, and the core and the spool keep it.
	Via Via
	// Ordered is the route that an operator has ordered for the recipient, as in Recipient. The spool
	// alone sets it, by Change.Reroutes: it stays what it is whatever the outcomes of attempts have here.
	Ordered *OrderedRoute
	// Doubts are those of the recipient (Recipient.Doubts). With Unknown, the host of the core adds that attempt;
	// where it sets none, the spool keeps what it has until the recipient is settled.
	Doubts *Doubts
}

// A Via is a way that mail takes: a transport, the nexthop that it has there, and the source that it leaves
// from. The nexthop is the site where domains share a queue ("{a,b;c}", in lower case). Source is "" where none
// is chosen. The zero Via is unknown.
type Via struct{ Transport, Nexthop, Source string }

// A RecipientOutcome is a recipient together with its last outcome.
type RecipientOutcome struct {
	Recipient Recipient
	Outcome   Outcome
}
