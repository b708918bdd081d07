// Package measure remembers the measures in force: for a limited time, a destination gets no
// mail (a rest), or less than otherwise (a lowering); and what operators and rules have
// suspended (an order), for a limited time or until an operator resumes it.
//
// Rests and lowerings come from rules on replies (docs/replies.md). A receiver that says "not before
// 30 minutes" means it, even if this program is restarted in the meantime. So a measure is a
// record of its own, apart from the queue to whose mail it applies. It outlives the queue, and is
// saved and loaded like the records of hosts and warm-ups (Changed, AppendKey, AppendRecord,
// Load). It decides only whether a rule that wants several replies has had enough of them
// (Demands.Count). Package qmgr applies a record to its queue when the record changes, and to
// each queue that is created later.
//
// # What is kept
//
// There is one Record for each Key. It takes about a kilobyte, and has a Rest and a Lowering,
// each with the rule that demands it, its beginning and its end. A measure is dropped at its end.
// Since beginning and end are both saved, a clock that was ahead when a record was made does not
// lengthen it: after loading, a measure lasts for at most its original duration.
//
// There are at most Limit records. If there is one more, the record with the earliest end is
// forgotten, since that loses the least time. The replies that a rule has counted before it
// applies are not kept: they are a matter of minutes, and a receiver that means it will say so
// again. So it is with how often they were enough, from which the length of the next suspension follows.
//
// The host saves records at intervals, so a crash costs the changes of one interval at most. A
// measure of a rule that is not in the configuration any more ends when the host announces the
// current rules (qmgr.Rules), at the start and at each reload.
//
// # Suspensions
//
// An operator can suspend a site, a domain, a destination, a transport, a source, a tenant or a
// class, and a rule on replies a destination or a domain, each from one source or from any. Each
// is a Scope, and the Key has the value in question; the Record has an Order with the operator or
// the rule, the reason, and the end, which may be mail.Never. Orders must not be pushed out by
// rests and lowerings, so they have a Table of their own (NewOrders), and its caller refuses further
// ones at OrderLimit, for operators and for rules. Both kinds share the encodings and the
// store. The scope Resumed cannot be suspended: its only record says that mail still has to be found
// which a suspension that has ended kept waiting.
package measure
