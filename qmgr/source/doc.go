// Package source decides from which of our addresses a message leaves.
//
// A source is one identity towards receivers: an address of each family, and the name in
// EHLO. A pool is sources with weights. The first pool in the order of the configuration
// whose conditions a message meets is the message's; mail that no pool wants leaves as if
// there were no sources, from the address that the system chooses.
//
// Within a pool the sources take turns for each destination by themselves, in a smooth
// weighted order (that of nginx): of k picks in a row with weights w1 to wn a source has
// k·wi/Σw, give or take less than n, wherever the row begins, and exactly wi of each Σw
// from the start. So each destination sees the sources in their proportion, which an order
// over all destinations would not give, and never many picks of one source at once. Which
// source is the first for a destination is decided by the same order over the
// destinations, or those with a single message would all get the same one.
//
// Sources that cannot be used are passed over, and neither owe nor are owed anything
// afterwards.
package source
