// Package orders knows what operators want done with messages, and which changes of messages at rest are under way for that.
//
// A message in core has an [Order], which ends its round, and [Settling], which is for some of its recipients and becomes part of the
// round's last change. A message at rest is changed where it lies, by one change at a time: what is ordered meanwhile is a [Wish], and is
// carried out when the change is durable. So is what comes too late for the round of a message that is about to leave the core.
//
// A [Book] has these changes and wishes. It also has which recipients will be tried of messages that the intake has named
// but not yet opened, and the removals of held mail whose time is over: each is conditional on what the spool has, since an operator may
// have held the message again, and an order that comes meanwhile waits for the answer like any other. The book carries nothing out: it says
// what is next, and the queue manager does it.
package orders
