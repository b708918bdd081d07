package sim

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// conservation: every recipient that was accepted is delivered, has failed, or
// is in the spool still; exactly one of these.
//
// It counts independently what was accepted, and checks every message that is
// removed and at all that are left. What the report says of them comes from what
// receivers have answered, and must come to the same.
type conservation struct {
	safety
	recipients uint64 // accepted
	gone       uint64 // of messages that were removed, settled
}

func (*conservation) name() string { return "conservation" }

func (c *conservation) accepted(m *message) { c.recipients += uint64(len(m.states)) }

func (c *conservation) changed(now mail.Instant, m *message, ch *mail.Change) {
	if m == nil || m.place.Area != mail.AreaNone {
		return
	}
	for i, st := range m.states {
		if st&stateSettled == 0 || st&(stateDelivered|stateFailed) == 0 {
			c.found(now, "message %v is removed, but its recipient %d is neither delivered nor failed", m.id, i)
		}
	}
	c.gone += uint64(len(m.states))
}

func (c *conservation) end(w *world) {
	var left, open uint64
	for _, m := range w.spool.messages { //archtest:anyorder a sum
		left += uint64(len(m.states))
		for _, st := range m.states {
			if st&(stateDelivered|stateFailed) == 0 {
				open++
			}
		}
	}
	if c.gone+left != c.recipients {
		c.found(w.now, "%d recipients were accepted; %d are done and %d are in the spool", c.recipients, c.gone, left)
	}
	var reported uint64
	for i := range w.measure.tallies {
		t := &w.measure.tallies[i]
		reported += t.delivered + t.failed + t.expired
	}
	if reported+open != c.recipients {
		c.found(w.now, "%d recipients were accepted; %d were delivered, failed or have expired, and %d are left", c.recipients, reported, open)
	}
}

// durability: a message is removed only when nothing of it is under way and no
// report is owed, and there is one change of a message at a time.
type durability struct{ safety }

func (*durability) name() string { return "durability" }

func (d *durability) change(now mail.Instant, m *message, c *mail.Change) {
	if m == nil {
		return
	}
	if m.changing {
		d.found(now, "change %v of %v is asked for while another one is under way", c.Op, m.id)
	}
	if c.Place.Area != m.place.Area || c.Place.Due != m.place.Due {
		d.found(now, "change %v of %v names place %v %v; it is in %v %v", c.Op, m.id, c.Place.Area, c.Place.Due, m.place.Area, m.place.Due)
	}
	if c.Op != mail.ChangeRemove {
		return
	}
	if m.busy > 0 {
		d.found(now, "%v is removed while %d deliveries of it are under way", m.id, m.busy)
	}
	if m.owing > 0 && m.source.sender != "" {
		d.found(now, "%v is removed, but a report is owed for %d of its recipients", m.id, m.owing)
	}
}

// duplicates: no receiver is given a recipient that one has taken already, nor one
// that another is being given. The one excuse is that it is unknown: the connection
// broke before the final reply (RFC 1047).
type duplicates struct{ safety }

func (*duplicates) name() string { return "duplicates" }

func (d *duplicates) started(w *world, e *task) {
	if e.message == nil {
		return
	}
	for i := range e.recipients {
		switch st := e.message.states[e.recipients[i].Index]; {
		case st&(stateDelivered|stateFailed) != 0:
			d.found(w.now, "recipient %d of %v is tried again although it is settled", e.recipients[i].Index, e.message.id)
		case st&stateBusy != 0:
			d.found(w.now, "recipient %d of %v is tried twice at the same time", e.recipients[i].Index, e.message.id)
		}
	}
}

// reporting: the null sender gets no report (RFC 5321 4.5.5) unless the policy for
// double bounces names another recipient, and a report is requested only where one
// is owed.
type reporting struct {
	safety
	doubleBounce qmgr.DoubleBounce
}

func (*reporting) name() string { return "reports" }

func (r *reporting) report(now mail.Instant, m *message) {
	switch {
	case m == nil:
	case m.source.sender == "" && r.doubleBounce != qmgr.DoubleBounceReport:
		r.found(now, "a report is asked for about %v, which is from the null sender", m.id)
	case m.owing == 0:
		r.found(now, "a report is requested on %v, but none is owed", m.id)
	}
}
