// Package record writes a trace file beside a running core, at little cost to it.
//
// The goroutine that owns the core only formats lines into memory. Another one
// writes them, when there are some or when a second has passed, and never keeps
// the first one waiting. What goes wrong with the file ends the trace and not
// the daemon: one line in the log tells.
package record
