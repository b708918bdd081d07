// Package rate decides when the next message, or the next connection, may start
// under limits such as "10/s, 5000/h, 50000/d", all of which hold at once.
//
// # What a limit promises
//
// N/Per means that no span of time of length Per, wherever it begins, has more than
// N events. A receiver that counts this way, or in any coarser way, never counts
// more than it allows. Nothing has to be earned first: all N may happen at once,
// and then none until the span is over. To avoid such bursts, add a shorter limit:
// "10/s, 50000/d".
//
// A token bucket with N tokens does not promise that: it allows N at once, and N
// more while it refills, which makes 2 N in one span. A bucket with fewer tokens
// does, if it fills more slowly; but then capacity that is unused in the morning is
// lost in the afternoon, and daily limits are meant for days on which most mail is
// sent within two hours. A log of the last N instants is exact but takes memory
// proportional to the limit.
//
// # How
//
// Time is divided into slices of Per/16. Each limit counts the events in each of
// the last 17 slices, including the current one; a span of length Per never touches
// more. The next event may happen if the sum is below N. So a bucket takes the same
// few bytes for any N, and a sender that always has more gets at least 16/17 of a
// limit: an event stops counting when its slice does, up to a sixteenth of Per
// late.
//
// # Procedure
//
// The owner calls Ready before each event and Take when it happens; Ready returns
// when to ask again. Events are remembered when the limits change.
package rate
