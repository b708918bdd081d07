package sim

import (
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A commit is the disk's writing side: one synced batch at a time.
type commit struct {
	event
	rng   prng.Source
	reads prng.Source
	busy  bool
	batch []qmgr.Action // being synced
	next  []qmgr.Action // waits for the disk
}

// change makes a change durable after the time that the disk takes.
func (w *world) change(action qmgr.Action, c *mail.Change) {
	m := w.spool.message(c.ID)
	for _, k := range w.watch.changes {
		k.change(w.now, m, c)
	}
	if m != nil {
		m.changing = true
	}
	if w.scenario.Disk.Commit.IsZero() {
		w.soon(action)
		return
	}
	w.commit.next = append(w.commit.next, action)
	if !w.commit.busy {
		w.commit.begin(w)
	}
}

func (c *commit) begin(w *world) {
	c.busy = true
	c.batch, c.next = c.next, c.batch[:0]
	w.at(&c.event, c, w.now.Add(w.scenario.Disk.Commit.draw(&c.rng)))
}

// happen ends a batch: all that is in it is durable.
func (c *commit) happen(w *world) {
	for _, action := range c.batch {
		w.soon(action)
	}
	clear(c.batch)
	c.batch = c.batch[:0]
	c.busy = false
	if len(c.next) > 0 {
		c.begin(w)
	}
}

// changed answers a change.
func (w *world) changed(c *mail.Change) {
	m := w.spool.message(c.ID)
	if m != nil && c.Op == mail.ChangeExpire {
		w.measure.expired(m)
	}
	answer := w.spool.apply(m, c)
	for _, k := range w.watch.changeds {
		k.changed(w.now, m, c)
	}
	if m != nil {
		m.changing = false
	}
	step(w, qmgr.Changed{Changed: answer})
	if m != nil && m.place.Area == mail.AreaNone && m.busy == 0 {
		w.spool.recycle(m)
	}
}

// A read is an action that waits for the disk.
type read struct {
	event
	action qmgr.Action
}

// read answers after the time that the disk takes.
func (w *world) read(action qmgr.Action) {
	if w.scenario.Disk.Read.IsZero() {
		w.soon(action)
		return
	}
	r := w.spareReads.Take()
	*r = read{action: action}
	w.at(&r.event, r, w.now.Add(w.scenario.Disk.Read.draw(&w.commit.reads)))
}

func (r *read) happen(w *world) {
	action := r.action
	r.action = nil
	w.spareReads.Give(r)
	w.answer(action)
}
