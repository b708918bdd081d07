// Package backoff decides when undelivered mail is retried, when its sender is
// warned of the delay, and when it expires.
//
// The wait of a message equals its age: an attempt that fails at the age of an hour
// is followed by one at the age of two. So the intervals double without a count of
// attempts, and an early attempt, ordered by an operator, does not delay the next
// one. A minimum keeps new mail from being tried too often, a maximum keeps old
// mail from being tried too rarely.
//
// # Procedure
//
// When a round of attempts at a message has ended and some recipients remain, its
// owner calls Expired, and if true gives the recipients up; else WarnDue, and if
// true reports the delay; then Next for the instant of the next attempt. Mail
// expires only after a failed attempt: mail released from a long hold is tried once
// more, however old it is.
//
// # Jitter
//
// Postfix has none: all mail that was deferred by one outage is due in one burst
// after each doubling. Here each wait is drawn uniformly from JitterPercent below
// the age to JitterPercent above it, limited to the range from minimum to maximum.
// These two are promises: nothing is tried earlier than the minimum (which is also
// how long a dead destination is not tried) or later than the maximum. So mail
// younger than the minimum waits for the minimum and up to JitterPercent more, and
// old mail for the maximum and up to JitterPercent less. JitterPercent −1 is
// Postfix, to the nanosecond.
//
// A message with a deadline (mail.DeliverBy) is due again at its deadline at the latest. With mode R it is not tried
// then; with mode N this is the one attempt that may come before the minimum.
package backoff
