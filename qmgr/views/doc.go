// Package views is what can be seen of the core: the words and the values in which it answers those who look
// at it, and the order of its lists. Nothing here changes the core, and nothing here is needed to deliver mail.
//
// The queue manager copies what it has into these structures. What is decided here is which of several destinations come
// first and belong on a page ([Page]), what a destination is whose mail leaves from several sources ([Position.With],
// [DestinationSummary.AddSource]), which wait reason follows from what the connections say ([FromSite]), and how a destination stands
// that meets it ([WaitKind.Condition]).
//
// A view is a copy, which belongs to the caller. Times are those of the core's clock, and a zero instant means that
// there is none.
//
//	core.go          the whole, its transports and queues
//	destination.go   destinations, with their hosts and connections
//	page.go          which of them a list has, and in which order
//	waitreason.go    why mail waits, and how destinations stand
//	message.go       where a message or a recipient is
//	source.go        our own addresses
//
// The views of flows are in package flows.
package views
