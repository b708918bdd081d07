// Package admintest provides a queue in memory that is both the store and the core
// of an admin server, for tests of the API and of its clients. It carries out
// orders at once, or later if a test wants to see how callers handle a delay.
package admintest
