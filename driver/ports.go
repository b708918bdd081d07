package driver

import (
	"context"
	"errors"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Spool keeps messages on disk. Its methods may be called from any number
// of goroutines, except that Apply is called from one at a time.
type Spool interface {
	// Fetch names messages in an area's index from a cursor on, at most max.
	// In AreaDeferred only those due at now are named, unless now is
	// mail.Never.
	Fetch(ctx context.Context, area mail.Area, from mail.Cursor, now mail.Instant, max int) (mail.Found, error)
	// Open reads a message's envelope and the first of its recipients that
	// are not settled, at most max.
	Open(ctx context.Context, id mail.QueueID, max int) (mail.Envelope, mail.Place, mail.RecipientBatch, error)
	// Read reads further unsettled recipients, at most max, from the one
	// numbered from on.
	Read(ctx context.Context, id mail.QueueID, from uint32, max int) (mail.RecipientBatch, error)
	// Apply makes changes durable, all of them in one commit, and tells for
	// each where its message is now. On an error nothing is known about them.
	Apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error)
}

// A Router tells where recipients go. The answer has one route for each
// recipient, in the same order. It is asked on the goroutine that owns the
// core, so it must answer from memory.
type Router interface {
	Route(recipients []mail.Recipient) []mail.Route
}

// An Agent attempts deliveries, each in the caller's goroutine. Deliver
// returns an outcome for every recipient, whatever happens, and obeys ctx.
type Agent interface {
	Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult
}

// A Reporter composes the reports that a message's recipients are owed
// (mail.Outcome.Report), spools them, and clears the debts, all of it durable
// when it returns nil. The new messages are returned so that they can be
// scheduled at once; with an error come those that were spooled before it.
type Reporter interface {
	Report(ctx context.Context, id mail.QueueID) ([]mail.Arrival, error)
}

// What a Spool's errors wrap where the driver tells them apart; every other
// error may pass.
var (
	ErrGone    = errors.New("the message is not in the spool")
	ErrCorrupt = errors.New("the message is damaged")
)
