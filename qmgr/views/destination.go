package views

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// A Query picks destinations. Queues that only take mail to its deferral
// (Queue.Instead) are no destinations.
type Query struct {
	// Match reports whether a destination is wanted; nil: all are. It must not keep the core waiting.
	Match func(transport, nexthop string) bool
	// In are the conditions that are wanted; without any, all are.
	In []Condition
	// EachSource asks for a line for each source of a destination, and each demand of
	// security; otherwise there is one for all of them together.
	EachSource bool
	// Domain, if it is not empty, picks sites that have mail waiting for a domain.
	Domain string
	// After is the place of the last destination of the page before; nil at the
	// beginning.
	After *Position
	Most  int // in the answer
}

// A Position is where a destination stands among all: those with the most
// waiting come first, then those in the worst condition, then by name.
type Position struct {
	Todo      int
	Condition Condition
	Transport string
	Nexthop   string
	Source    string
	Security  string
}

// A List is a page of destinations, in their order.
type List struct {
	Destinations []DestinationSummary
	Matched      int             // destinations that Match and Domain pick, on all pages
	ByCondition  [conditions]int // of these, the number in each Condition
	More         bool            // there are some behind the last one
}

// A DestinationSummary is one line of a list.
type DestinationSummary struct {
	Transport  string
	Condition  Condition
	Queue      Queue
	Messages   int // that have something waiting
	Recipients int // that wait
	Oldest     mail.Instant
	Hosts      conns.Health
	Sources    []string // from which it gets mail, in order; Queue.Source is "" if there are several
}

// Place returns the position of the destination in lists.
func (s *DestinationSummary) Place() Position {
	return Position{s.Queue.Todo, s.Condition, s.Transport, s.Queue.Nexthop, s.Queue.Source, s.Queue.Security}
}

// A Destination is all that the core holds of one destination.
type Destination struct {
	DestinationSummary
	Hosts       []conns.HostView // the best first
	Connections []conns.ConnView // the oldest first
	Ended       []conns.Ending   // connections that have, the last one first
	// Limits are those by time, with what of them is used: of messages, of new
	// connections, and of messages of the whole transport.
	Rate, ConnectionRate, TransportRate []rate.Use
	Tables                              []string // destinations of Config.Destinations that match, the most specific first
	Ceiling                             int      // the most that the window may be; 0 for no limit
	// Remembered means that it has no mail in core and no connections: the view has only
	// what is remembered of its host.
	Remembered bool
}

// AddSource adds what a destination has from another source.
func (v *DestinationSummary) AddSource(other *DestinationSummary) {
	v.Messages += other.Messages
	v.Recipients += other.Recipients
	if v.Oldest == 0 || other.Oldest != 0 && other.Oldest < v.Oldest {
		v.Oldest = other.Oldest
	}
	a, b := &v.Queue, &other.Queue
	if a.Source != b.Source {
		a.Source = ""
	}
	if a.Security != b.Security {
		a.Security = ""
	}
	if a.Lowered == "" {
		a.Lowered, a.LoweredUntil = b.Lowered, b.LoweredUntil
	}
	a.Window += b.Window
	a.Busy += b.Busy
	if a.Todo == 0 {
		a.WaitReason = b.WaitReason
	}
	a.Todo += b.Todo
	for result, n := range b.Outcomes {
		a.Outcomes[result] += n
	}
	a.Connections.Connecting += b.Connections.Connecting
	a.Connections.Ready += b.Connections.Ready
	if a.Connections.Waits == conns.WaitNone {
		a.Connections.Waits = b.Connections.Waits
	}
	if a.State > b.State || a.Until == 0 { // that of the one that mail can use
		a.State, a.Reason, a.Until, a.Rule = b.State, b.Reason, b.Until, b.Rule
	}
	h, o := &v.Hosts, &other.Hosts
	h.Up, h.Busy, h.Retry = max(h.Up, o.Up), max(h.Busy, o.Busy), max(h.Retry, o.Retry)
	if o.FailedAt > h.FailedAt {
		h.Failure, h.FailedAt = o.Failure, o.FailedAt
	}
}
