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
// # Arithmetic
//
// Sums are float64, added in the order in which Postfix adds them, because
// rounding is part of the behaviour: ten failures at a window of ten are not a
// failed cohort, as ten times 0.1 is a little less than 1. Every product and
// quotient that meets a sum is converted to float64 explicitly, which forbids
// the compiler to fuse the two operations (Go specification, "Floating-point
// operators"), so that all architectures agree.
package window
