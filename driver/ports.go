package driver

import (
	"context"

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
	// Apply makes changes durable, all of them in one commit, and returns for
	// each, in their order, where its message is now. A mail.ChangeErrors says
	// which of them were not made, because something is wrong with their message; after
	// any other error nothing is known of any of them. What was not made is made
	// again.
	Apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error)
}

// A Router tells where recipients go. The answer has one route for each
// recipient, in the same order. It is asked on the goroutine that owns the
// core, so it must answer from memory: where that does not suffice, the route
// needs a look-up.
type Router interface {
	Route(recipients []mail.Recipient) []mail.Route
}

// A Finder completes routes that need a look-up. It is asked on as many goroutines
// at once as the core's configuration allows, and obeys ctx.
type Finder interface {
	Lookup(ctx context.Context, transport, nexthop string) mail.Route
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
	// those of the transport's fallback relays. If there is none the reply says
	// why, and the set's Until when it is worth asking again.
	Hosts(ctx context.Context, transport, nexthop string) (mail.HostSet, mail.Reply)
	// Dial makes a connection up to where it takes transactions. There is a
	// Connection if and only if the Reply of the other result is zero; it does
	// not depend on ctx any more, and is to be Run. A permanent Reply says that the
	// host turned out to be this one, so that hosts that are no better lead back
	// here, too (RFC 5321 5.1); all else that a host can say at the door is
	// temporary.
	Dial(ctx context.Context, o mail.Opening) (Connection, mail.OpenedConnection)
}

// A Connection carries transactions, one after the other or pipelined.
type Connection interface {
	// Run works in the caller's goroutine until the connection is over, and
	// returns how it ended. It calls done in that goroutine, in the order in which
	// transactions were sent, once for each, and not after it has returned. A
	// transaction for which done was not called by then was never begun. When ctx
	// ends, what is under way is broken off. Replies that the host gave have
	// mail.Reply.By; those of our own making do not (package qmgr).
	Run(ctx context.Context, done func(id uint64, r mail.DeliveryResult)) mail.Closing
	// Send hands one more transaction over, from any goroutine, before Run is
	// called or later. It never blocks; the core sends no more at once than the
	// connection's depth.
	Send(id uint64, d mail.Delivery)
	// Hangup lets what was sent finish, then ends the connection with QUIT. It
	// never blocks.
	Hangup()
}

// A HostStore keeps what the core knows of hosts from one run to the next. A
// record that is lost costs no more than a connection.
type HostStore interface {
	// SaveHosts keeps records, and forgets those whose value is empty.
	SaveHosts(ctx context.Context, records []mail.HostRecord) error
	// LoadHosts calls visit with all records, at most most. A record's octets are
	// valid until visit returns.
	LoadHosts(ctx context.Context, most int, visit func(mail.HostRecord)) error
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
	ErrGone    = mail.ErrGone
	ErrCorrupt = mail.ErrCorrupt
)
