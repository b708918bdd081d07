// Package backoff decides when mail that could not be delivered is tried
// again, when its sender is told that it is late, and when it is given up.
//
// A message waits as long as it is old: an attempt that fails at the age of an
// hour is followed by one at the age of two. So the intervals double without
// anybody counting attempts, and an attempt that comes early, because an
// operator asked for it, does not push the next one back. A minimum keeps new
// mail from being tried too often, a maximum old mail from being forgotten.
//
// # Procedure
//
// When a round of attempts at a message has ended and some recipients are
// left, its owner asks in this order: Expired, and if so gives the recipients
// up; else WarnDue, and if so reports the delay; then Next for the instant of
// the next attempt. Mail is given up only after an attempt that failed: what
// has come back from a long hold is tried once more, however old it is.
//
// # Jitter
//
// Postfix has none: all mail that was deferred by one outage is due in one
// burst after each doubling. Here the wait is drawn anew each time, every
// value being as likely as any other, from JitterPercent below the age to
// JitterPercent above it, as far as that lies between minimum and maximum.
// Those two are promises: nothing is tried earlier than the minimum (which is
// also how long a dead destination is left alone) or later than the maximum.
// So mail younger than the minimum waits for the minimum and up to
// JitterPercent more, and old mail for the maximum and up to JitterPercent
// less. JitterPercent −1 is Postfix, to the nanosecond.
package backoff
