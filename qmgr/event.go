package qmgr

import (
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// An Event is something that has happened outside the core. The set is
// closed: Step knows every type below. Slices in an event belong to the host
// again when Step returns.
type Event interface{ event() }

// EntryID names one attempt to deliver an entry, from Deliver to Delivered.
// IDs count up from 1 and are never used again within one run.
type EntryID uint64

// Arrived announces a message that has just become durable in the incoming
// area. It is a hint: a message that is not announced is found by the next Fetch of
// its bucket, or after the next start.
type Arrived struct{ Arrival mail.Arrival }

// Found answers Fetch: what was found in the bucket of Fetch.From, which is also that of
// Found.Next.
type Found struct {
	Scan  Scan
	Found mail.Found
}

// Opened answers Open.
type Opened struct {
	Envelope mail.Envelope
	Place    mail.Place
	Batch    mail.RecipientBatch
}

// Broken answers Open, Read or Report when the message could not be read.
type Broken struct {
	ID  mail.QueueID
	Why Trouble
	// Text says what is wrong, for the log and for the corrupt area.
	Text string
}

// Trouble is why a message could not be read.
type Trouble uint8

const (
	TroubleGone      Trouble = iota + 1 // it is not in the spool any more
	TroubleCorrupt                      // it is damaged: it goes to the corrupt area
	TroubleTemporary                    // an I/O error that may pass: it is deferred, and what it owes stays owed
)

// String returns the word that traces show.
func (t Trouble) String() string {
	return [...]string{"", "gone", "corrupt", "temporary"}[t]
}

// Recipients answers Read.
type Recipients struct {
	ID    mail.QueueID
	Batch mail.RecipientBatch
}

// Routed answers Route: a route for each recipient, in the same order.
type Routed struct {
	ID     mail.QueueID
	Routes []mail.Route
}

// LookedUp answers Lookup.
type LookedUp struct {
	Lookup LookupID
	Route  mail.Route // complete: it needs no further lookup
}

// Hosts answers Resolve.
type Hosts struct {
	Transport, Nexthop string
	Set                mail.HostSet // Until is set whatever the answer
	// Reply says why there are no hosts; zero if there are some.
	Reply mail.Reply
}

// Dialed answers Dial: a connection is ready, or there is none.
type Dialed struct {
	Conn   ConnID
	Opened mail.OpenedConnection
}

// Closed answers Hangup, and comes unasked when a connection ends otherwise. It
// comes once for each connection that was opened. What was sent to it and has not
// been answered before was not begun: it goes elsewhere, and is not answered.
type Closed struct {
	Conn    ConnID
	Closing mail.Closing
}

// Learned brings what is known of hosts, of warm-ups and of measures from before the start, as a
// HostFeed gave it. It is best the first event, but for Rules.
type Learned struct{ Hosts []mail.HostRecord }

// Heard brings what other nodes have learned of hosts a moment ago, as a HostFeed of theirs gave it. It counts like what this
// node has learned, where it is later: a host that has failed elsewhere is not tried here before it is due, and mail that waits for
// one that works again is tried. Records of anything else are passed over.
type Heard struct{ Hosts []mail.HostRecord }

// Verify asks whether mail can be sent to where a route leads, which needs a lookup
// (mail.Route) unless Routed says that it is complete. Answered by Verified, within
// Config.VerifyDeadline if the host wakes the core in time.
type Verify struct {
	Verification       VerificationID
	Client             netip.Addr // the client that asks: those of one network share a few lookups and call-outs
	Transport, Nexthop string     // as in the route
	Routed             bool
	Site, Security     string // Routed: as in the route
	Credential         string // not Routed: as in the route
	// Recipient is whom the receiver is asked about, if mail can be sent there and
	// that is not known already; "" if the receiver is not asked. That is done over
	// connections that the core decides on, or not at all.
	Recipient mail.Address
}

// Delivered answers Deliver, and Send unless Closed does. In an answer to Send recipients may be
// mail.Untried.
type Delivered struct {
	Entry  EntryID
	Result mail.DeliveryResult
}

// Changed answers Change.
type Changed struct{ Changed mail.Changed }

// Reported answers Report: the reports are in the spool and the debts are
// cleared. The host sends an Arrived for each new message as well.
type Reported struct{ ID mail.QueueID }

// Kept reports that the first held mail with a limited hold must be looked at when Due comes. The
// host sends it at the start, because the core has no other way to know when it must look for mail
// whose sender asked for a later delivery.
type Kept struct{ Due mail.Instant }

// Wake reports that the instant that NextWake named has come. It may be sent at
// any time.
type Wake struct{}

// Hold asks to set messages aside until they are released. Deliveries that
// are under way are not interrupted.
type Hold struct {
	IDs    []mail.QueueID
	Reason string
}

// Release asks to put held messages back, due at once.
type Release struct{ IDs []mail.QueueID }

// Drop asks to remove messages without a report. Deliveries that are under way
// are not interrupted.
type Drop struct{ IDs []mail.QueueID }

// Settle asks to give up some recipients of a message, and to leave the others as they
// are: they are delivered as if the former had never been there. Deliveries that are
// under way are not interrupted, and their results stand.
type Settle struct {
	ID mail.QueueID
	// Outcomes say how. Each is Failed, and Report says whether the sender
	// receives a report. At may be 0: the host need not know the time. Without any, a message at rest
	// is only reported on, if it owes that: hosts ask it at a start for held mail, which
	// the core does not look at.
	Outcomes []mail.Outcome
	// Last says that no other recipient waits, so that the message's round can be
	// ended. If that was wrong, the others are tried now.
	Last bool
}

// Split asks to put some recipients of a message into a message of their own, which is
// held or, with mail.Requeue, tried at once if the original is not held; and to leave the others as they are. Deliveries that are under way are not
// interrupted: who has the message by then is not split off.
type Split struct {
	ID    mail.QueueID
	Split mail.Split
	// Last, of a requeue, says that no other recipient waits, so that the message can end if it stays for a
	// report alone. If that was wrong, the others are tried now.
	Last bool
}

// SetRoute asks to have some recipients of a message go where an operator says, or again where the
// configuration says, and to leave the others as they are. Deliveries that are under way are not
// interrupted, and their results stand. The recipients are tried at once if the message is due or deferred.
type SetRoute struct {
	ID      mail.QueueID
	Reroute mail.Reroute // To.At may be 0: the host need not know the time
}

// Retry asks to try messages now, whatever their due time, and to forget that
// the destinations of these messages are dead.
type Retry struct{ IDs []mail.QueueID }

// RetryAll asks to try all deferred mail now and to forget all dead
// destinations. Mail that is deferred again meanwhile is not tried twice.
type RetryAll struct{}

// AgentReady offers an agent of a transport whose agents are AgentsOffered. It
// is answered by a Deliver, or by nothing if there is nothing to select. With
// Config.AsPostfix recipients may be read for the selection: then the answer
// comes after they have been, and agents that are offered meanwhile are ignored.
type AgentReady struct{ Transport string }

// AgentUnavailable reports that no agent of a transport can be started. A Deliver
// that had to be given up for it is answered as well, with Result.Crashed; this
// event is best sent before that answer, so that nothing else is started first.
// Reply says why; if it is zero there is a text for it. One for a transport that
// is dead already, or that has had no mail, is ignored.
type AgentUnavailable struct {
	Transport string
	Reply     mail.Reply
}

// SelectTransport asks which transport should be given an agent next. Pending
// holds the offers of agents that are under way, by transport. Answered by
// Selected.
type SelectTransport struct{ Pending map[string]int }

// Configure replaces the configuration. What is under way goes on; limits that
// became smaller are reached by not starting anything new.
type Configure struct{ Config Config }

// Rules names the rules on replies in force, at the start and after each change. Measures
// (mail.Measure) and suspensions by other rules end, and such rules have no effect from then
// on. Before the first Rules, all rules have an effect.
type Rules struct{ Names []string }

// Reroute says that routes may be others than before: all that waits is routed again.
type Reroute struct{}

// AdjustWarmup asks to change where a source is in its warm-up plan. An order that cannot be
// obeyed, because the source has no warm-up for example, is answered by a Note.
type AdjustWarmup struct{ Order warmup.Order }

// Suspend asks to start no deliveries of what an operator names, for some time or until Resume. What is
// under way goes on. What waits is deferred without an attempt until the time is over, and expires at
// its usual age. One that is in force already lasts from now on as long as this one says. It is
// answered by a Note, which says why if it cannot be carried out.
type Suspend struct {
	Scope measure.Scope // one of measure.Scopes
	Value string
	// For is how long; 0 and what leads beyond the end of time mean until Resume. It is rounded up to
	// the next millisecond.
	For    time.Duration
	By     string // the operator
	Reason string
}

// Resume asks to end a suspension. The mail that it kept waiting is tried at once.
type Resume struct {
	Scope      measure.Scope
	Value      string
	By, Reason string
}

// Halt asks to start nothing new. Answers are still taken and recorded.
type Halt struct{}

func (Arrived) event()         {}
func (Found) event()           {}
func (Opened) event()          {}
func (Broken) event()          {}
func (Recipients) event()      {}
func (Routed) event()          {}
func (LookedUp) event()        {}
func (Verify) event()          {}
func (Hosts) event()           {}
func (Dialed) event()          {}
func (Learned) event()         {}
func (Heard) event()           {}
func (Closed) event()          {}
func (Delivered) event()       {}
func (Changed) event()         {}
func (Reported) event()        {}
func (Kept) event()            {}
func (Wake) event()            {}
func (Hold) event()            {}
func (Release) event()         {}
func (Drop) event()            {}
func (Settle) event()          {}
func (Split) event()           {}
func (SetRoute) event()        {}
func (Retry) event()           {}
func (RetryAll) event()        {}
func (AgentReady) event()      {}
func (SelectTransport) event() {}
func (AdjustWarmup) event()    {}
func (Configure) event()       {}
func (Rules) event()           {}
func (Reroute) event()         {}
func (Suspend) event()         {}
func (Resume) event()          {}
func (Halt) event()            {}

func (AgentUnavailable) event() {}
