// Package suspend knows what operators and rules on replies have suspended, and which mail that concerns.
//
// An operator can suspend a site, a domain, a destination of a transport, a transport, a source, a
// tenant or a class, and a rule on replies a destination, or what goes to a domain there. No delivery starts then to, by,
// from or for what is suspended; what is under way goes on. A [Book] has the orders, which are kept over restarts
// (package measure). A rule's order differs from an operator's only in that it ends if the rule does.
//
// # Suspended mail leaves the core
//
// Mail that is suspended does not wait in core, where it would take the place of other mail for
// hours. When an order comes, the queue manager defers without an attempt what waits in core for what it
// suspends, and so it does with mail that comes later, when that is bound. So no entry of the scheduler is suspended,
// and a selection need not ask; without suspensions all this costs a comparison for each recipient
// that is bound. Mail of a pool whose source is suspended, altogether or for a destination, goes to
// the other sources of the pool.
//
// The deferral is no attempt, and its due time ([Book.Due]) follows from the suspension, not from the
// message's age: it is the end of the suspension, or the instant at which the message expires
// or its sender is warned of the delay, if that comes first. So each suspended message is read and written once,
// however long that lasts. A message of which other recipients were deferred by their receivers keeps the time
// that follows from its age, but with the mark of suspended mail (intake.Marked).
//
// # Early ends
//
// If an order is revoked before its end, a scan finds what it kept by the mark in its due time
// (intake.ScanResume) and brings it into core at once. The scan has to be completed even if the process is killed
// meanwhile. So the table has a record of the scope Resumed from the end of a suspension until no message is
// in core any more that was put off because of one. A core that loads this record makes the scan again.
//
// A message has a [Stay], from which the book knows whether a suspension has ended since it was put off: then the scan may
// have been over before the message came to rest, and the message is due at once, or there is another scan.
//
//	book.go     the orders: how they begin and end
//	lookup.go   which of them concern mail
//	reason.go   what is said to mail that they keep
//	scan.go     messages in core, and the search for those that are not
package suspend
