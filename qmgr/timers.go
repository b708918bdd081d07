package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A timer is the end of the time during which a queue takes no deliveries. Its
// meaning follows from the window's state: a Dead destination is tried again,
// a Suspended one has rested. Messages have no timers: deferred mail waits in
// the spool's index.
type timer struct {
	at    mail.Instant
	seq   uint64
	queue *queue
	slot  minheap.Slot
}

type byInstant struct{}

func (byInstant) Before(a, b *timer) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (byInstant) Slot(t *timer) *minheap.Slot { return &t.slot }

func (q *Qmgr) setTimer(d *queue, at mail.Instant) {
	q.seq++
	d.timer = timer{at: at, seq: q.seq, queue: d}
	q.timers.Push(&d.timer)
}

func (q *Qmgr) stopTimer(d *queue) {
	if d.timer.slot.Heaped() {
		q.timers.Remove(&d.timer)
	}
}

// runTimers ends every rest and back-off that is over, and the connections that
// have been idle for too long or have become too old.
func (q *Qmgr) runTimers() {
	q.hangupAll(q.conns.Surplus(q.now))
	for t := q.timers.Min(); t != nil && t.at <= q.now; t = q.timers.Min() {
		q.timers.PopMin()
		d := t.queue
		switch d.window.State() {
		case window.Dead:
			q.revive(d, CauseRevival)
		case window.Suspended:
			d.window.Resume()
			d.changed()
			d.unblock()
		default:
			assert.Unreachable("timer of %s:%s, which is ready", d.transport.name, d.nexthop)
		}
		q.freeIfIdle(d)
	}
}

// revive makes a dead destination ready again. busy deliveries among them may
// have shown that it works.
func (q *Qmgr) revive(d *queue, cause FeedbackCause) {
	q.stopTimer(d)
	d.window.Revive(&d.transport.cfg.Window, d.busy)
	d.reason = mail.Reply{}
	d.changed()
	q.explain(d, cause)
	q.emit(Note{Kind: NoteAlive, Transport: d.transport.name, Nexthop: d.nexthop})
}

// rest suspends a destination between two deliveries, where a rate delay is
// configured. A dead one is revived first: it rests instead of being dead, as
// in Postfix.
func (q *Qmgr) restAfterDelivery(d *queue) {
	delay := d.transport.cfg.RateDelay
	if delay <= 0 || d.window.State() == window.Suspended {
		return
	}
	if d.window.State() == window.Dead {
		q.revive(d, CauseRevival)
	}
	d.window.Suspend()
	d.changed()
	q.setTimer(d, q.now.Add(delay))
}
