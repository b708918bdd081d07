package inbound

import (
	"context"
	"errors"
	"io"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Sink stores messages durably. It is called concurrently from many sessions.
type Sink interface {
	// Begin opens a draft: a message that does not exist until it is committed. It
	// costs next to nothing, so it is done at MAIL. size is the size declared by the
	// client (RFC 1870), 0 if none: a message for which there is no room is refused
	// before it is sent.
	Begin(ctx context.Context, size int64) (Draft, error)
	// Waiting returns what the queue has of a class, of a tenant and of a flow, with what
	// drafts have reserved.
	Waiting(f mail.Flow) mail.Waiting
}

// A Draft is a message that is being received. It belongs to one session. Exactly
// one of Commit and Abort ends it.
type Draft interface {
	// ID returns the queue ID that the message will have.
	ID() mail.QueueID
	// AddRecipient appends a recipient; its Index is set by the draft. Memory
	// does not grow with their number. After an error, Commit fails, too.
	AddRecipient(r mail.Recipient) error
	// Write appends content: lines that end in CRLF, without dot-stuffing. Memory
	// does not grow with their number.
	io.Writer
	// Finish ends the content of a message of a client that has this envelope, and returns
	// the size in bytes of what will be stored: a sink may put fields in front of what was
	// written. It may set the envelope's VERP.
	Finish(c *Client, e *mail.Envelope) (octets int64)
	// Reserve counts the message as waiting from now on until it is aborted or could not be
	// committed, if admit agrees: no two drafts take the last place under a limit. admit
	// must not call the sink.
	Reserve(f mail.Flow, octets int64, admit func(mail.Waiting) bool) (bool, error)
	// Commit makes the message durable, to be held from the first moment if there is a reason
	// for that. The envelope's ID, Size and
	// Recipients are set by the draft. When it returns nil the message is
	// this program's responsibility and a 250 may be sent (RFC 5321 4.2.5).
	Commit(ctx context.Context, e mail.Envelope, hold string) error
	// Abort discards the draft.
	Abort()
}

// ErrFull means that there is no room for the message now; a Sink's errors wrap it.
// The client gets 452 4.3.1.
var ErrFull = errors.New("no room in the spool")
