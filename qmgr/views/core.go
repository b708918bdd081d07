package views

import (
	"cmp"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/callout"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Counts counts what has happened since New. They only grow.
type Counts struct {
	Arrived  uint64    // messages of which the host told
	Started  uint64    // deliveries
	Outcomes [4]uint64 // recipients by mail.Result
	Unknown  uint64    // attempts, for each recipient, after which that one may have the message or not
	Expired  uint64    // messages given up because of their age, or their deadlines
	Reports  uint64    // rounds of reports made
	// Preemptions are the times that a message went first at the expense of another.
	Preemptions uint64
	Duplicates  uint64    // answers for something already gone
	Callouts    [5]uint64 // receivers asked about a recipient, by addrdb.Status; they count nowhere else
	// RuleSuspensions are the times that a rule on replies has suspended a destination or a domain.
	RuleSuspensions uint64
}

// CalledOut is the number of questions about recipients that have ended.
func (c *Counts) CalledOut() (n uint64) {
	for _, of := range c.Callouts {
		n += of
	}
	return n
}

// A Core is what the core holds at one moment: a copy, which belongs to the
// caller.
type Core struct {
	Now        mail.Instant // of the last step
	Messages   int          // in core
	Recipients int          // in core
	Busy       int          // deliveries under way
	Named      int          // messages that a Retry has named and that have not come into core yet
	Lookups    Lookups
	Callouts   callout.View
	Behind     bool
	Halted     bool
	Counts     Counts
	Transports []Transport // by name
	// Offline is since when our own network is held to be down; 0 if it is not.
	Offline mail.Instant
	// Closings counts connections that have ended, by mail.CloseReason.
	Closings [mail.CloseWrong + 1]uint64
	// Mixed is the last connection on which a server put something under another
	// envelope (mail.CloseMixed); of Conn 0 if none did.
	Mixed conns.Ending
}

// Lookups is the lookups of routes that the core has asked for or is going
// to ask for.
type Lookups struct {
	Busy      int // under way
	Waiting   int // not begun
	Messages  int // that have some that have not begun
	Verifying int // clients that wait to hear whether a recipient can be reached
}

// Transport is what the core holds of one transport.
type Transport struct {
	Name      string
	Jobs      int // listed
	Busy      int
	Startable int
	State     TransportState
	Reason    mail.Reply   // why it is TransportDead
	Until     mail.Instant // TransportDead: when it is tried again
	Next      mail.Instant // with a rate delay: when the next delivery starts; 0 if none waits for that
	Queues    []Queue      // by nexthop
	All       QueueSum     // of all destinations; zero if no destinations were asked for
	Outcomes  [4]uint64    // recipients by mail.Result, call-outs not included
}

// TransportState is whether the agents of a transport can be had.
type TransportState uint8

const (
	TransportAlive TransportState = iota // as far as is known
	TransportDead                        // they cannot; its mail is deferred
)

// String returns the word that logs and views show.
func (s TransportState) String() string { return [...]string{"alive", "dead"}[s] }

// A QueueSum is what the destinations of a transport have together.
type QueueSum struct {
	Queues, Dead       int             // destinations, and those of them that cannot be reached
	In                 [conditions]int // of these, the number in each Condition
	Window, Busy, Todo int
	Connecting, Ready  int // connections
}

// Add adds a destination.
func (s *QueueSum) Add(d *Queue) {
	s.Queues++
	s.In[d.Condition]++
	if d.State == window.Dead {
		s.Dead++
	}
	s.Window += d.Window
	s.Busy += d.Busy
	s.Todo += d.Todo
	s.Connecting += d.Connections.Connecting
	s.Ready += d.Connections.Ready
}

// Queue is what the core holds of one destination.
//
//archtest:fields a copy of what is known, to be read
type Queue struct {
	Nexthop string
	Source  string // from which its mail leaves; "" where none is chosen
	// Security is what its mail demands of connections; "" is TLS if the host offers it.
	Security  string
	Instead   mail.Origin // of TransportRetry: where the mail was to go; zero if it was routed there
	State     window.State
	Condition Condition
	Window    int
	Busy      int
	Todo      int
	Reason    mail.Reply   // why it is Dead
	Until     mail.Instant // Dead, Suspended: when it is tried again
	// Rule is the rule on replies that has it rest; Lowered that whose limits apply, and
	// LoweredUntil until when. "" if there is none.
	Rule, Lowered string
	LoweredUntil  mail.Instant
	// Connections are those that serve it, where the core decides on them.
	Connections conns.SiteView
	// WaitReason is what keeps its mail waiting. Peek leaves it out.
	WaitReason WaitReason
	// Outcomes counts recipients by mail.Result since the destination came into core, call-outs not
	// included. It begins at 0 again after the destination was forgotten because it was idle.
	Outcomes [4]uint64
}

// Compare orders the queues of a transport.
func Compare(a, b Queue) int {
	return cmp.Or(cmp.Compare(a.Nexthop, b.Nexthop), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Security, b.Security),
		cmp.Compare(a.Instead.Transport, b.Instead.Transport), cmp.Compare(a.Instead.Nexthop, b.Instead.Nexthop))
}
