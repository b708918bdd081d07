package qmgr

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/best"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/directory"
	"github.com/posthaste-mta/posthaste/qmgr/views"
)

// View returns a snapshot, with at most maxQueues destinations for each
// transport, those with the most waiting entries; 0 means none. It takes time
// in proportion to the number of destinations.
func (q *Qmgr) View(maxQueues int) View {
	v := View{Now: q.now, Messages: q.room.Mails(), Recipients: q.room.Recipients.InCore(), Busy: len(q.busy), Named: q.admission.Named(),
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
		v.Until = t.outage.timer.At()
	}
	if maxQueues == 0 {
		return v
	}
	most := best.Of[*queue]{Most: maxQueues, Compare: byTodo}
	for d := range t.destinations() {
		most.Add(d)
		one := d.view()
		one.Condition = q.condition(d)
		v.All.Add(&one)
	}
	for _, d := range most.Sorted() {
		v.Queues = append(v.Queues, q.queueView(d))
	}
	slices.SortFunc(v.Queues, views.Compare)
	return v
}

func byTodo(a, b *queue) int {
	return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), compareNames(a, b))
}

// compareNames orders the queues of a transport.
func compareNames(a, b *queue) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.source.String(), b.source.String()), cmp.Compare(a.security, b.security), cmp.Compare(a.avoids, b.avoids))
}

func (d *queue) view() QueueView {
	w := d.whole()
	v := QueueView{Nexthop: d.nexthop, Source: d.source.String(), Security: d.security, Instead: d.instead, State: w.window.State(), Window: d.share(), Busy: d.Busy,
		Todo: d.Waiting, Reason: w.reason, Connections: d.site.View(), Outcomes: d.outcomes}
	if w.timer.Running() {
		v.Until = w.timer.At()
	}
	return v
}

// queueView is view, completed by what keeps its mail waiting.
func (q *Qmgr) queueView(d *queue) QueueView {
	v := d.view()
	v.Condition, v.WaitReason = q.condition(d), q.waitReason(d)
	d = d.whole()
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
	if t := q.transports[transport]; t != nil {
		if d := t.queues.Get(directory.Key{Name: nexthop, Source: source, Security: security}); d != nil {
			return d.view(), true
		}
	}
	return QueueView{}, false
}

// Idle reports whether there is nothing left to try, now or later: no message is in
// core or on its way there, and none in the spool waits for its time. Held
// messages do not count, nor does one of which the host has not told yet.
func (q *Qmgr) Idle() bool {
	return q.room.Mails() == 0 && q.lookups.Parked() == 0 && q.orders.Idle() && q.admission.Idle() && q.debts.Idle()
}

// InCore reports whether a message is in core: being tried, or about to be.
func (q *Qmgr) InCore(id mail.QueueID) bool { return q.messages[id] != nil }

// Busy reports whether a message is in core, or a change of it that an operator has ordered is not durable yet. Otherwise
// all that was ordered for it before has taken effect, and is durable.
func (q *Qmgr) Busy(id mail.QueueID) bool {
	return q.orders.Moving(id) || q.messages[id] != nil
}

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

func sortedQueues(t *transport) []*queue {
	return slices.SortedFunc(t.destinations(), compareNames)
}
