// Package destdb is what is known of each host that mail is sent to: when it
// is worth trying, when its last connection was made, how much it bears, how
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
// The words are Finch's: a host that is unused has no record of the other
// kinds, which does not mean that nothing is known of it. Whether the
// connections of a host in use are active or idle is their owner's business
// (qmgr/conns); the database counts them, so that it never forgets a host in
// use.
//
// # Procedure
//
// The owner of the connections calls Open when it begins to connect and Shut
// when that connection is gone, whether it ever became ready or not. In
// between it calls Failed if the connection could not be made ready, Succeeded
// when it is, and Observe… and StepDown as it learns. State says whether to
// try a host, View all that is known. Collect, called now and then, gives
// memory back. Nothing else does, but for the limit on records: the host that
// was not used for the longest time makes room.
//
// # Records and their merge
//
// A Record is a value. Changed names the records that changed, to be saved and
// shown to other nodes; Load and Learn take such records back. Two records of
// one host are joined by Merge, which is commutative, associative and
// idempotent: a record may arrive twice, late or by way of a third node, and
// all nodes come to the same. Each part is joined by itself:
//
//	health   the latest attempt; at the same instant the worse one
//	closed   the latest instants
//	levels   for each level the latest end, and the latest proof that it is over
//	limit    the latest; at the same instant the stricter
//	proof    the latest; at the same instant the worse; "executes" for ever
//	pace     the latest
//	caps     the latest
//
// What decides is the instant of the observation, on the clock of the node
// that made it. A local observation is stamped later than what it replaces
// even if that came from a clock that is ahead, as in a hybrid logical clock.
// A record from outside is clamped: nothing in it lies in the future but ends
// of suppression, and these no farther than we would set them ourselves.
//
// # Limits
//
// No record is made by a question, so a host that was never connected to has
// none, whatever domains name it. Texts are cut. A record takes about 600
// octets of memory and there are at most Config.HostLimit, not counting hosts
// in use. Changed names are kept for twice as many hosts; if nobody asks, the
// rest is dropped and Lost counts it, which costs a save, not a fact.
//
// All this is a function of the calls and the seed. One number is drawn for
// each failure that lengthens a suppression.
package destdb
