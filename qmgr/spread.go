package qmgr

import (
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/spread"
)

// Entries of one recipient cannot be cut as those of a volley are. Their starts are spread: after each there is a pause, as long as
// package spread says. It is done for mail that is classified, over connections.

// spreading is a destination's part in this. Invariant: the timer runs during a pause, and only then.
type spreading struct {
	spread.Spreading
	pause timer
}

// spread begins the pause after a start, if more is waiting.
func (q *Qmgr) spread(d *queue) {
	if d.Waiting == 0 {
		return
	}
	if gap := d.spreading.Begin(d.Busy, d.Room()); gap > 0 {
		q.timers.Start(&d.spreading.pause, q.now.Add(gap))
		d.touch()
	}
}

// spare notes that a delivery has ended. If that is during a pause, its slot waits for the rest of it, if
// there is credit.
func (q *Qmgr) spare(d *queue) {
	s := &d.spreading
	if s.Pausing() && !s.Spare(s.pause.At().Sub(q.now)) {
		q.timers.Stop(&s.pause)
		q.spreadOn(d)
	}
}

// spreadOn ends the pause.
func (q *Qmgr) spreadOn(d *queue) {
	d.spreading.Over()
	d.touch()
}

// stagger cuts an entry that is about to start, if it is part of a volley to a
// destination that has more waiting than it can take. Where the host offers the agents, it is left to the host.
func (q *Qmgr) stagger(e *sched.Entry) {
	d, n := queueOf(e.Destination()), len(e.Recipients)
	keep := d.volley.Start(n, d.limits.recipients, d.window.Size(), d.Waiting)
	if keep < n && d.transport.cfg.Agents != AgentsOffered && !q.cfg.AsPostfix {
		e.Cut(keep)
	}
}
