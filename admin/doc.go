// Package admin is the operators' interface: an HTTP API that shows what is in the
// spool and in the core, and carries out orders (hold, release, drop, bounce,
// retry). The command line and the dashboard are its clients.
//
// # Procedure
//
// The composition root creates a listener, usually a Unix socket, and runs
// [Server.Serve] on it. A request is answered from three ports: the [Store] reads
// the spool, the [Control] gives orders to the core, and the [Scheduler] reports
// the core's state.
//
// A query reads an area's index in pages of a few hundred messages and never holds
// more than one page. The cost of one request is bounded (Config.ScanMessages,
// ScanRecipients, ScanTime), since a filter that matches nothing would otherwise
// read all of a backlog of millions: the request then ends early and its answer
// carries a cursor in "next", from which the client continues. An absent "next" is
// the end; an empty page is not. Cursors are keys of the index, not counts, so they
// stay valid whatever happens to the queue meanwhile; a message that is tried and
// deferred again while a client pages through the deferred area may be returned
// twice.
//
// An index gives the order of a list, but every message must then be looked up by itself. Where
// that finds too little, because few messages match, and for counts and orders, which have no order of their own, messages
// are swept instead: read in the order in which they are stored, at a fiftieth of the cost for each (sweep.go). There is
// no index by sender, domain or reply: it would cost every delivery, and a sweep of a million messages takes 1.1 s of processor time.
//
// Orders work the same way: one request gives the order for one page of messages,
// waits at most Config.Settle until it has taken effect, and returns where to
// continue. So an order for everything is bounded in memory, its caller sees the
// progress, and the core never receives more orders than the disk keeps up with. An
// order for a message that is being delivered takes effect when the deliveries
// under way have ended; it is counted as pending if that takes longer than the
// request waits. Orders may be repeated.
//
// Errors are problem details (RFC 9457). The API's description, openapi.json,
// is generated from the types of requests and answers; a test keeps it up to date.
package admin
