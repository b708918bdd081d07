// Package measure remembers what is demanded of destinations for a time: that no mail goes
// there, or less than otherwise.
//
// A rule on replies demands it today (docs/replies.md): a receiver that says "not before 30
// minutes" means it, whether we are started anew meanwhile or not. So what is demanded is a
// record of its own, apart from the queue to whose mail it applies: it outlives the queue,
// and is saved and read again as records of hosts and warm-ups are (Changed, AppendKey,
// AppendRecord, Load). The package decides nothing. Package qmgr applies the records:
// to a queue that there is when one changes, and to each that comes about later.
//
// # What is kept
//
// One Record for each Key, of about a kilobyte: a Rest and a Lowering, each with the rule that
// demands it, its beginning and its end. At the end it is dropped. Since both ends are saved, a
// clock that was ahead when a record was made does not lengthen it: what is read has at most
// as long to go as it had at the beginning.
//
// There are at most Limit. If there is one more, the record of which something ends first is
// forgotten, which costs the least time. What is counted until a rule has seen enough replies
// is not kept: it is a matter of minutes, and a receiver that means it will say so again.
//
// Records are saved within an interval of the host, so a crash costs the changes of one
// interval at most. One that a rule of an earlier configuration demanded is ended when the
// host names the rules that there are (qmgr.Rules), at the start and at each reload.
//
// # Further kinds
//
// What else may be suspended (a site for all transports, a domain, a transport, a source, a
// tenant, a class) is a further Scope, with the fields of Key that name it, and whoever binds
// mail or starts deliveries asks the table for the keys that apply. An operator's order is a Rest
// without a Rule, whose Reason is a reply of our own with his words, and whose end may be
// mail.Never: until it is canceled, by a Put of what remains. All returns what there is, in
// order, for a list. Orders must not be forgotten in favor of what receivers cause, so a
// host refuses them when it has as many as it wants, and counts them apart from Limit.
package measure
