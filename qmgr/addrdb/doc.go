// Package addrdb caches the results of call-outs: what receivers said about
// addresses, and for how long that is valid.
//
// An answer is valid for a time, and refreshed after a part of it, so that an address
// in use is never unknown: a caller gets the cached answer, and the receiver is asked
// again meanwhile (Postfix's positive and negative refresh times). A refusal is valid
// for days only, since an address that does not exist may be created, and its clients
// want to be served then. An inconclusive answer, because the receiver could not be
// reached or does not know yet, is kept for minutes, during which it is not asked
// again. It never replaces a valid one.
//
// The number of known addresses is bounded. Strangers decide which are asked for, so
// that a client that guesses addresses could fill the cache with refusals: these get
// half of it, and within either half the least recently requested one makes room.
package addrdb
