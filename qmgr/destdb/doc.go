// Package destdb keeps what is known of each host that mail is sent to: when to try
// it, when its last connection was made, which level of pipelining it supports, how
// fast it answers.
//
// It follows the destination database of Finch's delivery scheduler. A host
// without open connections is in one of these states, which follow from the
// record and the instant alone:
//
//	         first failure                  retry instant
//	unused ----------------> retry-later ------------------> retry-due
//	  ^ ^                         ^                            |   |
//	  | |                         +---------- failure ---------+   |
//	  | +----------------------------- grace over -----------------+
//	  |                       last connection shut
//	  +------- closed <-------------------------------- in use
//	      TTL over
//
// The names are Finch's: an unused host is in none of the other states, which does
// not mean that nothing is known of it. Whether the connections of a host in use
// are active or idle is known to their owner (qmgr/conns); the database counts
// them, so that it never forgets a host in use.
//
// # Procedure
//
// The owner of the connections calls Open when it begins to connect and Shut when
// that connection has ended, whether it ever became ready or not. In between it
// calls Failed if the connection did not become ready, Succeeded when it did, and
// Observe… and StepDown as it learns. State returns whether to try a host, View
// everything that is known. Collect, called periodically, frees memory. Otherwise
// records are only removed because of their limit: the host that was not used for
// the longest time makes room.
//
// # Records and their merge
//
// A Record is a value. Changed returns the records that changed, to be saved and
// sent to other nodes; Load and Learn read those from before the start, and Hear those of other nodes. Two records of one host
// are joined by Merge, which is commutative, associative and idempotent: a record
// may arrive twice, late or by way of a third node, and all nodes get the same
// result. Each part is joined separately:
//
//	health   the latest attempt; at the same instant the worse one
//	closed   the latest instants
//	levels   for each level the latest end, and the latest proof that it is over
//	limit    the latest; at the same instant the stricter
//	proof    the latest; at the same instant the worse; "executes" for ever
//	pace     the latest
//	caps     the latest
//
// The instant of the observation decides, on the clock of the node that made it. A
// local observation is stamped later than what it replaces even if that came from a
// clock that is ahead, as in a hybrid logical clock. A record from another node is
// clamped: nothing in it lies in the future except ends of suppression, and these
// no farther than this node would set them.
//
// # Limits
//
// Queries create no records, so a host that was never connected to has none,
// whatever domains name it. What hosts reply is kept whole, up to 4 KB; but replies of more
// than 120 bytes take up at most 16 MB together, and further ones are truncated. Without them, a
// record takes about 600 bytes of memory, and there are at most Config.HostLimit, not counting hosts in use. Keys of
// changed records are kept for twice as many hosts; if they are not fetched,
// further ones are dropped and counted by Lost, which costs a save, not a fact.
//
// Everything is a function of the calls and the seed. One number is drawn for each
// failure that lengthens a suppression.
package destdb
