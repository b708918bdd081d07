package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
)

// An operator can have recipients go where the configuration would not send them: through another
// relay while a receiver's is down, or to nowhere. The order is kept with each recipient in the spool,
// and comes back with it when the message is read; so it survives a restart, and the core only passes it on
// to the host that finds routes. What is in core goes the way of settlings: the round ends,
// the change is its last one, and the message is read again.
//
// A message that was deferred would only be tried by its new route when it is due, which may be hours
// away. So those recipients are tried at once. The others of the message are not: the round
// is for the chosen recipients alone, and if it does not settle them the message is due when it
// would have been, or earlier. A round for all, as after a Retry, was considered. It would ask the hosts of
// the others again for each order, and after a hundred orders about a hundred domains a hundred times.

// setRoute has some recipients of a message go elsewhere, wherever it is.
func (q *Qmgr) setRoute(ev SetRoute) {
	r := ev.Reroute
	if len(r.Recipients) == 0 {
		return
	}
	r.Recipients = slices.Clone(r.Recipients)
	if r.To != nil {
		to := *r.To
		if to.At == 0 {
			to.At = q.now
		}
		r.To = &to
	}
	q.settleOne(ev.ID, orders.Settling{Reroutes: []mail.Reroute{r}})
}

// retryOf has a message tried, or some of its recipients, as a candidate demands.
func retryOf(w *orders.Wish, c *intake.Candidate, chosen orders.Indexes) {
	if c.Some {
		w.Choose(chosen)
		return
	}
	w.Add(orders.Retry, "")
}

// retrySome has some recipients of a message at rest tried as soon as there is room in core.
func (q *Qmgr) retrySome(id mail.QueueID, some orders.Indexes) {
	if !q.orders.Then(id, func(w *orders.Wish) { w.Choose(some) }) && !q.orders.Choose(id, some, q.now) {
		q.admission.RetrySome(id)
	}
}

// chosenOf returns the recipients of a batch that this round tries.
func (q *Qmgr) chosenOf(m *message, b mail.RecipientBatch) mail.RecipientBatch {
	if m.chosen == nil {
		return b
	}
	var some []mail.Recipient
	for _, r := range b.Recipients {
		if m.chosen.Has(r.Index) {
			some = append(some, r)
		} else {
			m.left = true
		}
	}
	b.Recipients = some
	if last := m.chosen[len(m.chosen)-1]; b.More && b.Next > last {
		b.More, m.left = false, true
	}
	return b
}

// triedSome reports whether the round is for some recipients, and nothing else ends it.
func (m *message) triedSome() bool { return m.chosen != nil && m.order == orders.None }

// othersDue returns when a message is due after a round for some of its recipients, who are due at an instant: not
// later than it was for the others.
func (q *Qmgr) othersDue(m *message, due mail.Instant) mail.Instant {
	if m.chosen == nil {
		return due
	}
	return min(due, max(m.place.Due, q.now))
}

// checkOrders panics if the recipients to try are not known of each named message.
func (q *Qmgr) checkOrders() {
	q.orders.Check(q.admission.NamedSome())
	for _, m := range q.messages { //archtest:anyorder assertions
		assert.That(m.chosen == nil || m.from == intake.FromRetry, "recipients of %v are chosen, which has come from %d", m.ID, m.from)
	}
}
