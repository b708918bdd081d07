// Package model is a cluster in memory: the store and the gossip of package cluster
// under a clock and a network that its host provides. The simulator uses it in virtual
// time; cluster/memory makes the ports of it.
//
// It is a state machine with callbacks: no goroutines, no clock, no randomness of its
// own. A Clock calls functions at later instants; a Network says of each message when
// it arrives, or that it is lost. So the host decides about delays, loss, partitions
// and pauses; Links is a Network whose faults the host sets.
//
// The store is one more place on the network. A node that reaches it is with the majority;
// an election is a time in which no node does. What it has confirmed is never lost, and
// Get returns the latest value (implementations may return older ones, so nothing is to
// be concluded from it here either).
//
// Everything belongs to one goroutine, or to whoever has the host's lock.
//
// # Watches
//
// A watch has a position: a revision up to which it has everything. The store sends
// the entries after that, batchMax at a time, and the next ones when these have been
// fetched. A request that is not answered within Config.Timeout, or for Heartbeat
// while there is nothing to send, makes the watch stale; it begins anew, every
// Config.Timeout until the store answers. So does one whose position is older than the
// markers of keys that are gone.
package model
