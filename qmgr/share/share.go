// Package share decides when one message may take one more of the workers that all
// messages share: the rule applied by both the scheduler of lookups and that of
// connections.
//
// A worker is a resource of which there is a fixed number: a lookup under way, a
// connection. Two simpler rules do not work, as Tony Finch observed ("how not to
// design an MTA", on schedulers). First come, first served lets one large envelope
// take every worker, in the end with its slowest recipients only. Equal parts leave
// a large envelope with one worker under load. So a message may always hold a few,
// and beyond those a number in fixed proportion to the free ones: large envelopes
// use nearly all of a quiet system, and give way as it fills.
package share

// Allowed reports whether a message that holds concurrency workers may take one
// more while free workers are not held by any message. It may if it holds fewer
// than limit, or fewer than scale times the free ones.
//
// Without limit, k messages with unlimited demand settle where each holds scale ×
// free, that is scale/(k × scale + 1) of the workers: with scale 10 one message
// gets 91 %, two get 47.6 % each. Some workers are always left over, deliberately:
// a new message starts with these, and workers of the others go to it as they
// become free, until all hold the same number. Limit matters under load, when
// hardly any worker is free. Scale 0 makes limit a hard one.
//
// Allowed does not check whether there is a free worker: with free = 0 it is still
// true below limit, and the caller uses another one (an existing connection) or
// waits. No argument may be negative; limit and scale are configured values.
func Allowed(concurrency, limit, scale, free int) bool {
	return concurrency < limit || concurrency < scale*free
}
