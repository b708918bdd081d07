// Package rate says when the next message, or the next connection, may go
// under limits such as "10/s, 5000/h, 50000/d", all at once.
//
// # What a limit promises
//
// N/Per means that in no span of time of length Per, wherever it begins, are
// there more than N. A receiver that counts so, or in any coarser way, never
// counts more than it allows. Within that there is nothing to be earned first:
// all N may go at once, and then nothing goes until they have had their time.
// Who does not want such bursts adds a shorter limit: "10/s, 50000/d".
//
// A token bucket with N tokens does not promise that: it gives N at once, and
// N more while it fills again, which makes 2 N in one span. A bucket of fewer
// tokens does, if it fills more slowly; but then what was not used in the
// morning cannot be used in the afternoon, and limits by the day are there for
// days on which most mail goes in two hours. A log of the last N instants is
// exact and takes memory by the limit.
//
// # How
//
// Time is cut in slices of Per/16. Each limit counts what went in each of the
// last 17 slices, the present one included; a span of length Per never touches
// more. The next may go if the sum is below N. So a bucket takes the same few
// octets for any N, and who uses a limit to the full gets at least 16/17 of
// it: what went returns when its slice has left, up to a sixteenth of Per late.
//
// # Procedure
//
// The owner asks Ready before each one and calls Take when it goes; Ready tells
// when to ask again. What was taken is remembered when the limits change.
package rate
