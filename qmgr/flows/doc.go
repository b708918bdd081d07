// Package flows has the mail of different flows take turns, so that no flow waits for the
// backlog of another.
//
// # Structures
//
// A [Flow] is the mail of one sender, say, that is in core (mail.Flow). It has a [Lane] in
// each [Transport] that is to carry some of it. A lane is Postfix's scheduler for the jobs of
// that flow (package sched): within it, everything is as in Postfix. A lane has a [Claim] to each
// [Destination] for which it has mail. So there are two places where flows meet: lanes in their
// transport, and claims at their destination.
//
// Mail that was not classified has no flow of its own: it is in each transport's first lane, and
// so is all mail of a transport whose scheduler is there for comparison. A core without flows has one
// lane in each transport, and decides as Postfix does.
//
// # Turns
//
// At a transport, lanes that have something to start take turns in a fair order (package fair), by
// the weights of classes, tenants and flows: [Transport.Next]. The order exists only if there are several.
//
// At a destination, claims take turns only while its room is scarce, that is, while there is not room for
// each to start an entry (contention.go). Whose turn it is has all of the room, and the others
// none, so that their lanes see the destination as full. Without that a flow whose lane
// has its turn seldom would find the room gone each time.
//
// The recipient slots of a transport are shared by the lanes that have messages with
// unread recipients (pools.go).
//
// # Bounds
//
// A tenant has so many flows with a lane of their own, and no more, whatever senders it invents:
// further ones share a quarter as many, chosen by a hash of their names, as in FQ-CoDel (RFC 8290). So
// a flow takes turns with a bounded number of others. A flow without mail in core has no lanes; what is remembered
// of it for views takes less than 200 bytes, and 800 of them are remembered.
//
// # What the owner does
//
// The queue manager owns transports and destinations, and embeds ours in its own. It tells a transport's
// rules and whether it is full ([Carrier]), and how much room a destination has ([Outlet]). After each change
// of a destination's room it calls [Destination.Touch]; what follows for lanes and claims is found out when the
// stale lanes are refreshed (sched.Stale). It may be called too often, never too seldom.
//
// # Reading order
//
//	flow.go, registry.go     which flows there are
//	lane.go, pools.go        flows in a transport
//	claim.go, contention.go  flows at a destination
//	counts.go, view.go       what can be seen
//	check.go                 invariants
package flows
