// Package window decides how many deliveries one destination may have at the
// same time.
//
// A window starts small and learns from what comes back. Each completed
// delivery is feedback: positive if the destination was reached, whatever it
// said about the mail; negative if it could not be connected to, or the
// session broke. Feedback is at most 1 and usually less: it is added up, and
// the window moves by one when the sum amounts to one.
//
// Whether a destination is worth trying at all is decided apart from that. As
// many failures in a row as the window is wide are one failed cohort; after
// Config.FailedCohortLimit of these the window is dead, until it is revived by
// a late success, by the caller's back-off timer, or by an operator.
//
// # Procedure
//
// The owner of a queue holds one Window by value. It starts a delivery while
// fewer than Size are running, and calls Success or Failure when one is done,
// and Revive when the back-off timer of a dead window fires. A queue with a
// delay between deliveries calls Suspend after each one and Resume when the
// delay is over.
//
// # Rules
//
// RuleSource is what Postfix does, decision for decision. RuleReadme is what
// its SCHEDULER_README says that it does. They differ in three ways:
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
// With a fixed feedback every failure lowers the window, whatever it is due to.
// So a receiver that takes five connections is asked for a sixth again and
// again, which fails each time: at 1/N one delivery in six is deferred. And
// where one of four servers behind an address is bad, the window stays small,
// though it is not too wide. The style "level" (ByLevel; Postfix does not have
// it) tells these cases apart: it lowers the window only if failures come with
// concurrency.
//
// Each attempt belongs to a level: the number of deliveries that were running
// when it began, itself included. For each level the window keeps
//
//   - attempts and failures, where old ones count less and less. Their quotient
//     over the levels below is how often attempts fail anyway;
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
// When a doubt reaches 2000 the highest such level is closed, with all above
// it, and the window is lowered below it. At worst this happens without a reason
// once in 2000 attempts, and costs one level for a while: without a reason a
// doubt is, but for the floor, as likely to grow as to shrink, its mean stays what
// it is (a likelihood ratio is a martingale), and the floor adds less than 1 to
// it with each attempt; so in n attempts it reaches 2000 with a probability of
// n/2000 at most.
//
// A level that is reached for the first time, or is tried again, has a doubt of 45
// to begin with, and so have levels that are left when one above was closed; but
// not where failures are common, since there one cluster would close them all.
//
// An example: limit 5, and nothing else fails. At 6 a refusal comes. By what is
// known failures are rare, one in five hundred at most, so that it multiplies the
// doubt by (1-0.998/4)/0.002, that is 375, and it is 17,000: level 6 is closed,
// and the window 5. (If 6 had been good for long, the doubt would have been 1,
// and it would have taken a second refusal.) Now the same with one failure in four
// at every level: each multiplies the doubt by (1-0.75/4)/0.25, that is 3.25, and
// three of four attempts divide it by 4. It takes seven failures in a row to close
// a level, which comes to pass once in many thousand attempts, while a real limit
// brings them about at once.
//
// Failures come back before successes do: a refusal takes milliseconds and a
// delivery seconds. Judged as they come, those of any few attempts that begin
// together would look like a cluster. So attempts are judged in the order in which
// they began. One that began earlier than one that succeeded has lasted for long
// enough; and one that has lasted for longer than two that failed since, one after
// the other, is presumed to be well, too. (One is not enough: refusals do not all
// take the same time, and a receiver that refuses hundreds would seem to take half
// of them.)
//
// A closed level is tried again after 160 successes, or 12 cohorts if these are
// more: that is one delivery in 160 for a limit that stays. The trial stands or
// falls with the first attempt there, the probe: the window grows no further
// before it is back. If levels in a row are closed and nothing that began
// meanwhile has succeeded, each retreat goes twice as far as the one before: the
// limit has fallen a long way.
//
// Closing a level that was good for long means that something has changed, the
// limit or how often attempts fail. So what was known of the latter then counts no
// more than twenty attempts. If those below turn out to fail twice as often as was
// believed, it was not the limit, and the level is open again.
//
// What decides is attempts by the hundred, and each failure is mail deferred. Where the
// core decides on connections, an attempt is a connection that lasts for minutes, and one
// that is refused costs no mail anything: a first refusal would keep a window small for
// as long as 160 deliveries take. There the owner tells such a window of no refusals
// (Config.ByLevel), and the hosts remember for themselves how many connections they take.
//
// Nothing of this is about a destination that does not answer at all: that is
// for the failed cohorts to tell. Before the first failure there is nothing to
// keep, and no memory is used; then it is 56 octets for each level that
// was reached, and 4 for each of the latest attempts.
//
// # Arithmetic
//
// Sums are float64, added in the order in which Postfix adds them, because
// rounding is part of the behaviour: ten failures at a window of ten are not a
// failed cohort, as ten times 0.1 is a little less than 1. Every product and
// quotient that meets a sum is converted to float64 explicitly, which forbids
// the compiler to fuse the two operations (Go specification, "Floating-point
// operators"), so that all architectures agree.
package window
