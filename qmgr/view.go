package qmgr

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/best"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
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
	// RuleSuspensions are the times that a rule on replies has suspended a destination.
	RuleSuspensions uint64
}

// CalledOut is the number of questions about recipients that have ended.
func (c *Counts) CalledOut() (n uint64) {
	for _, of := range c.Callouts {
		n += of
	}
	return n
}

// A View is what the core holds at one moment: a copy, which belongs to the
// caller.
type View struct {
	Now        mail.Instant // of the last step
	Messages   int          // in core
	Recipients int          // in core
	Busy       int          // deliveries under way
	Named      int          // messages that a Retry has named and that have not come into core yet
	Lookups    LookupsView
	Callouts   CalloutsView
	Behind     bool
	Halted     bool
	Counts     Counts
	Transports []TransportView // by name
	// Offline is since when our own network is held to be down; 0 if it is not.
	Offline mail.Instant
	// Closings counts connections that have ended, by mail.CloseReason.
	Closings [mail.CloseWrong + 1]uint64
	// Mixed is the last connection on which a server put something under another
	// envelope (mail.CloseMixed); of Conn 0 if none did.
	Mixed conns.Ending
}

// LookupsView is the lookups of routes that the core has asked for or is going
// to ask for.
type LookupsView struct {
	Busy      int // under way
	Waiting   int // not begun
	Messages  int // that have some that have not begun
	Verifying int // clients that wait to hear whether a recipient can be reached
}

// TransportView is what the core holds of one transport.
type TransportView struct {
	Name      string
	Jobs      int // listed
	Busy      int
	Startable int
	State     TransportState
	Reason    mail.Reply   // why it is TransportDead
	Until     mail.Instant // TransportDead: when it is tried again
	Next      mail.Instant // with a rate delay: when the next delivery starts; 0 if none waits for that
	Queues    []QueueView  // by nexthop
	All       QueueSum     // of all destinations; zero if View was asked for none
	Outcomes  [4]uint64    // recipients by mail.Result, call-outs not included
}

// A QueueSum is what the destinations of a transport have together.
type QueueSum struct {
	Queues, Dead, Suspended int // destinations, and those in these states
	Window, Busy, Todo      int
	Connecting, Ready       int // connections
}

func (s *QueueSum) add(d *queue) {
	s.Queues++
	switch d.window.State() {
	case window.Dead:
		s.Dead++
	case window.Suspended:
		s.Suspended++
	}
	site := d.site.View()
	s.Window += d.window.Size()
	s.Busy += d.Busy
	s.Todo += d.Waiting
	s.Connecting += site.Connecting
	s.Ready += site.Ready
}

// QueueView is what the core holds of one destination.
//
//archtest:fields a copy of what is known, to be read
type QueueView struct {
	Nexthop string
	Source  string // from which its mail leaves; "" where none is chosen
	// Security is what its mail demands of connections; "" is TLS if the host offers it.
	Security string
	Instead  mail.Origin // of TransportRetry: where the mail was to go; zero if it was routed there
	State    window.State
	Window   int
	Busy     int
	Todo     int
	Reason   mail.Reply   // why it is Dead
	Until    mail.Instant // Dead, Suspended: when it is tried again
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

// View returns a snapshot, with at most maxQueues destinations for each
// transport, those with the most waiting entries; 0 means none. It takes time
// in proportion to the number of destinations.
func (q *Qmgr) View(maxQueues int) View {
	v := View{Now: q.now, Messages: q.mails(), Recipients: q.recipients.InCore(), Busy: len(q.busy), Named: q.admission.Named(),
		Lookups: q.lookupsView(), Callouts: q.desk.View(), Behind: q.Behind(), Halted: q.halt, Counts: q.counts,
		Offline: q.conns.Offline(), Closings: q.conns.Closings()}
	v.Mixed, _ = q.conns.Mixed()
	for t := range q.ring.All() {
		v.Transports = append(v.Transports, q.transportView(t, maxQueues))
	}
	slices.SortFunc(v.Transports, func(a, b TransportView) int { return cmp.Compare(a.Name, b.Name) })
	return v
}

func (q *Qmgr) lookupsView() LookupsView {
	v := LookupsView{Verifying: q.desk.Len()}
	v.Busy, v.Waiting, v.Messages = q.lookups.Count()
	return v
}

func (q *Qmgr) transportView(t *transport, maxQueues int) TransportView {
	v := TransportView{Name: t.Name, Jobs: t.Jobs(), Busy: t.Busy, Startable: t.Startable,
		State: t.outage.state, Reason: t.outage.reason, Next: t.delay.next(), Outcomes: t.outcomes}
	if t.dead() {
		v.Until = t.outage.timer.at
	}
	if maxQueues == 0 {
		return v
	}
	most := best.Of[*queue]{Most: maxQueues, Compare: byTodo}
	for d := range t.destinations() {
		most.Add(d)
		v.All.add(d)
	}
	for _, d := range most.Sorted() {
		v.Queues = append(v.Queues, q.queueView(d))
	}
	slices.SortFunc(v.Queues, compareView)
	return v
}

func byTodo(a, b *queue) int {
	return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), compareNames(a, b))
}

// compareNames orders the queues of a transport.
func compareNames(a, b *queue) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.source.name(), b.source.name()), cmp.Compare(a.security, b.security))
}

func compareView(a, b QueueView) int {
	return cmp.Or(cmp.Compare(a.Nexthop, b.Nexthop), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Security, b.Security),
		cmp.Compare(a.Instead.Transport, b.Instead.Transport), cmp.Compare(a.Instead.Nexthop, b.Instead.Nexthop))
}

func (d *queue) view() QueueView {
	v := QueueView{Nexthop: d.nexthop, Source: d.source.name(), Security: d.security, Instead: d.instead, State: d.window.State(), Window: d.window.Size(), Busy: d.Busy,
		Todo: d.Waiting, Reason: d.reason, Connections: d.site.View(), Outcomes: d.outcomes}
	if d.timer.slot.Heaped() {
		v.Until = d.timer.at
	}
	return v
}

// queueView is view, completed by what keeps its mail waiting.
func (q *Qmgr) queueView(d *queue) QueueView {
	v := d.view()
	v.WaitReason = q.waitReason(d)
	if d.resting(q.now) {
		v.Rule = d.measures.Rest.Rule
	}
	if d.lowers(q.now) {
		v.Lowered, v.LoweredUntil = d.measures.Lower.Rule, d.measures.Lower.Until
	}
	return v
}

// Peek returns what the core holds of one destination, from a source and with a demand of
// security, false if it holds nothing. Unlike View it takes constant time, so that a host can look at one
// window after every delivery.
func (q *Qmgr) Peek(transport, nexthop, source, security string) (QueueView, bool) {
	if t := q.transports[transport]; t != nil && t.queues[queueKey{nexthop, source, security}] != nil {
		return t.queues[queueKey{nexthop, source, security}].view(), true
	}
	return QueueView{}, false
}

// Idle reports whether there is nothing left to try, now or later: no message is in
// core or on its way there, and none in the spool waits for its time. Held
// messages do not count, nor does one of which the host has not told yet.
func (q *Qmgr) Idle() bool {
	return q.mails() == 0 && q.lookups.Parked() == 0 && len(q.moving) == 0 && q.admission.Idle() && q.debts.idle()
}

// InCore reports whether a message is in core: being tried, or about to be.
func (q *Qmgr) InCore(id mail.QueueID) bool { return q.messages[id] != nil }

// Flows returns those that have most waiting. It takes time in proportion to the number of
// flows and of the destinations for which they have mail waiting.
func (q *Qmgr) Flows(query FlowQuery) FlowList { return q.flows.View(query) }

// Tenants returns those that have most waiting, at most most of them. It takes time in proportion to the number
// of flows.
func (q *Qmgr) Tenants(most int) TenantList { return q.flows.Tenants(most) }

// tenants yields those of which flows are known, in no order.
func (q *Qmgr) tenants(yield func(tenantKey) bool) {
	q.flows.EachTenant(func(class, tenant string) bool { return yield(tenantKey{class, tenant}) })
}

// A tenantKey is the names of a tenant.
type tenantKey struct{ class, tenant string }

// What can be seen of flows is explained in package flows.
type (
	FlowQuery  = flows.Query
	FlowList   = flows.List
	FlowView   = flows.View
	FlowPlace  = flows.Place
	Sharing    = flows.Sharing
	TenantList = flows.TenantList
	TenantView = flows.TenantView
)

func sortedQueues(t *transport) []*queue {
	queues := make([]*queue, 0, len(t.queues))
	for _, d := range t.queues { //archtest:anyorder sorted below
		queues = append(queues, d)
	}
	slices.SortFunc(queues, compareNames)
	return queues
}
