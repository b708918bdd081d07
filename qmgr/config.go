package qmgr

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// The transports that the core itself sends recipients to. They are ordinary
// transports with windows and job lists of their own, as in Postfix, so that
// even the deferral of a large backlog is scheduled; the host gives each an
// agent whose outcome is the nexthop's text.
const (
	TransportRetry = "retry"             // every recipient is deferred
	TransportError = mail.TransportError // every recipient fails
)

// Config is how the queue manager behaves. The zero value of a field means its
// default; the parameter names in the comments are Postfix's.
//
//archtest:fields parameters, each with a meaning of its own
type Config struct {
	// ActiveLimit bounds the messages in core (qmgr_message_active_limit);
	// default 20000, at least 1. Raise it when many destinations are slow at
	// the same time; each message costs about 1 KB of memory.
	ActiveLimit int
	// RecipientLimit is the number of recipients in core, of all messages together,
	// up to which more than RecipientMinimum recipients of a new message are read
	// (qmgr_message_recipient_limit); default 20000, or ActiveLimit if that is
	// more. Each recipient costs about 150 octets.
	RecipientLimit int
	// RecipientMinimum is the number of recipients every message in core may have
	// there whatever the others have (qmgr_message_recipient_minimum);
	// default 10, at least 1.
	RecipientMinimum int
	// LookupLimit bounds the lookups of routes under way at once; default 100. Those
	// that have taken more than 50 ms do not count; there may be ten times as many.
	// Raise it where the name server is far away and fast.
	LookupLimit int
	// MessageConcurrency is the number of lookups one message may always have under
	// way (Finch's max_message_concurrency); default 20. Raise it where large
	// envelopes matter more than small mail under load.
	MessageConcurrency int
	// ConcurrencyScale is how many times what is free a message may have
	// besides (Finch's scale_max_concurrency); default 10, which is 91 % of a
	// quiet system; negative for none. Lower it to keep more in reserve for mail
	// that comes next.
	ConcurrencyScale int
	// VerifyLimit is the number of lookups that are under way at once for clients that want to
	// know whether a recipient can be reached, and how many call-outs, except those
	// that take more than a minute; default 10, and of lookups never more than half of
	// LookupLimit. Raise it where many clients have to wait for the answer.
	VerifyLimit int
	// VerifyNetworkLimit is how many of either for clients of one network (IPv4 /24,
	// IPv6 /64); default 2. Raise it where most clients are in one network.
	VerifyNetworkLimit int
	// VerifyDeadline is the longest time that these clients wait for an answer; default
	// 5 s. Raise it where name servers are slow, and clients patient.
	VerifyDeadline time.Duration
	// VerifySender is in whose name receivers are asked about recipients; default is
	// the null sender, which every receiver has to let in (RFC 5321 4.5.5). Set it
	// for receivers that do not.
	VerifySender mail.Address
	// VerifyRejectReason is the reply to a client whose recipient the receiver refuses,
	// and VerifyDeferReason that to one for which the receiver cannot be asked; default is the receiver's name, address
	// and words. Set them to keep these from strangers.
	VerifyRejectReason string
	VerifyDeferReason  string
	// Addresses says how much is remembered of what they answered, and for how long.
	Addresses addrdb.Config
	// FudgeFactor is how many percent of RecipientLimit one message may have read
	// at once (qmgr_fudge_factor), where the default transport's scheduler is
	// RoundRobin; default 100.
	FudgeFactor int
	// AsPostfix makes equal to Postfix what would be worse for no other reason,
	// so that decisions and counters can be compared. RoundRobin admits messages
	// whatever RecipientLimit says, as the recordings of it were made. The selection of an entry
	// waits when it has asked for recipients of a job, as Postfix reads them
	// then and there, and the host has to answer Read and Route before it sends
	// anything else; otherwise selection goes on with the recipients in core. A destination
	// that dies leaves a queue on TransportRetry even if nothing waits for it;
	// otherwise such a queue would stay for each reason ever given.
	AsPostfix bool

	// Debug asks for Feedback and Preempted actions, which show why something
	// is selected (destination_concurrency_feedback_debug). They cost about a
	// tenth of a Step.
	Debug bool

	// TransportRetryTime is the time for which a transport is dead whose agents could not be
	// started (transport_retry_time); default 60 s.
	TransportRetryTime time.Duration

	// Backoff says when a message is tried again, warned about, given up.
	Backoff backoff.Config

	// DoubleBounce says what happens to a message with the null sender that
	// cannot be delivered.
	DoubleBounce DoubleBounce

	// RoutesBySender says that routes depend on the sender, so that Route names it. Leave it
	// false where they do not.
	RoutesBySender bool

	// DefaultTransport holds the limits of transports that Transports does not
	// name.
	DefaultTransport TransportConfig
	// Transports holds limits by transport name. A zero field means the
	// default, not DefaultTransport's value: whoever fills the map merges.
	Transports map[string]TransportConfig

	// TenantFlows is the number of flows of one tenant, with mail in core, that have lanes of their own; further
	// ones share a quarter as many, 256 at most. Default 1024, as many as there are queues in FQ-CoDel;
	// at least 1. With the default a flow has one of 1,280 turns of its tenant, or more. Raise it
	// where tenants have more honest senders than that at the same time, each of which takes about
	// 1.6 KB of memory, and 0.5 KB for each further destination; lower it so that a tenant that is
	// flooded by invented senders serves the others sooner.
	TenantFlows int
	// Shares says how classes, tenants and flows share what is scarce (mail.Flow); by
	// default equally.
	Shares fair.Rules

	// Sources are our addresses towards receivers, and which mail leaves from which, where
	// Agents is AgentsConnections; by default that is not decided here.
	Sources source.Config

	// Destinations have limits in place of those of the transport that mail takes
	// to them.
	Destinations []shape.Destination

	// ConnectionLimit bounds the connections of all transports together, where
	// Agents is AgentsConnections; default 2000. Raise it together with the limit
	// on open files.
	ConnectionLimit int
	// Hosts says how long what is known of hosts is remembered.
	Hosts destdb.Config

	// Warmup says which sources are new to receivers, and how many messages they may send
	// to each site on a day; by default none is.
	Warmup warmup.Config

	// ActionsPerStep bounds what one Step starts by itself: messages
	// opened and entries delivered; default 1000. What is left over is done in
	// the next Step, and NextWake says that it is due now.
	ActionsPerStep int
}

// DoubleBounce is a policy for undeliverable mail with the null sender, about
// which no report may be sent (RFC 5321 4.5.5).
type DoubleBounce uint8

const (
	DoubleBounceHold    DoubleBounce = iota // set it aside for Backoff.BounceQueueLifetime, for the operator to look at
	DoubleBounceDiscard                     // remove it, with a line in the log
	DoubleBounceReport                      // have the reporter send it to an address that it knows
)

// TransportConfig is the limits of one transport. The zero value of a field
// means its default.
//
//archtest:fields parameters, each with a meaning of its own
type TransportConfig struct {
	// Scheduler says in which order entries are selected. It cannot be changed by
	// a reload once mail has been routed to the transport. RoundRobin is best set
	// for the default transport, too: where that is Preemptive, messages that are
	// too large to be in core at once are read in steps of RecipientMinimum for
	// this one.
	Scheduler sched.Scheduler
	// ProcessLimit bounds the deliveries under way at once over this transport
	// (default_process_limit); default 100. Raise it to serve many destinations
	// at once; each delivery may cost a connection.
	ProcessLimit int
	// RecipientLimit bounds the recipients of one entry, that is of one
	// transaction (default_destination_recipient_limit); default 50;
	// -1 means no limit.
	RecipientLimit int
	// SlotCost is k: for every k entries that are selected of a message, others
	// may overtake it by one (default_delivery_slot_cost); default 5. Lower it
	// to let small mail overtake more, at the price of slowing large mail by up
	// to 1/(k-1). 1 or a negative value means no preemption.
	SlotCost int
	// SlotLoan is the number of slots a message is lent that it has not earned yet
	// (default_delivery_slot_loan); default 3, negative for none. They are
	// charged all the same.
	SlotLoan int
	// SlotDiscount is how many percent of the slots that a message needs it is
	// lent (default_delivery_slot_discount); default 50, negative for none, at
	// most 100.
	SlotDiscount int
	// MinimumSlots is the number of slots a message must be able to earn in all to be
	// overtaken (default_minimum_delivery_slots); default 3, negative for none.
	MinimumSlots int
	// RecipientPool is the number of recipients of messages that are not wholly in
	// core the transport may have there (default_recipient_limit); default
	// 20000, negative for none.
	RecipientPool int
	// ExtraRecipients is the pool for messages that preempt another before they
	// are wholly in core (default_extra_recipient_limit); default 1000, negative
	// for none.
	ExtraRecipients int
	// RefillLimit is the number of recipients of a message that must fit before more of
	// them are read while it still has some in core
	// (default_recipient_refill_limit); default 100.
	RefillLimit int
	// RefillDelay is after which time fewer are read
	// (default_recipient_refill_delay); default 5 s, negative for none.
	RefillDelay time.Duration
	// Agents says who decides that a delivery may start.
	Agents Agents
	// MergeDomains lets recipients of different domains share a transaction where
	// the domains share a site; default no. Set it for sites that are known to
	// take them, such as a provider with many customers' domains.
	MergeDomains bool
	// PerRecipientQueues makes every recipient a destination of its own if
	// RecipientLimit is 1, as Postfix does: windows, rates and death are then
	// per recipient.
	PerRecipientQueues bool
	// Window is how the concurrency of one destination adapts. Its Limit
	// (default_destination_concurrency_limit) defaults to 20 and its
	// FailedCohortLimit (default_destination_concurrency_failed_cohort_limit) to
	// 1; negative means none and never.
	Window window.Config
	// Connections is how connections are made and kept, where Agents is
	// AgentsConnections. Its Limit is ProcessLimit, whatever it says here.
	Connections conns.GroupConfig
	// UnknownOutcome is what becomes of a message that was sent to its end and
	// whose verdict did not come.
	UnknownOutcome UnknownOutcome
	// FeedbackDebug asks for a Feedback action whenever a window of this transport
	// changes (destination_concurrency_feedback_debug).
	FeedbackDebug bool
	// RateDelay is the pause after each delivery to the same destination
	// (default_destination_rate_delay); it implies a concurrency of 1.
	// Default 0: none.
	RateDelay time.Duration
	// Rate bounds the messages to the same destination by time
	// (default_destination_rate), TransportRate those of the transport
	// (default_transport_rate). Default: no bounds.
	Rate, TransportRate rate.Limits
	// TransportRateDelay is the pause before each delivery over the transport,
	// whatever its destination (default_transport_rate_delay); it implies one
	// delivery at a time. Default 0: none. Set it for a provider that limits what
	// all of its customers' domains get from one client. With AgentsConnections the
	// first delivery need not wait, and what goes next is the mail for which a
	// connection is ready, one at a time being opened.
	TransportRateDelay time.Duration
}

// Agents says who decides that a delivery may start on a transport.
type Agents uint8

const (
	AgentsOwn     Agents = iota // the core, as far as ProcessLimit allows
	AgentsOffered               // the host, by an AgentReady for each
	// AgentsConnections: the core, by the connections that it has opened (Resolve,
	// Dial, Send, Hangup). ProcessLimit bounds these.
	AgentsConnections
)

// UnknownOutcome is a policy for messages that the next hop may have taken or
// not: the connection was lost between the end of the content and the reply to it
// (RFC 1047).
type UnknownOutcome uint8

const (
	UnknownResend UnknownOutcome = iota // try again later: rather twice than never
	UnknownHold                         // set the message aside for an operator to decide
)

// String returns the policy's name.
func (u UnknownOutcome) String() string { return [...]string{"resend", "hold"}[u] }

// UnknownReason is why messages are held by UnknownHold.
const UnknownReason = "outcome unknown: the next hop may have taken the message or not"

// pool is what all connections share.
func (c *Config) pool() conns.Config {
	return conns.Config{Limit: c.ConnectionLimit, MessageLimit: c.MessageConcurrency, Scale: max(c.ConcurrencyScale, 0)}
}

// group is how the transport's connections are made and kept.
func (t *TransportConfig) group() conns.GroupConfig {
	g := t.Connections
	g.Limit = t.ProcessLimit
	return g
}

// WithDefaults returns the configuration with every zero field replaced by its
// default. Doing it twice changes nothing more. The result shares no memory with c.
func (c Config) WithDefaults() Config {
	c.ActiveLimit = cmp.Or(c.ActiveLimit, 20_000)
	c.RecipientLimit = cmp.Or(c.RecipientLimit, max(20_000, c.ActiveLimit))
	c.RecipientMinimum = cmp.Or(c.RecipientMinimum, 10)
	c.LookupLimit = cmp.Or(c.LookupLimit, 100)
	c.ConnectionLimit = cmp.Or(c.ConnectionLimit, 2000)
	c.TenantFlows = cmp.Or(c.TenantFlows, 1024)
	c.Hosts = c.Hosts.WithDefaults()
	c.Addresses = c.Addresses.WithDefaults()
	c.MessageConcurrency = cmp.Or(c.MessageConcurrency, 20)
	c.ConcurrencyScale = cmp.Or(c.ConcurrencyScale, 10)
	c.VerifyLimit = cmp.Or(c.VerifyLimit, 10)
	c.VerifyNetworkLimit = cmp.Or(c.VerifyNetworkLimit, 2)
	c.VerifyDeadline = cmp.Or(c.VerifyDeadline, 5*time.Second)
	c.FudgeFactor = cmp.Or(c.FudgeFactor, 100)
	c.ActionsPerStep = cmp.Or(c.ActionsPerStep, 1000)
	c.TransportRetryTime = cmp.Or(c.TransportRetryTime, 60*time.Second)
	c.Backoff = c.Backoff.WithDefaults()
	c.DefaultTransport = c.DefaultTransport.withDefaults()
	transports := make(map[string]TransportConfig, len(c.Transports))
	for name, t := range c.Transports { //archtest:anyorder a copy of a map is the same in any order
		transports[name] = t.withDefaults()
	}
	c.Transports = transports
	c.Destinations = slices.Clone(c.Destinations)
	for i := range c.Destinations {
		c.Destinations[i] = c.Destinations[i].Clone()
	}
	c.Shares = c.Shares.Clone()
	c.Sources = c.Sources.Clone()
	c.Warmup = c.Warmup.WithDefaults()
	return c
}

func (t TransportConfig) withDefaults() TransportConfig {
	t.Connections = t.Connections.WithDefaults()
	t.ProcessLimit = cmp.Or(t.ProcessLimit, 100)
	t.RecipientLimit = cmp.Or(t.RecipientLimit, 50)
	t.SlotCost = cmp.Or(t.SlotCost, 5)
	t.SlotLoan = cmp.Or(t.SlotLoan, 3)
	t.SlotDiscount = cmp.Or(t.SlotDiscount, 50)
	t.MinimumSlots = cmp.Or(t.MinimumSlots, 3)
	t.RecipientPool = cmp.Or(t.RecipientPool, 20_000)
	t.ExtraRecipients = cmp.Or(t.ExtraRecipients, 1000)
	t.RefillLimit = cmp.Or(t.RefillLimit, 100)
	t.RefillDelay = cmp.Or(t.RefillDelay, 5*time.Second)
	t.Window.Limit = cmp.Or(t.Window.Limit, 20)
	t.Window.FailedCohortLimit = cmp.Or(t.Window.FailedCohortLimit, 1)
	t.Window = t.Window.WithDefaults()
	if t.RateDelay > 0 {
		t.Window.Limit, t.Window.Initial = 1, 1
	}
	return t
}

// Validate returns everything that is wrong with a configuration that has its
// defaults.
func (c Config) Validate() error {
	var wrong mistakes.List
	atLeastOne := func(what string, v int) { wrong.Unless(v >= 1, "%s is %d: want at least 1", what, v) }
	atLeastOne("qmgr_message_active_limit", c.ActiveLimit)
	atLeastOne("qmgr_message_recipient_limit", c.RecipientLimit)
	atLeastOne("qmgr_message_recipient_minimum", c.RecipientMinimum)
	atLeastOne("lookup_limit", c.LookupLimit)
	atLeastOne("max_message_concurrency", c.MessageConcurrency)
	atLeastOne("connection_limit", c.ConnectionLimit)
	atLeastOne("flows of one tenant", c.TenantFlows)
	atLeastOne("verify_limit", c.VerifyLimit)
	atLeastOne("verify_network_limit", c.VerifyNetworkLimit)
	wrong.Unless(c.VerifyDeadline >= 0, "verify_deadline is %v: want more than 0", c.VerifyDeadline)
	atLeastOne("qmgr_fudge_factor", c.FudgeFactor)
	atLeastOne("actions per step", c.ActionsPerStep)
	wrong.Unless(c.TransportRetryTime >= 0, "transport_retry_time is %v: want more than 0", c.TransportRetryTime)
	_, err := shape.NewTable(c.Destinations)
	wrong.Add(err, c.Addresses.Validate(), c.Hosts.Validate(), c.Shares.Validate(), c.Sources.Validate(), c.Warmup.Validate(), c.Backoff.Validate())
	wrong.AddOf("transport default", c.DefaultTransport.validate())
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		wrong.AddOf("transport "+name, c.Transports[name].validate())
	}
	return wrong.Join()
}

func (t TransportConfig) validate() error {
	var wrong mistakes.List
	wrong.Unless(t.ProcessLimit >= 1, "process_limit is %d: want at least 1", t.ProcessLimit)
	wrong.Unless(t.RecipientLimit >= -1, "destination_recipient_limit is %d: want at least 1, or -1 for no limit", t.RecipientLimit)
	wrong.Unless(t.RefillLimit >= 1, "recipient_refill_limit is %d: want at least 1", t.RefillLimit)
	wrong.Unless(t.Scheduler <= sched.Runner, "scheduler %d is unknown", uint8(t.Scheduler))
	wrong.Unless(t.SlotDiscount <= 100, "delivery_slot_discount is %d: want at most 100 percent", t.SlotDiscount)
	wrong.Unless(t.RateDelay >= 0, "destination_rate_delay is %v: want 0 or more", t.RateDelay)
	wrong.Add(t.Connections.Validate())
	wrong.Unless(t.TransportRateDelay >= 0, "transport_rate_delay is %v: want 0 or more", t.TransportRateDelay)
	w := t.Window
	w.Limit, w.FailedCohortLimit = max(w.Limit, 0), max(w.FailedCohortLimit, 0) // negative means none
	wrong.Add(w.Validate())
	return wrong.Join()
}

// completed returns a configuration with its defaults, and the table of its destinations; or
// all that is wrong with it.
func (c Config) completed() (Config, *shape.Table, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return c, nil, err
	}
	shapes, err := shape.NewTable(c.Destinations)
	return c, shapes, err
}

// transport returns the limits of a transport as the core uses them: where the
// configuration has a negative value for "none", they have 0.
func (c *Config) transport(name string) TransportConfig {
	t, ok := c.Transports[name]
	if !ok {
		t = c.DefaultTransport
	}
	for _, field := range []*int{&t.SlotLoan, &t.SlotDiscount, &t.MinimumSlots, &t.RecipientPool, &t.ExtraRecipients,
		&t.Window.Limit, &t.Window.FailedCohortLimit} {
		*field = max(*field, 0)
	}
	t.RefillDelay = max(t.RefillDelay, 0)
	if internal := name == TransportRetry || name == TransportError; internal && t.Agents == AgentsConnections {
		t.Agents = AgentsOwn // their nexthops are replies, not hosts
	}
	return t
}

// A Scheduler is a way to choose what is delivered next (package sched).
type Scheduler = sched.Scheduler

// The schedulers are explained in package sched.
const (
	Preemptive = sched.Preemptive
	RoundRobin = sched.RoundRobin
	Runner     = sched.Runner
)
