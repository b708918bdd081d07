// Package conns decides which connection carries an entry, when one is opened and to
// which host, and when one is closed: the delivery scheduler that Tony Finch described
// ("how not to design an MTA", on delivery scheduling), fitted to a queue manager that
// decides on its own which entry goes next. docs/connections.md describes what follows
// from it for operators.
//
// # Words
//
// The words are those of docs/glossary.md. Some are only used here. A site, the hosts
// that a nexthop stands for, is in this package one queue's part: its plan, which is
// those hosts in tiers of equal preference, and the connections that serve it. A site
// host is one host in one plan, for a host may be in many; a group is the connections
// of one transport, and a slot is what one of them takes up of the transport's limit.
// An entry that is assigned to a connection is a load, with what it costs; room is how
// many more a connection, or all of a site's, takes now. A connection is active while
// entries are assigned to it and idle otherwise. What is known of a host without a
// connection is in package destdb: nothing (unused), when its last connection was made
// (closed), or that it failed and when to try it again (retry).
//
// # The life of a connection
//
// Open makes a connection, which is Connecting until Dialed says what came of it. While
// it is Ready it pulls the next entry that its queue selects (Assign, Finished); until
// then an entry belongs to no connection, so that a host that turns out to be slow or
// dead holds up none. It becomes Draining when it has been idle for too long, is too
// old, has carried its limit of transactions, or its slot is needed more elsewhere
// (DrainReason); it finishes what it has, and is gone with Closed. A connection that
// the server ends, or that breaks, goes the same way at once.
//
// The entry goes to the newest connection that has room. So when load falls, old
// connections fall idle and are closed, and when hosts are equal, all are used in
// turn over time. Limits on a connection's life are by time: limits by count would
// let slow hosts keep their connections longest and gather most of them.
//
// # How many connections, and to which host
//
// When a queue has entries and none of its connections has room, Open is asked for one
// more, on behalf of the message at the head. The queue's window bounds how many there
// may be; the package reports success and failure to it (Feedback). Then:
//
//  1. For each tier, from the best: hosts that failed and may not be tried yet
//     are left out. If none is left, the next tier is looked at; after the last
//     one the site is exhausted, and its entries are deferred.
//  2. A message that uses many connections may have another only while others
//     find enough (package share), and so may a site, the more so if its connections
//     do not get on; and a busy site gives slots up for others (slots.go).
//  3. An idle connection to a host of the tier, made for another site of the
//     same transport, is taken over: the one used last.
//  4. If all connections that there may be exist, the one that has been idle for
//     longest is closed; if none is idle, the site waits for one.
//  5. No more connections are being opened at once than the site has at work, or a few
//     for a start. One that is opened in place of another that did its work and has
//     ended within the last seconds does not count: a receiver that takes one message
//     on each connection would be opened no faster than a few each round trip.
//  6. A host that is unused is dialed, at random; else the closed one whose last
//     connection was made longest ago; else one that failed and may be tried again,
//     at random, by a single connection. So connections wander over all hosts.
//  7. If something works in the tier, the host with the fewest connections gets
//     one more, up to its limit. Otherwise the next tier is looked at.
//
// Load never makes a site use a worse tier: only being unreachable does
// (RFC 5321 5.1). When a host of a better tier may be tried again it is, and if it
// is ready the connections to worse ones end.
//
// Hosts that differ only in the security demand of their connections share an address. Its
// limit on connections applies to all of them together, so a site that waits there may have
// an idle connection of another demand closed. A site that waits at several addresses has
// one connection closed after the other, and is woken when the room that this made has gone
// to another site.
//
// # How slots are shared
//
// A transport has a limited number of slots, and no site may take so many that others
// find none. Sites that are not known to take mail, or take long over it, may have only
// part of them (a dynamic threshold with a trunk reservation); a twentieth is kept for
// sites with few or none; and busy sites give slots up after a message until all have
// equal parts. The essay in slots.go gives the rules, their reasons and figures.
//
// # How health is judged
//
// A connection is judged by its progress: one that has shown nothing for ten seconds has
// stalled. A site is trusted once one of its hosts has given a verdict on a message, or if
// that was so before; it is slow after one of its connections has stalled, until some
// messages in a row were prompt, and stuck while nothing gets on at all (progress.go,
// states.go). A host is judged by its failures, as follows.
//
// Only a refusal to connect, to greet or to begin a session speaks of a limit. If it
// comes while other connections to the host work, the host takes no more of them: it
// gets no further one until some time has passed, and no record of a failure. That is
// not so of a refusal beside fewer connections than the host has accepted a moment ago:
// one of several servers behind its address may be down. Those come by chance as long as
// there are not more of them in a row than chance brings about (odds.go). Where
// others are still being opened these show what is true: until then the host gets no
// more, and no worse tier is used. If none works, and the host has refused in words of
// its own, it is there: it is asked again after a second, two and four by one connection
// each, other hosts are used meanwhile, and only then does it count as failed
// (turnedAway). So is one that says nothing but took mail lately, if it refuses within
// seconds; one that does not answer at all, or never did, counts as failed at once.
//
// A transaction that is cut, by the loss of its connection or by 421, is a fault of that
// transaction first: its message is tried later, others go at once over another
// connection, and nothing follows for how many there may be. The host is at fault if
// it happens to several messages in a row, none was judged between them, and no other
// connection carries anything (fault.go). A message counts once, however often it is
// tried: one at which a server chokes costs itself only. A loss with several commands
// unanswered is a reason to speak to the host more simply unless most of what is sent
// that way goes well (destdb.Suspect); if the host's words say that it cannot follow, it
// is spoken to more simply at once.
//
// What counts as carried is what the host gave a verdict on, not what the end of the
// connection decided, and no call-out: it is a transaction like any other for limits on
// their number, and says nothing about how the host takes messages. A connection that
// ends over one is no failure of the host either: it may have had enough of questions,
// which strangers ask.
//
// If a failure can be made good by another host of the tier, it is that host's affair
// alone; otherwise, and if the host says that it is too busy (421), the feedback is
// negative: fewer connections are opened, and no mail is deferred. That is done when no
// host of any tier can be tried. A host is well again when it has taken a message, not
// when it has taken a connection.
//
// If most hosts fail that took mail lately, and nothing works, it is our network that is
// down (outage.go); hosts that never answered, or failed before, say nothing about
// it. Then no failure counts, one attempt is made each second by one site after the
// other, first by those whose hosts took mail lately, and after some minutes mail is
// deferred like any other that cannot be delivered.
//
// If dialing leads to ourselves, hosts that are no better are left out until they
// are looked up again; without better ones mail for the site fails (RFC 5321 5.1).
//
// # Waiting
//
// A site that gets no connection is listed where that is found which it waits for (Wait):
// a slot of its transport, a host, a message, its own share, our network. Whatever becomes
// free wakes one site (Woken), which is asked again after those who need it more had
// their turn; what it does not use up wakes the next (PassOn). So no site asks in
// vain, however many wait, and each keeps its turn.
//
// # Proving
//
// Messages are streamed only to hosts that have proven that they can take them so. One
// connection at a time to a host of which that is not known begins at the level below,
// carries a few messages and ends with a probe (mail.Opening.Probe), whose result destdb
// remembers. Connections that were opened meanwhile end when it is passed.
//
// # What differs from Finch's, and why
//
//   - An entry is not tried on one host after the other with a set of those that
//     it was tried on: bound late, it finds only what works.
//   - Entries are not moved from one connection to another. Whatever is assigned
//     is on its way at once: at most one entry waits behind another, or as many as
//     may be streamed, for no more than a round trip or some milliseconds (depth).
//     There is nothing that an idle connection could take away in time.
//   - The threshold of a connection is its depth, and a load that keeps large
//     messages from being lined up; not an estimate of waiting time.
//   - Several messages are streamed only over transports that are configured for
//     it. A connection that is lost with several of them unanswered ends that for
//     the host for a day, instead of halving their number.
//   - All messages that a server announces for one connection (RFC 9422) are used.
//   - Idle connections end after a fixed time; only the age of active ones is left
//     to chance, since only these were made together.
//   - When a host is back, deferred mail comes when it is due, not at once.
//
// # Reading order
//
// Read the scripts first: testdata/choice.txt (which host), spread.txt (how connections
// spread), faults.txt (whose fault), slots.txt (who gets a slot), waits.txt (who is
// woken). Then states.go has every state and its table of changes; conn.go, site.go,
// plan.go, host.go and group.go have the structures, with the invariants beside the
// fields (check.go asserts them); pool.go holds all. What is done, event by event: open.go
// with survey.go, dialed.go, carry.go, closed.go. What these rest on: slots.go, wait.go,
// progress.go, fault.go, odds.go, outage.go, feedback.go, timer.go. For show only:
// ending.go and view.go. naive_test.go is the same package without any cleverness, which
// has to give the same answers.
package conns
