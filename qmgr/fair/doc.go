// Package fair decides whose turn it is where many want one thing: a free slot of a full
// destination or of a transport at its limit, admission to the core, or a connection. It
// knows nothing of mail.
//
// Those who compete are flows. A flow belongs to a tenant, a tenant to a class. An Order
// is the tree of these for one resource: classes share the resource by weight, tenants
// share what their class gets, flows what their tenant gets. So a tenant with a thousand
// flows gets no more than one with a single flow. A flow, tenant or class that asks for
// less than its share is sparse and goes before those that are backlogged.
//
// # Procedure
//
// The owner of a resource has an Order, and a Leaf for each flow. It calls Join when a flow
// has something that could be served now, and Leave when it has nothing more. When the
// resource is free it asks Next whose turn it is, serves that flow and calls Serve, or
// Forfeit if the flow cannot use its turn. The answer to Next depends only on the
// sequence of these calls: all numbers are integers, and no map is iterated over.
//
// # Rule
//
// This is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), with every service
// of the same size, applied at each node of the tree, which its authors did for
// processors (Goyal, Guo and Vin, OSDI 1996). A node has a virtual time. Each child has a
// tag, the virtual time at which its next service begins, and a step, the time that
// one service takes it: unit/weight. The node serves the child with the smallest tag t,
// sets its virtual time to t, and the child's tag to t + step. Of equal tags, sparse
// children go first, then those whose tag is older.
//
// A child that joins gets its old tag, but at least the virtual time. If it gets the
// virtual time, it has nothing to pay and is sparse until its first service. Since no tag
// is below the virtual time, it goes before all that are backlogged, in the order in which
// sparse ones come: what FQ-CoDel does with its list of new queues (RFC 8290, sections 3
// and 4) is here a rule for equal tags, and the quantum that decides there when a flow is
// no longer new is here the step.
//
// A node that has no active child forgets its virtual time and what all of its children
// have to pay, because a tag only compares those who compete.
//
// # Why this one
//
//   - Deficit round robin, as in FQ-CoDel, needs a quantum, as large as the largest
//     service times the ratio of weights, and serves that much at a time. All services
//     have the same size here, so all it would add are bursts: a weight of 1000 would get
//     a thousand services in a row.
//   - WF2Q+ (Bennett and Zhang, SIGCOMM 1996) has tighter bounds on delay, and HFSC (Stoica,
//     Zhang and Ng, SIGCOMM 1997) separates delay from share, by service curves that an
//     operator has to configure. Both need two tags for each child, and their virtual time advances
//     with every service, past children that wait, so a newcomer would wait for these. The
//     gain is small where all services have one size.
//   - The API server of Kubernetes (k8s.io/apiserver, fairqueuing/queueset) advances its
//     virtual time with the clock, since a request has a duration. What is shared here is
//     starts, not durations: how long a delivery takes is the receiver's doing. Priority
//     levels, its upper level, have shares of their own instead of a common tree.
//   - Without a hierarchy, the share of a tenant would be that of all the flows that it
//     happens to have, and so nothing that can be promised. In a tree, what one flow leaves
//     unused goes to the other flows of its tenant first, and what a tenant leaves to the
//     others of its class: what link sharing asks for (Floyd and Jacobson 1995).
//
// # Bounds
//
// Invariant: now <= tag <= now + step for each active child of a node whose virtual time is
// now. It holds when a child joins: its tag was at most one step beyond the virtual time
// when it was set, and virtual time never decreases. A service sets now to the smallest
// tag, and one tag to now + step. Serve and Forfeit of a leaf that is not Next's do the
// same, so the invariant needs no assumption about who is served. Therefore no child
// is ever ahead by more than one step, and none is behind: a child that has had a
// thousand services out of turn waits as if it had had one, and those that were passed over
// are served before it as often as (d) says, not a thousand times. This is the intention: a
// service is given out of turn if the others cannot use it, and that earns them nothing.
//
// For the following, weights do not change, and the children that are compared are served
// only when it is Next's turn: not out of turn, and not as strict classes. s(c) is the step
// of c.
//
// (a) Over any interval in which siblings c and d both are active, their services n satisfy
// |n(c)s(c) - n(d)s(d)| <= s(c) + s(d), which in terms of weights w is
// |n(c)/w(c) - n(d)/w(d)| <= 1/w(c) + 1/w(d). Proof: each service of c adds s(c) to its tag,
// and by the invariant the tag is within [now, now+s(c)] at the start and at the end, so
// n(c)s(c) differs from the progress of virtual time by s(c) at most; the same for d. With
// equal weights the services differ by one at most, since c and d alternate: after a service
// of c its tag is now + s, which the tag of d does not exceed, and of equal tags the one of d
// is older.
//
// (b) A sparse child is served after at most one service for each sibling that was sparse
// when it joined. Proof: its tag is now, so only tags equal to now are served before it. Of
// those, sparse siblings go first if they joined earlier, and after one service their tag
// is beyond now. In the tree, consider the highest node on the leaf's path that was idle
// before the leaf joined. Everything below it was idle, too, so its first service is the
// leaf's. If it is a class, and sparse, the leaf is served after one service for each class
// that was sparse. If it is a tenant, the leaf has the (k+1)-th service of its class from
// now at the latest, where k tenants of the class were sparse; if it is the flow itself, the
// (k+1)-th of its tenant, where k flows were. How long its ancestors wait for these services
// is in (d).
//
// (c) As long as a leaf is joined, Next is a leaf: a node is active if and only if a leaf
// below it is joined.
//
// (d) From one service of c to the next, or from joining to the first, a sibling d that is
// active all the time is served ceil(s(c)/s(d)) times at most: s(c)/s(d) is the ratio
// of d's weight to c's. One that comes and goes is served once more at most. Proof: the
// tags at which d is served are in [now, tag of c], which is s(c) at most, and s(d)
// apart. If d is there all the time, only its first tag can be at the end of this interval,
// since of equal tags the older goes first. So with n-1 such siblings of equal weight a
// child has every n-th service of its node. If B is the sum of these numbers over
// all siblings, a leaf waits for (B(flow)+1)(B(tenant)+1)(B(class)+1) - 1 services at most.
// Wait computes a smaller number from the tags. If strict classes with maximum shares
// of M per mille in sum are active, n services become (1000n + 100M)/(1000 - M).
//
// (e) Whoever invents flows within a tenant changes nothing for other tenants: the tenant
// is one child. The delay of another flow of the same tenant is bounded by (f).
//
// # What is remembered
//
// A child that leaves is remembered while its tag is beyond the virtual time. When that has
// passed, or no sibling is active, it is forgotten without consequence. An Order remembers
// at most Rules.Memory idle nodes, and a node as many children as there is room for more: one
// node half of them (1,024 by default), k nodes that need more 1/(k+1) each. This is the
// dynamic threshold of Choudhury and Hahne (1998) for shared buffers: a node that needs less
// gets all of it, and nothing is reserved.
//
// If there is no room, the child with the smallest tag is forgotten, and the tag
// becomes the node's floor: a child that is not known begins there, not at the virtual
// time, but at most one step beyond it. So forgetting is never an advantage: a forgotten
// child begins no earlier than if it had been remembered. What it can do at most is to make
// a newcomer wait as long as a backlogged flow, one step, until virtual time has passed the
// floor.
//
// (f) So no flood of new names starves a sibling c. Let N be the room of the node, and let the
// flood have W children waiting at a time, all with step s. Of N+1 new children that were
// served and left, one at least was forgotten, so the floor is at least s beyond the virtual
// time at which this began; only those that were waiting already are before it. So c
// waits for at most (N+1+W) ceil(s(c)/s) of them. With equal weights and W = 1 that is one of
// 1,027 services, about what a flow has in FQ-CoDel, which hashes flows into 1,024 queues.
//
// Flows are not hashed here. A package that knows only names cannot say which flows may fall
// together without harm; the caller can: the admission of mail from the spool has buckets
// anyway, and gives their numbers as names; mail without an authenticated tenant has its
// client's network as its tenant, whose invented senders then share one part; and package qmgr
// lets a tenant have a bounded number of flows, which bounds W. Only active leaves take memory
// without limit here, and these belong to the caller, who limits the messages in core.
//
// # Strict classes
//
// A class with Strict goes first while it has had less than MaxShare of the services. It has
// a credit: each turn of the Order adds MaxShare thousandths of a service, up to those
// of a hundred turns, and each turn of the class takes a whole one. With a whole one it goes
// first, otherwise it takes turns by weight like any other. So in any n consecutive turns it
// goes first at most MaxShare (n+100)/1000 times. Going first is charged like any service,
// so that it has about the larger of MaxShare and its share by weight. The maximum shares of
// all such classes are 900 in sum at most: every other class gets its part of a tenth.
//
// # Arithmetic
//
// Virtual time is an int64. One service advances it by one step at most, which is 504,000 at
// weight 1: 20,000 services per second for 10 years are 6.3e12, which makes 3.2e18 of
// 9.2e18. It is enough for 29 years, and starts again at 0 when no leaf is joined. Steps are
// rounded, so weights other than 1 to 10 and the divisors of 1000 are off by 0.1 % at most; the
// bounds hold for the rounded steps exactly.
package fair
