// Package trace writes and reads the events and actions that the core and its host
// exchange, one per line.
//
//	1000s > arrived 06B5ZT4000001 from=s@x.test size=1000 rcpts=1 arrived=1000s area=incoming to=u@a.test next=1
//	1000s route 06B5ZT4000001 to=u@a.test
//	1000s > routed 06B5ZT4000001 via=smtp nexthop=a.test
//	1000s deliver 1 06B5ZT4000001 smtp a.test to=u@a.test
//
// A line is the instant of the Step; ">" for an event; the name of the event or
// action; then words and key=value pairs in a fixed order. What is zero is left
// out. A value that is not plain is written as a Go string. Lists are keys that
// come again: "to" begins another recipient, "sent", "deferred" and "bounced"
// another outcome, and what follows belongs to it.
//
// Reading a line back gives the same value, except that an action's envelope
// has only its ID: the event that brought the message has the rest. So a core
// with the same configuration and seed, given the events of a trace, must write
// the same actions, byte for byte.
//
// # Files
//
// A file begins with what a core needs besides its events (Head): a line with the
// format's version, the program, the seed and the epoch from which instants
// count, and a line with the configuration. The last line is "end"; a file without
// it was left by a program that was killed, and may end within a line or a step.
// Empty lines, and those that begin with "#", are comments.
//
//	posthaste-trace 1 by="posthaste v1.0" seed=42 epoch=1767225600s
//	config active-limit=20000 …
//	0s > wake
//	0s fetch incoming max=256
//	…
//	end
//
// Package trace/record writes one beside a running core; package trace/replay
// gives one to a core again, and cuts and shrinks it.
//
// # A new event, action or field
//
// A type is one more element of eventKinds or actionKinds: its name, and a
// function that visits its fields, for writing and reading alike. A field is one
// more line there. TestEveryTypeIsKnown, TestEveryConstantHasAWord and
// TestRoundTrip fail if something is missing. A sentence for people is optional
// (sentence.go). Package trace/replay has to know besides what answers what.
package trace
