package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
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

const (
	// lapsed is the text of the note about a double bounce that is removed.
	lapsed = "held double bounce removed"
	// firstLapse is the time from the start to the first look for mail to
	// remove; there is more urgent work before. It is no reason to wake up.
	firstLapse = time.Hour
	// lapsingMost is the number of removals that are made durable at once: enough to fill a
	// commit, few enough that those of other mail do not wait behind all of them.
	lapsingMost = 256
)

// lapses is the queue manager's part in this.
type lapses struct {
	underWay int          // removals that are being made durable
	begun    bool         // there was a Step
	first    mail.Instant // begun: when to look for mail to remove first; Never if that was done
}

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
	if !q.lapses.begun {
		q.lapses.begun, q.lapses.first = true, q.now.Add(firstLapse)
	}
	if q.lapses.first <= q.now || q.admission.Due(ScanHeld, q.now) {
		q.lapses.first = mail.Never
		q.admission.LookHeld()
	}
	for q.lapses.underWay < lapsingMost && q.admission.Has(ScanHeld) && q.mayStart() {
		c, _ := q.admission.Take(ScanHeld, 0)
		id := c.ID
		if !q.rests(id) {
			continue // it is found again when it comes to rest
		}
		q.moving[id] = wish{lapse: true}
		q.lapses.underWay++
		q.emit(Change{mail.Change{Op: mail.ChangeLapse, ID: id, At: q.now}})
	}
	q.fetch(ScanHeld)
}

// checkLapses panics if removals are counted wrongly.
func (q *Qmgr) checkLapses() {
	lapsing := 0
	for _, w := range q.moving { //archtest:anyorder a sum
		if w.lapse {
			lapsing++
		}
	}
	assert.That(lapsing == q.lapses.underWay && lapsing <= lapsingMost, "%d removals of held mail are under way, counted %d", lapsing, q.lapses.underWay)
}
