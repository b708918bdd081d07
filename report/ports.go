package report

import (
	"context"
	"errors"
	"io"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Spool is what the Reporter needs of one. Its methods may be called from
// any number of goroutines. An error that wraps ErrGone tells that the message
// cannot be reported on any more; every other error is taken to pass.
type Spool interface {
	// Open reads a message's envelope; see driver.Spool.
	Open(ctx context.Context, id mail.QueueID, max int) (mail.Envelope, mail.Place, mail.RecipientBatch, error)
	// Debts reads the recipients whose outcome has a Report, in the order of
	// their index, from the one numbered from on, at most max, and tells
	// whether there are more.
	Debts(ctx context.Context, id mail.QueueID, from uint32, max int) (debts []mail.RecipientOutcome, more bool, err error)
	// Content opens a message's content: lines that end in CRLF.
	Content(ctx context.Context, id mail.QueueID) (io.ReadCloser, error)
	// Begin opens a draft for a report. It should use room that is kept from
	// other mail: a report answers mail already taken in.
	Begin(ctx context.Context) (Draft, error)
	// Apply makes changes durable; see driver.Spool. The Reporter calls it
	// while the driver may be in Apply for other messages.
	Apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error)
}

// ErrGone is what a Spool's errors wrap when there is no such message. Nothing is
// owed about it. Content that is gone, or damaged (mail.ErrCorrupt), costs no more
// than the third part of the report, which then says so.
var ErrGone = errors.New("the message is not there any more")

// A Draft is a message on its way in. It belongs to one goroutine. Exactly one
// of CommitWith and Abort ends it.
type Draft interface {
	// ID is the queue ID that the message will have.
	ID() mail.QueueID
	// AddRecipient appends a recipient; its Index is set by the draft.
	AddRecipient(r mail.Recipient) error
	// Write appends content: lines that end in CRLF.
	io.Writer
	// CommitWith makes the message and the changes durable in one step. The
	// envelope's ID, Size and Recipients are set by the draft. On an error
	// neither exists.
	CommitWith(ctx context.Context, e mail.Envelope, changes []mail.Change) error
	// Abort forgets the draft.
	Abort()
	// Arrival tells, after the commit, what was made durable.
	Arrival() mail.Arrival
}
