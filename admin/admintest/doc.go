// Package admintest has a queue in memory that is both the store and the core
// of an admin server, for tests of the API and of its clients. It does what it
// is told at once, or later if a test wants to see what callers make of that.
package admintest
