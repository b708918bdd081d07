package qmgr

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// What connections must be like is a part of a route, and so of the queue in which mail waits. When
// that has changed, by a reload that demands more of some receivers, mail in core would go on to leave
// by the old demand for as long as it is not deferred: hours, if there is much of it. So all that waits for
// connections is routed again. What is under way ends as it began, and is routed again if it comes
// back untried; so is the answer to a lookup that began before.

// A rerouting is what was begun by routes that are not in force any more.
type rerouting struct {
	lookup LookupID // the last that had begun; 0 if none had
	entry  EntryID  // the last that had been started
}

// reroute has all mail that waits for connections routed again.
func (q *Qmgr) reroute() {
	q.rerouted = rerouting{q.lookups.Last(), q.lastEntry}
	var all []*message
	for _, m := range q.messages { //archtest:anyorder they are sorted
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *message) int { return cmp.Compare(a.serial, b.serial) })
	for _, m := range all {
		q.routeAgain(m)
	}
}

// routeAgain asks anew where those recipients of a message go that wait for connections; when the
// answers have come that are outstanding, for they may be old.
func (q *Qmgr) routeAgain(m *message) {
	if m.callout != nil || m.stage != stageRunning || m.order != orderNone {
		return
	}
	if m.outdated = m.awaits&(awaitsRead|awaitsRoute) != 0; m.outdated {
		return
	}
	for e := range m.Waiting() {
		if queueOf(e.Destination()).site == nil {
			continue
		}
		m.unrouted = append(m.unrouted, e.Recipients...)
		m.Unbound += len(e.Recipients)
		q.hold(m, len(e.Recipients))
		q.finish(e)
	}
	if len(m.unrouted) == 0 {
		return
	}
	m.Touch()
	m.RetireIdle()
	q.askRoutes(m)
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
