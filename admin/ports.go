package admin

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A Store reads the spool. Its methods may be called from any number of
// goroutines and cost the scheduler nothing.
type Store interface {
	// Find returns at most max messages of an area in the order of due times and queue
	// IDs, from a cursor on, due or not and whatever their buckets, which are 0 in the
	// cursors.
	Find(ctx context.Context, area mail.Area, from mail.Cursor, max int) (mail.Found, error)
	// Sweep calls visit with all messages of interest with an ID that is at least from, in the order of IDs and whatever their
	// areas, until it returns false. What visit gets is valid until it returns; it must not use the Store. It takes
	// a microsecond for a message where Show takes some tens of them, and less for one that is passed over.
	Sweep(ctx context.Context, from mail.QueueID, in Interest, visit func(*Sight) bool) error
	// Show returns one message, wherever it is. The error wraps ErrGone if
	// there is none.
	Show(ctx context.Context, id mail.QueueID) (Message, error)
	// Recipients returns some recipients of a message with their last
	// outcomes. The error wraps ErrGone if there is no such message.
	Recipients(ctx context.Context, id mail.QueueID, q RecipientQuery) (RecipientList, error)
	// Content opens a message's content: Envelope.Size octets with CRLF line
	// ends. The error wraps ErrGone if there is no such message.
	Content(ctx context.Context, id mail.QueueID) (io.ReadCloser, error)
	// Counts returns how much is in the spool.
	Counts(ctx context.Context) (Counts, error)
}

// Control gives orders to the core, and answers the questions on which orders depend.
// The methods without results return at once; their orders are carried out in the order
// given, and a later View, InCore or Busy is answered after the core has processed them.
type Control interface {
	// Hold holds messages until they are released.
	Hold(ids []mail.QueueID, reason string)
	// Release puts held messages back, due at once.
	Release(ids []mail.QueueID)
	// Drop removes messages without a report.
	Drop(ids []mail.QueueID)
	// Settle marks some recipients of a message as failed; the outcomes say which, and
	// whether a report is owed. last means that no other recipient waits.
	Settle(id mail.QueueID, outcomes []mail.Outcome, last bool)
	// Reserve returns an ID for mail.Split.Into; the error wraps ErrFull if there is no
	// room for another copy of content of size bytes.
	Reserve(size int64) (mail.QueueID, error)
	// Split moves some recipients of a message to a new message, which is held or, with s.Requeue, takes the place of
	// the message. last, of a requeue, means that no other recipient waits.
	Split(id mail.QueueID, s mail.Split, last bool)
	// SetRoute has some recipients of a message go where an operator says, or again where the configuration
	// says.
	SetRoute(id mail.QueueID, r mail.Reroute)
	// Retry tries messages now.
	Retry(ids []mail.QueueID)
	// RetryAll tries all deferred mail now.
	RetryAll()
	// AdjustWarmup changes where a source is in its warm-up plan.
	AdjustWarmup(o warmup.Order)
	// View returns a snapshot with at most queues destinations for each
	// transport. It returns ctx's error if the core does not answer in time.
	View(ctx context.Context, queues int) (qmgr.View, error)
	// InCore reports for each message whether it is in core, that is, scheduled for
	// delivery. It returns ctx's error if the core does not answer in time.
	InCore(ctx context.Context, ids []mail.QueueID) ([]bool, error)
	// Busy reports for each message whether it is in core, or an order for it is not durable yet. For the others,
	// all orders that were given before have taken effect. Errors are as for InCore.
	Busy(ctx context.Context, ids []mail.QueueID) ([]bool, error)
}

// A Scheduler reports what the core holds and why it waits. Its methods return
// ctx's error if the core does not answer in time.
type Scheduler interface {
	// Destinations returns a page of destinations. The query's Match is called on
	// the goroutine that owns the core.
	Destinations(ctx context.Context, query qmgr.DestinationQuery) (qmgr.DestinationList, error)
	// Destination returns all details of one destination, with at most most hosts,
	// connections and ended connections; false if the core does not hold it.
	Destination(ctx context.Context, transport, nexthop string, most int) (qmgr.DestinationView, bool, error)
	// Flows returns the flows that have most waiting. The query's Match is called on the
	// goroutine that owns the core.
	Flows(ctx context.Context, query qmgr.FlowQuery) (qmgr.FlowList, error)
	// Sources returns our addresses towards receivers, with at most sites destinations of
	// each.
	Sources(ctx context.Context, sites int) ([]qmgr.SourceView, error)
	// Explain returns where each message is in core, with at most most of its
	// destinations.
	Explain(ctx context.Context, ids []mail.QueueID, most int) ([]qmgr.MessageView, error)
	// ExplainRecipient returns where the recipient with an index is in core.
	ExplainRecipient(ctx context.Context, id mail.QueueID, index uint32) (qmgr.RecipientView, error)
	// Trouble returns the number of messages whose changes cannot be made durable,
	// and the time and reason of the last failure. It does not wait for the core.
	Trouble() (messages int, at time.Time, reason error)
}

// A Readmission decides anew about messages what is decided when they are accepted. Its rules do not change.
type Readmission interface {
	// Sender returns what to put in place of an envelope sender. The error says why there is nothing.
	Sender(mail.Address) (mail.Address, error)
	// Recipient returns what to put in place of a recipient, nothing if he stays. The error says why there is no address for
	// him.
	Recipient(*mail.Recipient) ([]mail.Replacement, error)
	// Flow returns the flow of a message that has the sender of today and the flow that it had.
	Flow(e *mail.Envelope, content io.Reader) (mail.Flow, error)
}

// Errors of a Store that this package distinguishes; the Store wraps them.
var (
	// ErrGone means that there is no such message.
	ErrGone = errors.New("no such message in the queue")
	// ErrFull means that there is no room for more mail. ErrDamaged means that part of a message
	// cannot be read.
	ErrFull    = errors.New("there is no room for more mail")
	ErrDamaged = errors.New("the message is damaged")
)

// A Message is what a Store knows of one message, without its recipients and
// content. Of a damaged message only Envelope.ID, Place and Reason may be set.
type Message struct {
	Envelope mail.Envelope
	Place    mail.Place
	Settled  uint32 // recipients that need no further attempt
	Reason   string // AreaHold, AreaCorrupt: why it is there; "" if unknown
	// Damage names the part that cannot be read; "" if no damage is known. Without
	// an envelope, Envelope.Arrived is 0.
	Damage string

	to []mail.Address // of the waiting recipients, if a sweep has shown them; nil: they must be read
}

// waiting returns the number of recipients that still need an attempt.
func (m *Message) waiting() uint32 {
	return m.Envelope.Recipients - min(m.Settled, m.Envelope.Recipients)
}

// An Interest is what a sweep has to see; the zero Interest is all of every message. Messages that do not meet its
// conditions may be passed over. A condition is called by one goroutine at a time, while another one may be in visit, and must
// not keep texts.
type Interest struct {
	// Envelope is a condition on what never changes of a message. nil: none.
	Envelope func(*mail.Envelope) bool
	// Recipient is a condition that the address of one recipient has to meet, whatever has become of it. nil: none.
	Recipient func(mail.Address) bool
	// Outcome is a condition that the last outcome of one waiting recipient has to meet, with the reason for which the message is
	// where it is. nil: none. It must not hold for a zero outcome without a reason: what was never tried is passed over.
	Outcome func(reason string, o *mail.Outcome) bool
	// Passed is called with the number of messages that were passed over, and an ID that is higher than theirs, after visit
	// with all that comes before them. The sweep ends if it returns false.
	Passed func(n int, next mail.QueueID) bool
	// Brief means that Recipients and Long need not be set.
	Brief bool
	// Whole means that neither visit nor Passed is expected to end the sweep, and that few messages meet the conditions.
	Whole bool
}

// A Sight is what Sweep shows of a message.
type Sight struct {
	Message
	// Recipients are all recipients, unless Long is set: then Recipients must be asked for them.
	Recipients []mail.RecipientOutcome
	Long       bool
}

// A RecipientQuery selects recipients.
type RecipientQuery struct {
	From    uint32 // the lowest index
	Max     int
	Waiting bool // only those that are not settled
}

// A RecipientList is some recipients in the order of their index. It may be empty
// although there are more: a Store need not search a long list in one call for
// recipients that wait.
type RecipientList struct {
	Recipients []mail.RecipientOutcome
	Next       uint32 // the index to continue from
	More       bool   // there may be matching recipients at Next or later
}

// Counts is how much is in the spool.
type Counts struct {
	Incoming, Deferred, Hold, Corrupt int64 // messages

	Used int64 // bytes that the spool uses on disk
	Free int64 // bytes of free disk space
	// Refusing is why new mail is refused; "" if it is accepted.
	Refusing string

	Damaged []DamagedFile // damaged spool files found at a start, which are kept
}

// A DamagedFile is a damaged file of the spool, kept for an operator to inspect and
// remove.
type DamagedFile struct {
	Path string
	At   time.Time // when it was found, zero if unknown
}
