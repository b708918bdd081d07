// Package record writes a trace file beside a running core, at little cost to it.
//
// The goroutine that owns the core only formats lines into memory. Another one
// writes them, when there are some or when a second has passed, and never keeps
// the first one waiting. An error of the file ends the trace, not the daemon, and is
// logged in one line.
package record
