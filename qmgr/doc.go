// Package qmgr is the queue manager: it decides which mail is delivered next,
// to where and how much of it at once, and what becomes of the rest. It is a
// value that is stepped: events go in, actions come out. It does no I/O, reads
// no clock, starts no goroutine and takes no lock, so that the daemon, the
// simulator and a test script can all be its host.
//
// # Contract
//
// A host that keeps these rules cannot be wrong.
//
//  1. now never decreases from one Step to the next. Step panics if it does; a
//     host guards its clock.
//  2. Each action that names an answer is answered exactly once, by the event
//     named, in any order and at any later time.
//  3. Actions that name the same connection are carried out in their order. All
//     others are independent of each other: run them in any order, in parallel,
//     or lose the process between any two. Where B must wait for the result of A,
//     the core emits B only after A's answer.
//  4. Events and actions are values. The core keeps no reference to an event's
//     slices and lends none in an action. The slice of actions that Step
//     returns is valid until the next Step.
//  5. An answer for something already gone is legal; it is ignored and counted.
//  6. The same configuration, seed and events give the same actions.
//  7. Step does bounded work: what it starts by itself is bounded by
//     Config.ActionsPerStep. What is left over makes NextWake say "now".
//  8. Step returns no error. What the world may do is an event; what it may not
//     do is a bug, and panics.
//
// A host's loop is: wait for an event, or until NextWake; Step; start every
// action; repeat. Its first event is a Wake, at which the core asks what the spool
// has kept. Package driver is the host for production, and the example below the
// shortest there can be.
//
// What goes by the names of mail need not be mail: a recipient's address is a text
// that only the host understands, a nexthop is whatever has limits of its own, and
// a message without a sender owes no report if Config.DoubleBounce is
// DoubleBounceDiscard.
//
// # Structures
//
// The words are Postfix's, and so are the structures. A message has a job in each
// transport that is to carry some of it; a job has a peer for each destination; a peer
// has entries, each a batch of recipients for one transaction. A transport has a queue
// for each destination, which owns the window that limits how many entries may be busy
// there. Package sched has all of them as far as they decide what goes next, and package flows
// what flows share of transports and queues; this package knows the rest of transports, queues and messages.
//
// # Life of a message
//
// Arrived (or Fetch, Found, Open, Opened) brings a message into core, Route and
// Routed bind its recipients to queues, as far as that is known at once; Lookup and
// LookedUp bind the others. Deliver or Send, and Delivered, attempt its entries.
// Outcomes are made durable by Change and Changed, reports by Report and Reported.
// When nothing is left to try, the message leaves the core with its last Change:
// removed, deferred, held or set aside as corrupt. It leaves without one if there is
// nothing to record: it was not what its scan looked for, or is gone from the spool
// (opened, broken), or it is parked, with all outcomes durable, until its lookups have
// ended (makeWay) or it is its turn to be reported on (park). Because of rule 3 a removal is never
// emitted before every outcome and every report that it depends on is durable, or part
// of the removal itself.
//
// # How it is decided what goes next
//
// Selection. Jobs stand in the order in which their messages came. The first that has an
// entry for a destination with room is served; its destinations take turns. Preemption
// lets a job with few recipients go before one with many, which gives away at most one
// turn for every k of its own and so takes at most k/(k-1) times as long (package sched).
//
// Flows. Jobs of one flow are in one lane of their transport, and what was said above holds
// in each lane. A lane has a claim to each destination for which it has mail. Where there is
// not room for all claims they take turns, and so do lanes where the transport's limit is
// reached (packages flows and fair). Mail that is not classified is one flow.
//
// Windows. A destination has room as long as fewer entries are busy than its window
// allows. The window grows with success and shrinks with failure, in most styles by less
// than one for each (package window). When too many deliveries in a row fail, the
// destination is dead for a while and its mail is deferred; with AgentsConnections, it is
// dead when none of its hosts may be tried. Limits by time come on top (packages rate and
// shape).
//
// Connections. With AgentsConnections a destination has room where a connection to one
// of its hosts is ready, and the window limits connections instead. Which hosts are used,
// when one more connection is opened, when one is given up for others, and what a
// failure says about a host, a destination or our own network is the business of package
// conns; package destdb remembers hosts beyond that.
//
// Memory. Most recipients of large messages stay in the spool (recipients.go), mail that
// cannot go for now leaves (crowding.go, package debts), and the rest of the backlog
// rests in the spool anyway.
//
// docs/scheduler.md and docs/connections.md explain all of this by examples.
//
// # Reading order
//
// Most rules are in packages that own their state and know nothing of this one; each doc.go is a manual. Here
// is what joins them. To learn the core, read packages sched and window, then flows and intake, and then these files.
// Where the core decides on connections, conns and destdb come before reach.go. The other packages can be
// read when a file below names them.
//
//	event.go, action.go, config.go      what goes in and comes out
//	qmgr.go, timers.go                  Step (package timers)
//	message.go, queue.go, transport.go  the structures (package directory)
//	admission.go, recipients.go, routing.go, lookups.go  how mail comes in (package intake)
//	pick.go, outcome.go, round.go       how it is tried, and what becomes of it
//	transportdelay.go, spread.go, limits.go  when and how large an entry starts (packages spacing, spread, rate and shape)
//	reach.go, conn.go, carry.go         with connections: asked for, opened, used
//	source.go, warmup.go, warmupscan.go our addresses (packages source and warmup)
//	outage.go, crowding.go, debts.go, network.go  what cannot go now (package debts)
//	deadline.go                         what is late
//	measure.go, hosts.go                what rules on replies demand, and what is saved (packages measure and saved)
//	suspend.go                          what is suspended (package suspend)
//	operator.go, settle.go, setroute.go, lapse.go  orders (package orders)
//	view.go, destinations.go, waitreason.go, sourceview.go  what can be seen (package views)
//	verification.go                     questions of clients (package callout)
//
// # For hosts that connect
//
// A host that connects (AgentsConnections) decides by mail.Reply.By
// what an outcome says of the other end. A reply with By, which names the host that
// gave it, was that host's own verdict, and so shows that it does its work, even if it
// refuses; one without is of our own making, and says nothing about the host. Without
// By no refusal ever counts as an answer: a host that has failed does not become well
// by refusing, and nothing is learned of its time. An outcome that is mail.Delivered
// is an answer in any case. What ended the connection goes into
// mail.DeliveryResult.Site and mail.Closing, whoever's words these are.
package qmgr
