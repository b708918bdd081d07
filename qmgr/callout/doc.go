// Package callout answers clients that ask, when they name a recipient, whether mail can
// be sent there.
//
// What has to be looked up for that competes with the lookups of mail, and it is
// strangers who decide how much there is of it. So all of it together counts as one
// message (Finch's proposal for verification), whose few lookups come first, because
// a client waits for the reply, and which never has more, however many slots are free.
// Within it each network of clients has fewer still, and networks take turns (package
// roster). No client waits longer than a deadline. A lookup that goes on after it still
// counts for its network until it ends, or clients could occupy all slots with domains
// whose name servers never answer: as one of its slow ones (package intake), or a client
// that asked for two such domains would keep all others of its network from an answer.
//
// A call-out asks the receiver whether it would take mail for a recipient. In Postfix it
// is a message in the queue that ends before its content, and so it is here: a
// pseudo-message, which comes from no spool and goes to none, with one recipient and one
// entry in the queue of the destination. So it has a destination's windows and limits
// like any other, is selected in its turn, rides on connections that exist, and is not
// made where the destination is dead or has to wait. A connection is opened on its behalf
// only if no mail waits for one. Strangers decide how many there are, so that none counts
// in a limit by time for more than a minute.
//
// What a call-out meets concerns only those who asked: it is no attempt for any
// message, and nothing in it shows how the destination takes mail, not even that the
// connection ends over it. That no connection can be made is another matter: mail could
// have none either.
//
// At most Config.Limit of them are in core, and of one network of clients
// Config.NetworkLimit. The others wait outside, as long as a client waits for them; one
// that has begun goes on, so that its answer is there for the next who asks (package
// addrdb). After a minute (patience) one that no connection carries is given
// up, and one that is under way loses its slot: a server that takes minutes to answer
// would keep it from others. Those that are late are as many as connections carry.
//
// The core moves a question on: Open, then a lookup if it needs one (package intake),
// CallOut, Begin, End, and Close, whatever it has come to by then.
//
// # Reading order
//
//	verification.go   questions of clients
//	callout.go        questions to receivers, and what they come to
//
// docs/routing.md explains both by examples.
package callout
