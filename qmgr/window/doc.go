// Package window decides how many deliveries one destination may have at the same
// time.
//
// A window starts small and learns from results. Each completed delivery is
// feedback: positive if the destination was reached, whatever it replied about the
// mail; negative if the connection failed or the session was lost. Feedback is at
// most 1: it is summed, and the window moves by one about when the sum reaches one
// (the rules below differ in the rounding).
//
// Whether a destination is tried at all is decided separately. A failed cohort is
// as many consecutive failures as the size of the window; after
// Config.FailedCohortLimit of these the window is dead, until it is revived by a
// late success, by the caller's back-off timer, or by an operator.
//
// # Procedure
//
// The owner of a queue holds one Window by value. It starts a delivery while fewer
// than Size are running, and calls Begin, whose result identifies the attempt (the
// style "level" needs it). When the delivery ends, it calls Success, Failure or, if
// the result says nothing about the destination, Lost. It calls Close if the
// destination must be dead whatever the results are, and Revive when the back-off
// timer of a dead window fires. For a queue with a delay between deliveries it calls
// Suspend after each one and Resume when the delay is over.
//
// # Rules
//
// RuleSource is what Postfix does, decision for decision. RuleReadme is what its
// SCHEDULER_README says. They differ in three ways:
//
//   - A step is taken when the sum comes within half a feedback of 1 by the
//     source, when it reaches 1 by the text. So a cycle is 1/g events, rounded
//     to the nearest number by the one and up by the other; and with g above
//     2/3 the first failure of a cycle lowers the window by two by the source.
//   - The window is dead when the failed cohorts reach their limit by the
//     source, when they exceed it by the text.
//   - At its limit a window gathers no more positive feedback by the source;
//     by the text it does, and each overshoot forgets the failures so far.
//
// The difference is visible from outside: against a server that refuses a
// sixth connection, feedback 1 defers a third of the mail by the source and
// half of it by the text (testdata/limiter.txt).
//
// # Level
//
// With a fixed feedback every failure lowers the window, whatever its cause. So a
// receiver that accepts five connections is asked for a sixth again and again,
// which fails each time: at 1/N one delivery in six is deferred. And where one of
// four servers behind an address is bad, the window stays small, though it is not
// too wide. The style "level" (ByLevel; Postfix does not have it) distinguishes
// these cases: it lowers the window only if failures depend on concurrency.
//
// Each attempt belongs to a level: the number of deliveries that were running
// when it began, itself included. For each level the window keeps
//
//   - attempts and failures, with decreasing weight for old ones. Their quotient
//     over the levels below is the failure rate regardless of the level;
//   - a doubt: how many times likelier the latest outcomes at this level and
//     above are if the level is too high, so that three quarters of what would
//     succeed fail, than if it makes no difference. This is Page's sequential
//     test for a change (CUSUM), as a product: a failure multiplies the doubt by
//     how much likelier it is, an attempt that is well divides it by four, and
//     it never falls below 1. So it forgets a thousand successes as soon as
//     there is reason to, which a quotient of long standing could not;
//   - a second doubt of the same kind, that three of a hundred are lost: a receiver
//     that lets surplus connections wait serves nearly all of them in the end.
//     It counts only where failures are not common.
//
// When a doubt reaches 2000 the highest such level is closed, with all above it,
// and the window is lowered below it. At worst a false alarm happens once in 2000
// attempts, and costs one level for a while: under the null hypothesis the mean of
// a doubt, but for the floor, stays constant (a likelihood ratio is a martingale),
// and the floor adds less than 1 to it with each attempt; so in n attempts it
// reaches 2000 with a probability of n/2000 at most.
//
// A level that is reached for the first time, or is tried again, starts with a
// doubt of 45, and so do levels that are left when one above is closed; but not
// where failures are common, since there one cluster would close them all.
//
// An example: limit 5, and nothing else fails. At 6 an attempt is refused. Failures
// are known to be rare, one in five hundred at most, so that this one multiplies
// the doubt by (1-0.998/4)/0.002, that is 375, to 17,000: level 6 is closed, and
// the window is 5. (If 6 had been good for long, the doubt would have been 1, and
// it would have taken a second refusal.) Now the same with one failure in four at
// every level: each multiplies the doubt by (1-0.75/4)/0.25, that is 3.25, and
// three of four attempts divide it by 4. It takes seven failures in a row to close
// a level, which happens by chance once in many thousand attempts, while a real
// limit causes them at once.
//
// Failures arrive before successes: a refusal takes milliseconds and a delivery
// seconds. If results were judged in order of arrival, the failures of any few
// attempts that begin together would look like a cluster. So attempts are judged in
// the order in which they began. One that began earlier than one that succeeded has
// lasted long enough; and one that has lasted longer than two consecutive later
// failures is presumed to be good, too. (One is not enough: refusals do not all
// take the same time, and a receiver that refuses hundreds would seem to accept
// half of them.)
//
// A closed level is tried again after 160 successes, or 12 cohorts if these are
// more: that costs one delivery in 160 for a limit that stays. The first attempt
// there, the probe, decides the trial: the window grows no further before its
// result. If several levels are closed in succession and nothing that began
// meanwhile has succeeded, each retreat goes twice as far as the one before: the
// limit has fallen far.
//
// Closing a level that was good for long means that something has changed, either
// the limit or the failure rate. So what was known of the failure rate then counts
// no more than twenty attempts. If levels below turn out to fail twice as often as
// was estimated, it was not the limit, and the level is opened again.
//
// The style needs attempts by the hundred, each failure of which is deferred mail. Where
// the core decides on connections, an attempt is a connection that lasts for minutes, and
// a refused one costs no mail anything: a first refusal would keep a window small for as
// long as 160 deliveries take. There the owner does not report refusals to such a window
// (Config.ByLevel), and the number of connections that a host takes is remembered per
// host.
//
// None of this concerns a destination that does not answer at all, which the failed
// cohorts detect. Before the first failure no memory is used; then it is 56 bytes
// for each level that was reached, and 4 for each of the latest attempts.
//
// # Arithmetic
//
// Sums are float64, added in the order in which Postfix adds them, because rounding
// is part of the behavior: ten failures at a window of ten are not a failed cohort,
// as ten times 0.1 is a little less than 1. Every product and quotient that enters
// a sum is converted to float64 explicitly, which forbids the compiler to fuse the
// two operations (Go specification, "Floating-point operators"), so that all
// architectures agree.
package window
