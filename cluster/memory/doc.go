// Package memory has the ports of package cluster in memory, on cluster/model: for
// tests of what uses them. In a testing/synctest bubble, whose time is virtual, it is
// as deterministic as its callers.
package memory
