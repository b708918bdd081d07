// Package conns decides which connection carries an entry, when one is opened
// and to which host, and when one is closed: the delivery scheduler that Tony
// Finch described ("how not to design an MTA", on delivery scheduling), fitted
// to a queue manager that decides on its own which entry goes next.
//
// # Words
//
// A site is one queue's part in this: hosts in tiers of equal preference, and
// the connections that serve it. A connection is connecting, ready or draining.
// It is active while entries are assigned to it and idle otherwise. What is
// known of a host without a connection is in package destdb: nothing (unused),
// when its last connection was made (closed), or that it failed and when to try
// it again (retry).
//
// # Procedure
//
// Entries are bound late. A ready connection that has room pulls the next entry
// that its queue selects (Find, Assign, Finished); until then an entry belongs to
// no connection, so that a host which turns out to be slow or dead holds none.
// When a queue has entries and none of its connections has room, Open is asked
// for one more, on behalf of the message at the head:
//
//  1. For each tier, from the best: hosts that failed and may not be tried yet
//     are left out. If none is left, the next tier is looked at; after the last
//     one the site is exhausted, and its entries are deferred.
//  2. A message that holds many connections may have another only while others
//     find enough (package share).
//  3. An idle connection to a host of the tier, made for another site of the
//     same transport, is taken over: the one used last.
//  4. If all connections that there may be exist, the one that has been idle for
//     longest is closed; if none is idle, the site waits for one.
//  5. No more connections are being opened at once than the site has ready ones,
//     or a few for a start, and not more in a second than is configured.
//  6. A host that is unused is dialled, at random; else the closed one whose last
//     connection was made longest ago; else one that failed and may be tried again,
//     at random, by a single connection. So connections wander over all hosts.
//  7. If something works in the tier, the host with the fewest connections gets
//     one more, up to its limit. Otherwise the next tier is looked at.
//
// Load never makes a site use a worse tier: only being unreachable does
// (RFC 5321 5.1).
//
// The entry goes to the newest connection that has room. So when load falls, old
// connections fall idle and are closed, and when hosts are equal, all are used in
// turn over time. Limits on a connection's life are by time: limits by count would
// let slow hosts keep their connections longest and gather most of them.
//
// # Which failure is whose
//
// A connection that fails while others to the same host work says that the host
// takes no more of them, not that it is down. Then the host gets no further one
// until some time has passed, and no record of a failure. If a failure can be
// made good by another host of the tier, it is that host's affair alone;
// otherwise, and if the host says that it is too busy (421), the queue's window is
// told (Blame).
package conns
