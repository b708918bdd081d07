package report

import (
	"context"
	"errors"
	"io"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Spool is the part of a spool that the Reporter needs. Its methods must be safe
// for concurrent use. An error that wraps ErrGone means that the message can no
// longer be reported on; every other error is assumed to be temporary.
type Spool interface {
	// Open reads a message's envelope; see driver.Spool.
	Open(ctx context.Context, id mail.QueueID, max int) (mail.Envelope, mail.Place, mail.RecipientBatch, error)
	// Debts reads at most max recipients whose outcome has a Report, in the order of
	// their index, starting with index from, and reports whether there are more.
	Debts(ctx context.Context, id mail.QueueID, from uint32, max int) (debts []mail.RecipientOutcome, more bool, err error)
	// Content opens a message's content: lines that end in CRLF.
	Content(ctx context.Context, id mail.QueueID) (io.ReadCloser, error)
	// Begin opens a draft for a report. It should use room that is kept from
	// other mail: a report answers mail already taken in.
	Begin(ctx context.Context) (Draft, error)
	// BeginCopy does the same for a copy of mail that others have written, which must not
	// be signed in our name.
	BeginCopy(ctx context.Context) (Draft, error)
	// Apply makes changes durable; see driver.Spool. The Reporter calls it
	// while the driver may be in Apply for other messages.
	Apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error)
}

// ErrGone is wrapped by a Spool's errors when the message does not exist. Then no
// report is owed. If only its content is gone, or damaged (mail.ErrCorrupt), the
// report lacks the third part, and says so.
var ErrGone = errors.New("the message is not there any more")

// A Draft is a message being created. It belongs to one goroutine. Exactly one
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
	// Abort discards the draft.
	Abort()
	// Arrival returns, after the commit, the message that was made durable.
	Arrival() mail.Arrival
}
