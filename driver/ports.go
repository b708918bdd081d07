package driver

import (
	"context"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Spool keeps messages on disk. Its methods may be called from any number
// of goroutines, except that Apply is called from one at a time.
type Spool interface {
	// Fetch returns at most max messages of the bucket of an area's index that a cursor
	// is in, from the cursor on, and from a bucket's start also which buckets follow
	// (mail.Found). In AreaDeferred it returns only those due at now, unless now is
	// mail.Never.
	Fetch(ctx context.Context, area mail.Area, from mail.Cursor, now mail.Instant, max int) (mail.Found, error)
	// Open reads a message's envelope and the first of its recipients that
	// are not settled, at most max.
	Open(ctx context.Context, id mail.QueueID, max int) (mail.Envelope, mail.Place, mail.RecipientBatch, error)
	// Read reads further unsettled recipients, at most max, from index from on.
	Read(ctx context.Context, id mail.QueueID, from uint32, max int) (mail.RecipientBatch, error)
	// Apply makes changes durable, all of them in one commit, and returns for each, in
	// their order, where its message is now. A mail.ChangeErrors says which of them
	// were not made because of a fault of their message; after any other error it is
	// unknown which were made. Changes that were not made are tried again.
	Apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error)
}

// A Notebook notes deliveries before Spool.Apply makes their outcomes durable, so that a
// killed process repeats fewer of them.
type Notebook interface {
	// NoteDelivered notes those recipients of a message whose outcome is
	// mail.Delivered. It is called on many goroutines at once, as soon as the outcome
	// is known, and waits neither for the disk nor for another call.
	NoteDelivered(id mail.QueueID, outcomes []mail.Outcome)
}

// A Router finds the routes of recipients. The answer has one route for each
// recipient, in the same order. It is called on the goroutine that owns the core,
// so it must answer from memory: if that does not suffice, the route needs a
// lookup. Asked is what the mail asks of its way.
type Router interface {
	Route(sender mail.Address, asked mail.TLSRequest, recipients []mail.Recipient) []mail.Route
}

// A Finder completes routes that need a lookup, of which Transport, Nexthop and Credential are
// set. It is called on as many goroutines
// at once as the core's configuration allows, and obeys ctx.
type Finder interface {
	Lookup(ctx context.Context, to mail.Route, asked mail.TLSRequest) mail.Route
}

// An Agent attempts deliveries, each in the caller's goroutine. Deliver
// returns an outcome for every recipient, whatever happens, and obeys ctx.
type Agent interface {
	Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult
}

// A Connector reaches the hosts of transports whose connections the core
// decides on (qmgr.AgentsConnections). Its methods block in the caller's
// goroutine and obey ctx.
type Connector interface {
	// Hosts looks up which hosts serve a nexthop, in tiers; the last tiers are
	// those of the transport's fallback relays. If there are none the reply says
	// why, and the set's Until when to ask again.
	Hosts(ctx context.Context, transport, nexthop string) (mail.HostSet, mail.Reply)
	// Dial opens a connection until it is ready for transactions. It returns a
	// Connection if and only if the Reply of the other result is zero; the
	// Connection no longer depends on ctx, and the caller must Run it. A permanent
	// Reply of our own (By is "") means that the host turned out to be this one, so
	// that hosts that are no better lead back here, too (RFC 5321 5.1); anything that
	// a host can reply before transactions is temporary, whatever its code.
	Dial(ctx context.Context, o mail.Opening) (Connection, mail.OpenedConnection)
}

// A Connection carries transactions, one after another or pipelined.
type Connection interface {
	// Run works in the caller's goroutine until the connection ends, and returns
	// how it ended. It calls done in that goroutine, in the order in which
	// transactions were sent, once for each, and not after it has returned. A
	// transaction for which done was not called by then was never begun. When ctx
	// ends, transactions under way are cut off. Replies of the host have
	// mail.Reply.By set; those made by this program do not (package qmgr).
	Run(ctx context.Context, done func(id uint64, r mail.DeliveryResult)) mail.Closing
	// Send adds a transaction. It may be called from any goroutine, before or after
	// Run is called, and never blocks; the core has no more transactions
	// outstanding than the connection's depth.
	Send(id uint64, d mail.Delivery)
	// Hangup lets the transactions that were sent finish, then ends the connection
	// with QUIT. It never blocks.
	Hangup()
}

// A HostStore keeps the core's host records from one run to the next. A lost record costs
// no more than a connection, or for a warm-up what was sent on this day.
type HostStore interface {
	// SaveHosts stores records, and deletes those whose value is empty. After an error it
	// is called again with the same records.
	SaveHosts(ctx context.Context, records []mail.HostRecord) error
	// LoadHosts calls visit with all records, at most most. A record's bytes are
	// valid until visit returns.
	LoadHosts(ctx context.Context, most int, visit func(mail.HostRecord)) error
	// SaveOrders stores records of suspensions, which are durable when it returns
	// nil, and deletes those whose value is empty. After an error it is called again with these records,
	// and perhaps newer ones behind them.
	SaveOrders(ctx context.Context, records []mail.HostRecord) error
	// LoadOrders is LoadHosts for those.
	LoadOrders(ctx context.Context, most int, visit func(mail.HostRecord)) error
}

// A Reporter composes the reports that are owed on a message's recipients
// (mail.Outcome.Report), spools them, and records that they are no longer owed, all
// of it durable when it returns nil. arrived is called with each new message, so that it can
// be scheduled at once; those before an error are durable, too. A message can have very many.
type Reporter interface {
	Report(ctx context.Context, id mail.QueueID, arrived func(mail.Arrival)) error
}

// Errors of a Spool that the driver distinguishes; the Spool wraps them. Every
// other error may be temporary.
var (
	ErrGone    = mail.ErrGone
	ErrCorrupt = mail.ErrCorrupt
)
