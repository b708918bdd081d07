package qmgr

import "github.com/posthaste-mta/posthaste/mail"

// An Action is something that the host is to do. The set is closed. Each
// action that names an answer in its comment is answered exactly once, by the
// event of that name, in any order and at any later time; all but those that
// name the same connection are independent of each other.
type Action interface{ action() }

// Fetch asks for messages of a scan, in index order, from a cursor on and only those of
// its bucket; and if the cursor is the start of the bucket, with neither due time nor ID,
// also for the first message of each bucket that follows (mail.Found.Buckets), due or not.
// Of a scan that is Timed, only those due at the present instant are wanted. Several
// may be under way for a scan, each of another bucket. Answered by Found.
type Fetch struct {
	Scan Scan
	From mail.Cursor
	Max  int
}

// Open asks for a message's envelope and its first unsettled recipients.
// Answered by Opened or Broken.
type Open struct {
	ID  mail.QueueID
	Max int
}

// Read asks for further unsettled recipients. Answered by Recipients or Broken.
type Read struct {
	ID   mail.QueueID
	From uint32
	Max  int
}

// Route asks where recipients go, as far as that is known without waiting for
// anything. Answered by Routed.
type Route struct {
	ID         mail.QueueID
	Recipients []mail.Recipient
	// Sender is that of the envelope if Config.RoutesBySender is set, NullSender for the null
	// sender, and "" if the routes do not depend on it.
	Sender mail.Address
	// TLS is what the mail asks of its way, on which routes depend, too.
	TLS mail.TLSRequest
}

// NullSender is the Sender of a Route for mail with the null sender.
const NullSender mail.Address = "<>"

// Lookup asks for the rest of a route that needs a lookup (mail.Route).
// Answered by LookedUp.
type Lookup struct {
	Lookup             LookupID
	For                mail.QueueID // the message on whose account it is made, 0 for a verification; others may wait for it, too
	Transport, Nexthop string       // as in the route
	Credential         string       // likewise
	TLS                mail.TLSRequest
}

// Verified says whether mail can be sent to where, or to whom, Verify asked for: the
// reply is zero if it can, as far as anybody says, else it says why not, or that it is
// not known. It has no answer.
type Verified struct {
	Verification VerificationID
	Reply        mail.Reply
}

// Deliver asks to attempt an entry. Answered by Delivered.
type Deliver struct {
	Entry    EntryID
	Delivery mail.Delivery
}

// Resolve asks which hosts serve a nexthop. Answered by Hosts.
type Resolve struct{ Transport, Nexthop string }

// Dial asks to open a connection. Answered by Dialed.
type Dial struct {
	Conn    ConnID
	Opening mail.Opening
}

// Send asks to carry an entry as one transaction over a connection, after those
// that were sent to it before, or to make a call-out (mail.Delivery). Answered by Delivered.
type Send struct {
	Conn     ConnID
	Entry    EntryID
	Delivery mail.Delivery
}

// Hangup asks to end a connection when everything that was sent to it has been
// answered. Answered by Closed.
type Hangup struct{ Conn ConnID }

// Change asks for a durable step in the life of a message. The core has at
// most one under way for each message. Answered by Changed.
type Change struct{ Change mail.Change }

// Report asks to compose and spool the reports that the message's recipients
// are owed. Answered by Reported or Broken.
type Report struct{ ID mail.QueueID }

// Selected names the transport that SelectTransport asked for; "" if there is
// none. It has no answer.
type Selected struct{ Transport string }

// Note is a fact for log, metrics and trace. It has no answer.
type Note struct {
	Kind      NoteKind
	ID        mail.QueueID // 0 unless the note is about a message
	Transport string
	Nexthop   string
	Source    string // with a Nexthop: that of its queue, "" if it has none; or what the note is about
	Security  string // with a Nexthop: what its queue's mail demands of connections
	Domain    string // NoteSuspended and NoteResumed, with a Nexthop: the recipients' domain, if only mail to that is concerned
	Text      string
	Sender    mail.Address
	// Flow is that of the message, if it is in core. It is not part of a trace: it follows from the
	// events, and older traces would no longer be equal to their replay.
	Flow mail.Flow
	// Refusers is whose mail was refused, of NoteSuspended by a rule to which that matters. It is not part of a trace, like Flow.
	Refusers Refusers
	At       mail.Instant // NoteDeferred: next attempt; NoteSuspended: the end
}

// NoteKind says what a Note is about.
type NoteKind uint8

const (
	NoteExpired   NoteKind = iota + 1 // the message's unsettled recipients were given up because of its age; or, with a Text, it was removed from the hold area
	NoteDeferred                      // the message was put off until At
	NoteRemoved                       // the message is done
	NoteHeld                          // the message was set aside
	NoteDropped                       // the message was removed by an operator
	NoteCorrupt                       // the message is damaged and was set aside
	NoteDead                          // the destination is not tried for a while; without Nexthop the whole transport
	NoteAlive                         // the destination, or the transport, is tried again
	NoteDuplicate                     // an answer came for something already gone
	NoteUnknown                       // a recipient may have the message or not
	NoteMixed                         // a server put what was sent under another message's envelope; Text names it
	NoteWithdrawn                     // an address of the Source cannot be used on this machine; Text says which and why
	NoteRestored                      // the address Text of the Source can be used again
	NoteRule                          // a rule on replies has a destination rest, or lowers its limits, until At; Text has the rule and the reply
	NoteWarmup                        // an operator's order about a warm-up; Text says what, and why not
	NoteReleased                      // the time is over for which the sender had the message kept
	NoteOverdue                       // the message's unsettled recipients were given up because of its deadline
	NoteLate                          // the message's deadline has passed, and it goes on; its sender receives a report where NOTIFY allows it
	NoteSuspended                     // an operator's Suspend, or a rule's; Text says what, who and why, and why it cannot be done; At is the end, 0 if there is none
	NoteResumed                       // a suspension has ended; Text says what, who and why

	// NoteKinds is one more than the number of kinds, which begin at 1.
	NoteKinds = iota + 1
)

// String returns the word that logs and traces show.
func (k NoteKind) String() string {
	return [NoteKinds]string{"", "expired", "deferred", "removed", "held", "dropped", "corrupt", "dead", "alive", "duplicate", "unknown", "mixed", "withdrawn", "restored", "rule", "warmup", "released", "overdue", "late", "suspended", "resumed"}[k]
}

// Feedback is what a destination's window has learned: the state after a
// delivery, or after the end of its death. It is emitted if Config.Debug is set,
// or if the transport's FeedbackDebug is and the state is another than before. It
// has no answer.
type Feedback struct {
	Transport, Nexthop string
	Source             string // from which the mail leaves; "" where none is chosen
	Cause              FeedbackCause
	Limit              int // the most that the window may be; 0 for no limit
	Window             int // 0 while the destination is dead or resting
	// What has been gathered towards the next step up and down, and failures in
	// parts of a cohort; see package window.
	Success, Failure, FailedCohorts float64
}

// FeedbackCause says what a Feedback is due to.
type FeedbackCause uint8

const (
	CauseSuccess FeedbackCause = iota + 1 // the destination was reached
	CauseFailure                          // it was not
	CauseRevival                          // its back-off is over, or an operator wants it tried
)

// String returns the word that traces show.
func (c FeedbackCause) String() string {
	return [...]string{"", "success", "failure", "revival"}[c]
}

// Preempted reports that one message goes first at the expense of another. It is
// emitted if Config.Debug is set and has no answer.
type Preempted struct {
	Transport string
	Current   mail.QueueID // has to wait
	By        mail.QueueID // goes first
	Level     int          // of By on the preemption stack
}

func (Fetch) action()     {}
func (Open) action()      {}
func (Read) action()      {}
func (Route) action()     {}
func (Lookup) action()    {}
func (Verified) action()  {}
func (Deliver) action()   {}
func (Resolve) action()   {}
func (Dial) action()      {}
func (Send) action()      {}
func (Hangup) action()    {}
func (Change) action()    {}
func (Report) action()    {}
func (Note) action()      {}
func (Selected) action()  {}
func (Feedback) action()  {}
func (Preempted) action() {}
