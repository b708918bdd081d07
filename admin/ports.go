package admin

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Store reads the spool. Its methods may be called from any number of
// goroutines and cost the scheduler nothing.
type Store interface {
	// Find names messages of an area in the order of its index, from a cursor
	// on, at most max, whether they are due or not.
	Find(ctx context.Context, area mail.Area, from mail.Cursor, max int) (mail.Found, error)
	// Show returns one message, wherever it is. The error wraps ErrGone if
	// there is none.
	Show(ctx context.Context, id mail.QueueID) (Message, error)
	// Recipients returns some recipients of a message with their last
	// outcomes. The error wraps ErrGone if there is no such message.
	Recipients(ctx context.Context, id mail.QueueID, q RecipientQuery) (RecipientList, error)
	// Content opens a message's content: Envelope.Size octets with CRLF line
	// ends. The error wraps ErrGone if there is no such message.
	Content(ctx context.Context, id mail.QueueID) (io.ReadCloser, error)
	// Counts tells how much is in the spool.
	Counts(ctx context.Context) (Counts, error)
}

// Control gives orders to the core. The methods that return nothing return at
// once; their orders are carried out in the order in which they were given,
// and a View or InCore after them is answered when the core has seen them.
type Control interface {
	// Hold sets messages aside until they are released.
	Hold(ids []mail.QueueID, reason string)
	// Release puts held messages back, due at once.
	Release(ids []mail.QueueID)
	// Drop removes messages without a report.
	Drop(ids []mail.QueueID)
	// Settle gives up some recipients of a message, as failed; the outcomes say which,
	// and whether their sender is told. Last says that no other recipient waits.
	Settle(id mail.QueueID, outcomes []mail.Outcome, last bool)
	// Reserve gives out an ID for mail.Split.Into; the error wraps ErrFull if there is no
	// room for content of size bytes once more.
	Reserve(size int64) (mail.QueueID, error)
	// Split puts some recipients of a message into a message of their own, which is
	// held.
	Split(id mail.QueueID, s mail.Split)
	// Retry tries messages now.
	Retry(ids []mail.QueueID)
	// RetryAll tries all deferred mail now.
	RetryAll()
	// View returns a snapshot with at most queues destinations for each
	// transport. It returns ctx's error if the core does not answer in time.
	View(ctx context.Context, queues int) (qmgr.View, error)
	// InCore tells of each message whether it is in core: being tried, or
	// about to be. It returns ctx's error if the core does not answer in time.
	InCore(ctx context.Context, ids []mail.QueueID) ([]bool, error)
}

// A Scheduler tells what the core holds and why it waits. Its methods return ctx's
// error if the core does not answer in time.
type Scheduler interface {
	// Destinations returns a page of destinations. The query's Match is called on
	// the goroutine that owns the core.
	Destinations(ctx context.Context, query qmgr.DestinationQuery) (qmgr.DestinationList, error)
	// Destination returns all about one, with at most most of its hosts, of its
	// connections, and of those that have ended; false if the core does not hold it.
	Destination(ctx context.Context, transport, nexthop string, most int) (qmgr.DestinationView, bool, error)
	// Explain tells of each message where it is in core, with at most most of its
	// destinations.
	Explain(ctx context.Context, ids []mail.QueueID, most int) ([]qmgr.MessageView, error)
	// Trouble tells of how many messages changes cannot be made durable, and when one
	// of them failed last, and why. It does not wait for the core.
	Trouble() (messages int, at time.Time, reason error)
}

// What a Store's errors wrap where this package tells them apart.
var (
	// ErrGone means that there is no such message.
	ErrGone = errors.New("no such message in the queue")
	// ErrFull means that there is no room for more mail. ErrDamaged means that something about a message cannot be read.
	ErrFull    = errors.New("there is no room for more mail")
	ErrDamaged = errors.New("the message is damaged")
)

// A Message is what a Store knows of one message besides its recipients and
// its content. Of a damaged message only Envelope.ID, Place and Reason may be
// set.
type Message struct {
	Envelope mail.Envelope
	Place    mail.Place
	Settled  uint32 // recipients that need no further attempt
	Reason   string // AreaHold, AreaCorrupt: why it is there; "" if nobody said
	// Damage says what of it cannot be read; "" if nothing is known to be damaged.
	// Without an envelope, Envelope.Arrived is 0.
	Damage string
}

// A RecipientQuery says which recipients are wanted.
type RecipientQuery struct {
	From    uint32 // the lowest index
	Max     int
	Waiting bool // only those that are not settled
}

// A RecipientList is some recipients in the order of their index. It may be
// empty although there are more: a Store need not go through a long list in
// one call to find those that wait.
type RecipientList struct {
	Recipients []mail.RecipientOutcome
	Next       uint32 // the index from which to go on
	More       bool   // there may be wanted recipients at Next or later
}

// Counts is how much is in the spool.
type Counts struct {
	Incoming, Deferred, Hold, Corrupt int64 // messages

	Used int64 // octets that the spool takes on disk
	Free int64 // octets of disk space that are left
	// Refusing is why no mail is taken in; "" if it is.
	Refusing string

	Damaged []DamagedFile // what of the spool was found damaged at a start, and is kept
}

// A DamagedFile is part of the spool that was damaged, kept for a person to
// look at and to remove.
type DamagedFile struct {
	Path string
	At   time.Time // when it was found, zero if that is not known
}
