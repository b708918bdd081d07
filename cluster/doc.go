// Package cluster has the ports through which the nodes of a cluster, several
// machines that send mail together, share what they know. It has no
// implementation: cluster/nats has one on NATS JetStream, cluster/memory one in
// memory, and the simulator uses cluster/model, the second one without goroutines.
// A machine on its own needs none of them.
//
// # Two kinds of shared state
//
// KV is a bucket of keys that survive their node: facts about hosts, members,
// leases. Each change is a compare-and-set that a majority of the nodes has
// confirmed. Gossip is what is only true now: each node repeats its registers
// (connections, demand, loans of limits), and a register that is not repeated
// expires at those who have it. It costs no confirmation and survives nothing.
//
//	          changes                 until             without a majority
//	KV        when a fact changes     deleted, or TTL   no changes, and no new reads
//	Gossip    every second or so      TTL of seconds    among those who hear each other
//
// # What callers must know
//
// A cluster that cannot be reached is normal. Every call ends with its context, or
// after CallTimeout if that has no deadline, with ErrUnreachable. Of a change it is
// then unknown whether it was made: a caller that repeats it may get ErrExists or
// ErrConflict because of itself. Nothing that mail waits for may depend on a call.
//
// Get may return an old value, also just after a change. A caller that must be certain
// decides by the result of Create, Update or Delete, which are linearizable per key.
//
// A watcher never gets in the way of others, however slow it is, because it keeps no
// queue: it has a position in the bucket. A slow one misses the values in between and
// gets the latest of each key. If its position is older than the markers that say
// which keys are gone (Bucket.MarkerTTL), or if the connection was lost, it gets an
// event Stale and then everything again, see Event. Mirror keeps a map of all that.
//
// Subscriptions to gossip have a bounded queue. It has at most one register of each
// node and topic, the latest; if there are too many, the oldest is dropped and
// counted. It is repeated soon anyway.
//
// A lease (Take, Renew, Release) is a key with a TTL. Its holder counts from before it
// asked, so it stops before the store does, whatever the delays; only the rates of the
// clocks must agree, within a tenth.
//
// # Log, a later port
//
// Mail that survives its machine needs a third port: append a record to a log,
// provided that the epoch of its owner is still the latest, and read a log from a
// position. Names (key syntax), errors and contexts here are meant to fit it. The epoch
// will be the revision of a lease's key, which grows with every change of owner and
// is already returned by Take.
//
// # Concurrent use
//
// All methods of Node, KV and Gossip may be called concurrently. A Watcher and a
// Subscription belong to one goroutine, except for Stop. A Mirror and a Registers
// belong to one goroutine.
package cluster
