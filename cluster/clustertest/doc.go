// Package clustertest has the contract of package cluster as tests, which every
// implementation runs on two of its nodes. What they wait for is an event, never a
// time, so an implementation in memory runs them in a testing/synctest bubble, and one
// on real machines as they are.
package clustertest
