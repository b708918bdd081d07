// Package source decides from which of our addresses a message leaves, and knows which of them can be used ([State]).
//
// A source is one identity towards receivers: an address of each family, and the name in
// EHLO. A pool is sources with weights. The first pool in the order of the configuration
// whose conditions a message meets is the message's; mail that no pool wants leaves as if
// there were no sources, from the address that the system chooses.
//
// Within a pool the sources take turns for each destination by themselves, in a rotation in
// which each occurs as often as its weight says, at equal distances as far as possible. So of
// Σw picks in a row with weights w1 to wn a source has exactly wi, wherever the row begins,
// and of k picks k·wi/Σw, give or take less than n. Each destination sees the sources in
// their proportion, which an order over all destinations would not give, and never many
// picks of one source at once. New destinations begin one position behind each other, or
// those with a single message would all get the same source.
//
// A pick takes as long in a pool of a hundred sources as in one of two, as long as the source
// whose turn it is can be used. (The smooth weighted order of nginx, with a balance for each
// source, has the same proportions; but each pick changes all balances.)
//
// Sources that cannot be used are passed over, and neither owe nor are owed anything
// afterwards.
//
// An address from which the system cannot open connections is withdrawn, and tried again after a pause that doubles from
// five seconds to five minutes. A source is up as long as it has an address that is in use or being tried.
//
//	config.go, pool.go      sources and pools, and which pool mail uses
//	turns.go, rotation.go   whose turn it is
//	address.go              which addresses can be used
//	fleet.go                all sources: the choice for one message, and the pauses of withdrawn addresses
//	tally.go                what was sent from a source on a day
package source
