package qmgr

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
)

// The queue in which mail waits follows from its route, of which the demand on connections is a part. When
// a reload has changed routes, or demands more of some receivers, mail in core would go on to leave
// by the old route for as long as it is not deferred: hours, if there is much of it. So all that waits, for
// a connection, an agent or a lookup, is routed again. What is under way ends as it began, and is routed again if it comes
// back untried; so is the answer to a lookup that began before.

// A rerouting is what was begun by routes that are not in force any more.
type rerouting struct {
	lookup LookupID // the last that had begun; 0 if none had
	entry  EntryID  // the last that had been started
}

// reroute has all mail that waits routed again.
func (q *Qmgr) reroute() {
	q.rerouted = rerouting{q.lookups.Last(), q.lastEntry}
	q.suspended.AgainByRoute(q.now)
	var all []*message
	for _, m := range q.messages { //archtest:anyorder they are sorted
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *message) int { return cmp.Compare(a.serial, b.serial) })
	for _, m := range all {
		q.routeAgain(m)
	}
}

// routeAgain asks anew where the waiting recipients of a message go; when the
// answers have come that are outstanding, for they may be old. A lookup that they wait for is one of the old nexthop.
func (q *Qmgr) routeAgain(m *message) {
	if m.callout != nil || m.stage != stageRunning || m.order != orders.None {
		return
	}
	if m.outdated = m.awaits&(awaitsRead|awaitsRoute) != 0; m.outdated {
		return
	}
	for e := range m.Waiting() {
		if !queueOf(e.Destination()).hasRoute() {
			continue
		}
		m.unrouted = append(m.unrouted, e.Recipients...)
		m.Unbound += len(e.Recipients)
		q.hold(m, len(e.Recipients))
		q.finish(e)
	}
	found := len(m.unrouted)
	m.unrouted = q.lookups.Recall(&m.routing, m.unrouted)
	m.Unbound += len(m.unrouted) - found
	if len(m.unrouted) == 0 {
		return
	}
	m.Touch()
	m.RetireIdle()
	q.askRoutes(m)
}

// hasRoute reports whether mail is in the queue because of its route: not because it is put off or refused, which
// agents are about to carry out.
func (q *queue) hasRoute() bool {
	return q.site != nil || q.transport.Name != TransportRetry && q.transport.Name != TransportError
}

// askRoutes asks where the unrouted recipients of a message go.
func (q *Qmgr) askRoutes(m *message) {
	m.await(awaitsRoute)
	q.emit(Route{ID: m.ID, Recipients: append([]mail.Recipient(nil), m.unrouted...), Sender: q.routeSender(m), TLS: m.env.TLSAsked()})
}

// update has a message routed again that could not be before.
func (q *Qmgr) update(m *message) {
	if m.outdated {
		q.routeAgain(m)
	}
}

// lookUpAgain has a job's recipients looked up again.
func (q *Qmgr) lookUpAgain(m *message, j *intake.Job) {
	for _, r := range j.Recipients {
		q.lookups.Add(&m.routing, &m.Message, m.from, r, j.Lookup().Key, q.now)
	}
}
