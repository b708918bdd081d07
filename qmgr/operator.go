package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// orderAll carries out an operator's order for messages wherever they are.
func (q *Qmgr) orderAll(ids []mail.QueueID, o order, reason string) {
	for _, id := range ids {
		q.orderOne(id, o, reason)
	}
}

func (q *Qmgr) orderOne(id mail.QueueID, o order, reason string) {
	m := q.messages[id]
	switch {
	case m == nil:
		q.orderResting(id, o, reason)
	case m.callout != nil:
		if o == orderHold || o == orderDrop {
			q.giveUp(m)
		}
	case m.stage == stageClosing:
		// It leaves with what was decided; then the order finds it at rest.
		m.again.add(o, reason)
	case m.order == orderCorrupt && o != orderDrop:
		// Recipients that could not be read are not known to be left: only the
		// corrupt area keeps them.
		m.again.add(o, reason)
	case o == orderHold || o == orderDrop:
		m.order, m.reason, m.again = o, reason, wish{}
		q.withdraw(m)
		q.attend(m)
	case o == orderRelease && (m.stage == stageOpening || m.place.Area == mail.AreaHold):
		// It is, or may be, held: it is opened for its report, or because of a retry.
		m.again.add(o, reason)
	case m.order == orderHold:
		m.again.add(o, reason) // it is on its way to the hold area
	case o == orderRetry && (m.forReport() || m.chosen != nil && m.stage == stageRunning):
		m.again.add(o, reason)
	case o == orderRetry:
		if m.stage == stageOpening && m.from != intake.FromDebt {
			q.comesFrom(m, intake.FromRetry)
			m.reset, m.chosen = q.conns.ResetRetries(), nil
		}
		q.reviveFor(m)
	}
}

// A wish is what operators want done with a message once the change that is under
// way for it, or the last one of its round, is durable. The zero wish is for
// nothing.
type wish struct {
	settling settling // first, some recipients are given up
	order    order    // orderHold, orderDrop or orderRelease: the last one counts
	reason   string   // why, for orderHold
	retry    bool     // and then it is tried
	chosen   indexes  // otherwise, these recipients are
	lapse    bool     // the change under way removes it from the hold area
	report   bool     // its sender receives a report, though other recipients wait
}

// add adds an order to those given before. Hold and drop make void what was to
// happen before them; a release leaves a message where it can be tried.
func (w *wish) add(o order, reason string) {
	if o == orderRetry {
		w.retry = true
		return
	}
	chosen := w.chosen
	if o != orderRelease {
		chosen = nil
	}
	*w = wish{settling: w.settling, order: o, reason: reason, retry: w.retry && o == orderRelease, chosen: chosen, lapse: w.lapse, report: w.report}
}

// choose has some recipients tried.
func (w *wish) choose(some indexes) { w.chosen = w.chosen.with(some) }

// empty reports whether nothing is wished.
func (w *wish) empty() bool {
	return w.settling.empty() && w.order == orderNone && !w.retry && len(w.chosen) == 0 && !w.report
}

// A pendingWish will be carried out before the Step goes on.
type pendingWish struct {
	id mail.QueueID
	wish
}

// wish has advanceAll carry out what was wished for a message that is at rest now.
func (q *Qmgr) wish(id mail.QueueID, w wish) {
	if !w.empty() {
		q.wishes = append(q.wishes, pendingWish{id, w})
	}
}

// fulfillAll carries out what was wished for messages that are at rest now.
func (q *Qmgr) fulfillAll() {
	for len(q.wishes) > 0 {
		w := q.wishes[0]
		q.wishes = q.wishes[1:]
		q.fulfill(w.id, w.wish)
	}
}

// fulfill carries out what was wished for a message that is at rest now.
func (q *Qmgr) fulfill(id mail.QueueID, w wish) {
	q.settleOne(id, w.settling)
	if w.order != orderNone {
		q.orderOne(id, w.order, w.reason)
	}
	switch {
	case w.retry:
		q.orderOne(id, orderRetry, "")
	case len(w.chosen) > 0:
		q.retrySome(id, w.chosen)
	}
	if w.report {
		q.debts.Owe(id)
	}
}

// orderResting carries out an order for a message that is not in core.
func (q *Qmgr) orderResting(id mail.QueueID, o order, reason string) {
	q.admission.Name(id)
	if w, busy := q.moving[id]; busy { // at most one change at a time
		w.add(o, reason)
		q.moving[id] = w
		return
	}
	if o == orderRetry {
		q.admission.Retry(id)
		return
	}
	q.moving[id] = wish{}
	q.emit(Change{q.restingChange(id, o, reason)})
}

func (q *Qmgr) restingChange(id mail.QueueID, o order, reason string) mail.Change {
	c := mail.Change{ID: id, At: q.now, Reason: reason}
	switch o {
	case orderHold:
		c.Op = mail.ChangeHold
	case orderDrop:
		c.Op = mail.ChangeRemove
		q.emit(Note{Kind: NoteDropped, ID: id, Text: reason})
	default:
		c.Op, c.Due = mail.ChangeRelease, q.now
	}
	return c
}

// moved takes the answer to the change of a resting message.
func (q *Qmgr) moved(c mail.Changed) {
	next, ok := q.moving[c.ID]
	if !ok {
		q.duplicate(c.ID, "changed")
		return
	}
	delete(q.moving, c.ID)
	if next.lapse {
		q.lapses.underWay--
	}
	if c.Place.Area == mail.AreaNone { // nothing is left to carry a wish out for
		if next.lapse {
			q.emit(Note{Kind: NoteExpired, ID: c.ID, Text: lapsed})
		}
		return
	}
	if next.lapse && c.Place.Area == mail.AreaDeferred {
		q.emit(Note{Kind: NoteReleased, ID: c.ID})
	}
	q.admission.Appeared(c.ID, c.Place)
	q.wish(c.ID, next.at(c.Place))
}

// withdraw takes back everything of a message that has not been started. Its
// recipients stay as they are in the spool.
func (q *Qmgr) withdraw(m *message) {
	m.left = m.left || m.More || len(m.unrouted) > 0
	q.withdrawLookups(m)
	for e := range m.Waiting() {
		m.left = true
		q.finish(e)
	}
	m.RetireIdle()
}

// retryTriedSince forgets all dead transports and destinations, and starts a scan of
// everything that is deferred and was tried last at an instant or later. A scan that is
// under way begins again. An instant other than 0 is not given then, since that scan
// might want more.
func (q *Qmgr) retryTriedSince(since mail.Instant) {
	reset := q.conns.ResetRetries()
	for t := range q.ring.All() {
		q.restore(t)
		for _, d := range sortedQueues(t) {
			if d.window.State() == window.Dead && (since == 0 || !d.resting(q.now)) { // our own network's return ends no rest
				d.reset = reset
				q.revive(d, CauseRevival)
				q.freeIfIdle(d)
			}
		}
	}
	assert.That(since == 0 || !q.admission.UnderWay(ScanFlush), "a scan for what was tried since %v takes the place of another", since)
	if since == 0 {
		q.endRests()
	}
	q.admission.FlushAll(intake.Flush{Asked: q.now, Since: since, Reset: reset})
}

// reviveFor forgets that transports and destinations of a message are dead.
func (q *Qmgr) reviveFor(m *message) {
	reset := q.conns.ResetRetries()
	for l := range m.Lanes() {
		q.restore(transportOf(l))
	}
	for p := range m.Peers() {
		if d := queueOf(p.Destination); d.window.State() == window.Dead {
			d.reset = reset
			q.revive(d, CauseRevival)
		}
	}
}
