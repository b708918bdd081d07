package views

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
)

// A Message is what the core holds of one message.
type Message struct {
	// Parked is what keeps one that is parked, and not in core, from coming back;
	// WaitNone of all others.
	Parked  WaitKind
	Held    bool // it is in core; the rest is of one that is
	Busy    int  // deliveries under way
	Routing int  // recipients of whom it is not known yet where they go
	Unread  bool // there may be further ones on disk
	Places  []Place
	More    int // destinations that are not among Places
	Ordered Ordered
	// Flow is to whom it counts in core; Flow.Flow is # and a number if its flow shares the lanes of
	// others (Config.TenantFlows).
	Flow mail.Flow
}

// Ordered is what an operator has ordered for a message in core, which is carried out when
// its deliveries under way have ended. A core that is started anew does not know of it.
type Ordered uint8

// What can be ordered.
const (
	OrderedNothing Ordered = iota
	OrderedHold
	OrderedDrop
	OrderedSome    // some recipients are given up, or held in a message of their own; others may be rerouted or requeued
	OrderedReroute // recipients go elsewhere
	OrderedRequeue // recipients are put into a message that takes the place of this one
)

// String returns the word that the API shows; "" for OrderedNothing.
func (o Ordered) String() string {
	return [...]string{"", "hold", "drop", "some", "reroute", "requeue"}[o]
}

// A Place is one destination of a message.
type Place struct {
	Transport  string
	Nexthop    string
	Source     string        // "" where none is chosen
	Security   string        // what is demanded of connections
	Instead    mail.Origin   // of TransportRetry: where the mail was to go
	Waiting    int           // recipients
	Busy       int           // deliveries under way
	WaitReason WaitReason    // of those that wait
	Sharing    flows.Sharing // how its flow shares the destination, if something of it waits
}

// A Recipient is where one recipient of a message in core is.
type Recipient struct {
	Held    bool // the message is in core; the rest is of one that is
	Routing bool // it is not known yet where it goes
	Unread  bool // it may still have to be read from disk
	// Place is its destination, where it waits or a delivery is under way; nil if it is at none.
	Place *Place
	// Outcome is what has become of it in this round and is not durable yet; Pending: nothing.
	Outcome mail.Outcome
}
