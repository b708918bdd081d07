// Package share says when one message may take one more of the workers that all
// messages have in common: the rule that the schedulers of look-ups and of
// connections both apply.
//
// A worker is whatever there is a fixed number of: a look-up under way, a
// connection. Two simpler rules do not work, as Tony Finch observed ("how not to
// design an MTA", on schedulers). First come, first served lets one large
// envelope take every worker, and in the end with its slowest recipients only.
// Equal parts leave a large envelope with one worker under load. So a message may
// always hold a few, and beyond those as many as stand in a fixed proportion to
// what is free: large envelopes use a quiet system nearly whole, and give way as
// it fills.
package share

// Allowed reports whether a message that holds concurrency workers may take one
// more, when free workers are not held by anybody. It may if it holds fewer than
// limit, or fewer than scale times the free ones.
//
// Without limit, k messages that want all they can get settle where each holds
// scale × free, that is at scale/(k × scale + 1) of the workers: with scale 10 one
// message at 91 %, two at 47.6 % each. A part is always left over, deliberately:
// it is where a newcomer starts, and as workers of the others come free they go to
// it until all hold the same. Limit matters under load, when hardly anything is
// free. Scale 0 makes limit a hard one.
//
// Allowed says nothing about whether there is a free worker to take: with free = 0
// it is still true below limit, and the caller looks elsewhere (a connection that
// exists already) or waits. Concurrency and free are not negative; limit and scale
// are configured values, at least 0.
func Allowed(concurrency, limit, scale, free int) bool {
	return concurrency < limit || concurrency < scale*free
}
