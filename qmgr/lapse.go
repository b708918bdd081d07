package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
)

// Mail may be held until an instant that is part of its state and of its place in the index, so
// finding those whose time is up costs as much as there are of them. Mail that its sender has
// kept (RFC 4865) is put into the deferred area then, due at once, and comes into core like mail
// that is tried again: a flush, or a retry of all mail, does not try it sooner.
//
// Double bounces that were set aside for the operator are not kept for ever, or a
// server that gets much spam would fill its disk with them. Each is held until an
// instant, and removed then. What an operator holds has no
// such instant; neither has what was held by versions that did not know of it.

// lapsed is the text of the note about a double bounce that is removed.
const lapsed = "held double bounce removed"

// heldUntil is when a double bounce that is held now is removed: it waits for the
// operator as long as bounces wait for their receiver.
func (q *Qmgr) heldUntil() mail.Instant {
	b := &q.cfg.Backoff
	life := min(b.BounceQueueLifetime, b.MaximalQueueLifetime)
	if life <= 0 {
		life = b.MaximalQueueLifetime
	}
	if life <= 0 || q.cfg.AsPostfix {
		return 0
	}
	return q.now.Add(life)
}

// lapse removes held mail whose time has come. Each removal is conditional on what
// the spool has, for an operator may have held the message since it was found; an
// order that comes meanwhile waits for the answer.
func (q *Qmgr) lapse() {
	if q.halt || q.cfg.AsPostfix {
		return
	}
	if q.orders.LookHeld(q.admission.Due(ScanHeld, q.now), q.now) {
		q.admission.LookHeld()
	}
	for q.orders.MayLapse() && q.admission.Has(ScanHeld) && q.mayStart() {
		c, _ := q.admission.Take(ScanHeld, 0)
		id := c.ID
		if !q.rests(id) {
			continue // it is found again when it comes to rest
		}
		q.orders.Lapse(id)
		q.emit(Change{mail.Change{Op: mail.ChangeLapse, ID: id, At: q.now}})
	}
	q.fetch(ScanHeld)
}
