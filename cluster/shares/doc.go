// Package shares divides one limit among the nodes of a cluster, so that together they
// never exceed it, and a node with much to send gets what others do not use.
//
// # Floors and loans
//
// The limit is divided among all known nodes, alive or not: each has a floor, and the
// sum of all floors is the limit. A floor is its node's own. A node that does not need
// all of it lends the rest to others, for a term of some seconds, and renews that for as
// long as they need it and it does not. The share of a node is its floor, less what it
// has lent, plus what it was lent.
//
// No third party is involved: there is no coordinator and no lease in a store, and what one
// node does wrong, or does not hear, concerns its own floor. A node that is cut off has
// its floor again when what it lent is over, and never more.
//
// # Why the sum holds
//
// A lender counts a loan as out until its term and an eighth have passed since it sent
// it. A borrower counts it from the message of its own that the loan answers, which it
// sent before that, on its own clock. So a loan is over for the borrower before it is
// for the lender, whatever the delays and whatever the clocks show, as long as they run
// equally fast within a tenth.
//
// A loan that replaces a larger one counts as the larger one until the borrower has
// said that it knows the smaller one, which it does not say while it still uses more. A
// node that was started again does not know what it lent before, so its floor is not its
// own for the first such time.
//
// # Procedure
//
// The owner calls Want and Use when they change, Say once a second and after each
// change of what Say would say, and sends the result to all other nodes, which call
// Hear. It starts nothing that would make its use exceed Share, and asks Share again
// at every start, since terms end by themselves. What it has when the share falls, such
// as open connections, it should end soon.
//
// All nodes must know the same nodes and the same limit; a change of these is not
// provided for.
//
// Amounts are whatever a limit counts: connections, or thousandths of a message per
// second. What is spent for good, such as a daily allowance, is not lent but given away,
// which this package does not do.
package shares
