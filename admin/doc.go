// Package admin is the door for operators: an HTTP API that shows what is in
// the spool and in the core, and carries out orders (hold, release, drop,
// retry). The command line and the dashboard are its clients.
//
// # Procedure
//
// The composition root makes a listener, as a rule a Unix socket of mode 0660,
// and runs [Server.Serve] on it. A request is answered from two ports: the
// [Store] reads the spool, the [Control] talks to the core.
//
// Looking goes through an area's index in pages, a few hundred messages at a
// time, and never holds more than one page. What one request may look at is
// bounded (Config.ScanMessages, ScanRecipients, ScanTime), since a filter that
// matches nothing would otherwise read all of a backlog of millions: the
// request then ends early and its answer carries a cursor in "next", from
// which the client goes on. An empty "next" is the end, an empty page is not.
// Cursors are keys of the index and not counts, so they stay good whatever
// happens to the queue meanwhile; a message that is tried and deferred again
// while somebody pages through the deferred area may be met twice.
//
// Orders work the same way: one request gives the order to one page of
// messages, waits until the page has taken effect or Config.Settle is over, and
// says from where to go on. So an order for everything is bounded in memory,
// its caller sees how far it is, and the core is never handed more orders than
// the disk keeps up with. An order for a message that is being delivered takes
// effect when the deliveries under way have ended; it is counted as pending if
// that takes longer than the request waits. Orders may be repeated.
//
// Errors are problem details (RFC 9457). The API's description, openapi.json,
// is generated from the types in api.go; a test keeps it up to date.
package admin
