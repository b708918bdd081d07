package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/stock"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/callout"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// A LookupID names one lookup, from Lookup to LookedUp (package intake).
type LookupID = intake.LookupID

// lookups returns how many lookups may be under way.
func (c *Config) lookups() intake.Limits {
	return intake.Limits{Lookups: c.LookupLimit, Message: c.MessageConcurrency, Scale: max(c.ConcurrencyScale, 0),
		Clients: c.VerifyLimit, Network: c.VerifyNetworkLimit}
}

// startLookups begins lookups as long as there is one that may begin.
func (q *Qmgr) startLookups() {
	q.ageLookups()
	for !q.halt {
		turn, ok := q.lookups.Next()
		if !ok || !q.mayStart() {
			return
		}
		l := q.lookups.Begin(turn, q.now)
		q.emit(Lookup{Lookup: l.ID(), For: l.For(), Transport: l.Transport, Nexthop: l.Nexthop, Credential: l.Credential, TLS: l.TLS})
	}
}

// ageLookups has lookups that take long give their slots back, and gives up those that
// take too long.
func (q *Qmgr) ageLookups() {
	for l := q.lookups.Age(q.now, q.room.Scarce()); l != nil; l = q.lookups.Age(q.now, q.room.Scarce()) {
		q.endLookup(l, q.lookups.Abandon(l))
	}
}

// lookedUp takes the answer to a lookup: all who waited for it go on.
func (q *Qmgr) lookedUp(ev LookedUp) {
	l, known := q.lookups.Answered(ev.Lookup, ev.Route.Reply, q.now)
	switch {
	case !known:
		q.duplicate(0, "looked-up")
	case l != nil:
		assert.That(!ev.Route.NeedsLookup, "lookup %d of %s ends with a lookup", ev.Lookup, l.Nexthop)
		q.endLookup(l, ev.Route)
	}
}

// endLookup has all go on who waited for a lookup.
func (q *Qmgr) endLookup(l *intake.Lookup, to mail.Route) {
	q.lookups.End(l, to.Reply, q.now)
	for c := q.lookups.NextQuestion(l); c != nil; c = q.lookups.NextQuestion(l) {
		q.routeKnown(callout.Of(c), to)
	}
	for j := q.lookups.NextJob(l); j != nil; j = q.lookups.NextJob(l) {
		m := messageOf(j.Message())
		if l.ID() <= q.rerouted.lookup {
			q.lookUpAgain(m, j)
			continue
		}
		q.bindJob(m, j, to)
		m.AllRead()
		q.attend(m)
	}
}

// bindJob sends a job's recipients along their route.
func (q *Qmgr) bindJob(m *message, j *intake.Job, to mail.Route) {
	recipients := q.stocks.bound[:0]
	for _, r := range j.Recipients {
		recipients = append(recipients, bound{recipient: r, route: to})
	}
	q.stocks.bound = recipients
	q.assign(m, q.bindEach(m, recipients))
	q.stocks.bound = stock.Emptied(q.stocks.bound)
}

// withdrawLookups takes back what of a message waits for lookups.
func (q *Qmgr) withdrawLookups(m *message) {
	if m.routing.Len() == 0 {
		return
	}
	m.left = true
	q.hold(m, -q.lookups.Withdraw(&m.routing))
	m.Touch()
}
