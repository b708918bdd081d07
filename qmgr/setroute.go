package qmgr

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
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

// indexes are recipients of one message, sorted, each once. An empty list is nil.
type indexes []uint32

// with returns the recipients of two lists.
func (x indexes) with(y indexes) indexes {
	if len(y) == 0 {
		return x
	}
	return sorted(slices.Concat(x, y))
}

// sorted makes indexes of a list, which it changes.
func sorted(list []uint32) indexes {
	slices.Sort(list)
	return slices.Compact(list)
}

func (x indexes) has(index uint32) bool {
	_, found := slices.BinarySearch(x, index)
	return found
}

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
	q.settleOne(ev.ID, settling{reroutes: []mail.Reroute{r}})
}

// rerouted returns the recipients that go elsewhere.
func (s *settling) rerouted() (list indexes) {
	for _, r := range s.reroutes {
		list = append(list, r.Recipients...)
	}
	return sorted(list)
}

// at returns what is left of a wish for a message that rests at a place: recipients are tried only
// where mail is tried.
func (w wish) at(p mail.Place) wish {
	if p.Area != mail.AreaIncoming && p.Area != mail.AreaDeferred {
		w.chosen = nil
	}
	return w
}

// retryOf has a message tried, or some of its recipients, as a candidate demands.
func (w *wish) retryOf(c *intake.Candidate, chosen indexes) {
	if c.Some {
		w.choose(chosen)
		return
	}
	w.add(orderRetry, "")
}

// retrySome has some recipients of a message at rest tried as soon as there is room in core.
func (q *Qmgr) retrySome(id mail.QueueID, some indexes) {
	if w, busy := q.moving[id]; busy {
		w.choose(some)
		q.moving[id] = w
		return
	}
	if _, named := q.chosen[id]; !named {
		q.admission.RetrySome(id)
	}
	q.chosen[id] = q.chosen[id].with(some)
}

// takeChosen returns the recipients of a candidate that are to be tried, nil for all.
func (q *Qmgr) takeChosen(c *intake.Candidate) indexes {
	if !c.Some {
		return nil
	}
	some := q.chosen[c.ID]
	assert.That(len(some) > 0, "no recipients of %v are chosen", c.ID)
	delete(q.chosen, c.ID)
	return some
}

// chosenOf returns the part of a batch that is to be tried in this round.
func (q *Qmgr) chosenOf(m *message, b mail.RecipientBatch) mail.RecipientBatch {
	if m.chosen == nil {
		return b
	}
	var some []mail.Recipient
	for _, r := range b.Recipients {
		if m.chosen.has(r.Index) {
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
func (m *message) triedSome() bool { return m.chosen != nil && m.order == orderNone }

// othersDue returns when a message is due after a round for some of its recipients, who are due at an instant: not
// later than it was for the others.
func (q *Qmgr) othersDue(m *message, due mail.Instant) mail.Instant {
	if m.chosen == nil {
		return due
	}
	return min(due, max(m.place.Due, q.now))
}

// checkChosen panics if it is not known of a named message which recipients are to be tried.
func (q *Qmgr) checkChosen() {
	named := q.admission.NamedSome()
	assert.That(named == len(q.chosen), "recipients of %d messages are chosen, and %d are named", len(q.chosen), named)
	for id, some := range q.chosen { //archtest:anyorder assertions
		assert.That(len(some) > 0 && slices.IsSorted(some), "the recipients %v of %v are chosen", some, id)
	}
	for _, m := range q.messages { //archtest:anyorder assertions
		assert.That(m.chosen == nil || m.from == intake.FromRetry, "recipients of %v are chosen, which has come from %d", m.ID, m.from)
	}
}
