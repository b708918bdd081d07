// Package intake is how mail comes into core: which messages are opened next
// (Admission), for how much of it there is room (Room, Recipients), and which of
// their routes are looked up next (Lookups). It does no I/O and reads no clock; package
// qmgr, its only caller, turns what it says into actions, and brings it the answers.
//
// Admission. New mail is announced, and comes into core at once while there is room.
// All else is found by scans of the spool's indexes, which take turns. The indexes are
// divided into buckets by flow; within a scan each bucket has a search of its own, and
// they take turns, too, and share the core (account.go), so that no sender's mail waits
// until that of others is in core. A message that is passed over, or that is put somewhere
// a search has already been, goes to Appeared, and the search goes back to it. That is the
// invariant: whatever rests in the incoming or the deferred area, and is not in core, is
// behind a search's cursor, or in a bucket that the survey of buckets has not come to, or
// found and not taken, or its hint is on the way to Announced. A message is not in core
// twice, however late its hint is.
//
// Recipients. Every message may have a few recipients in core, and the rest is shared,
// so that memory is bounded whatever waits on disk (recipients.go has the bound).
//
// Lookups. Where a recipient goes may be known only after a lookup in the DNS, which may
// take long, or never end. Messages share the lookups that may be under way
// (lookups.go); those that take long give their slots back (slow.go); names that were
// silent lately are looked up by few at a time (silence.go); and mail that would fill
// the core while it waits for such lookups leaves it until they have ended (parked.go).
// The invariant is that at most Limits.Lookups hold a slot, as all do that have taken
// less than 50 ms; ten times as many go on without one; and the host works on ten times
// as many that were given up.
//
// A message's part in it is a Routing, a client's question is a Question. Both wait on
// a Lookup, which ends for all who wait for it at once: End, then NextQuestion and NextJob
// until they return nil.
//
// # Reading order
//
//	origin.go, admission.go     how messages are found
//	recovery.go                 when what an outage has put off is looked for
//	scan.go, account.go         buckets: what is searched, whose turn it is, who has room
//	room.go, recipients.go      how many messages and recipients there may be
//	lookups.go, slow.go         which lookups begin, and what becomes of long ones
//	silence.go, parked.go       names that do not answer, and mail that waits for them
//	check.go                    the invariants of lookups
//
// docs/scheduler.md explains the bound on recipients, docs/routing.md the lookups.
package intake
