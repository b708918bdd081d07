package qmgrtest

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

// A message that was put off is not tried before its time, unless an operator has ordered it since. Other reasons to look at mail before its
// time concern mail that waits for that reason: until a suspension ends, until a warm-up's next day, and, where sources are
// chosen or our network was down, what could not be tried for lack of an address.

// trials is what is needed to know of a message whether it is tried before its time. Steps are numbered from 1 on.
type trials struct {
	put     int                     // the Step that has put it off last; 0: none has
	ordered int                     // the Step in which an operator has ordered last that it be tried
	some    int                     // the Step in which one has ordered something for some of its recipients; 0: none has
	begun   map[uint32]int          // recipients, and the Step in which the last attempt began
	unsure  map[uint32]mail.Instant // recipients, and when an attempt ended of which it is unknown whether a host has it
}

// orderWaits reports whether an order that was given while the message was in core was to be carried out once the message had been put
// off, and has not been for a recipient: so it is with orders for some recipients, and with others that come while these are carried out.
func (t *trials) orderWaits(index uint32) bool {
	return t.some > 0 && t.begun[index] < max(t.some, t.ordered)
}

// unsurePause is the shortest time after which a message is sent again of which that is unknown.
const unsurePause = time.Minute

// noteOrders notes what an event has tried before its time.
func (w *World) noteOrders(ev qmgr.Event) {
	step := w.steps + 1
	order := func(ids ...mail.QueueID) {
		for _, id := range ids {
			if m := w.Messages[id]; m != nil {
				m.trials.ordered = step
			}
		}
	}
	some := func(id mail.QueueID) {
		if m := w.Messages[id]; m != nil {
			m.trials.ordered, m.trials.some = step, step
		}
	}
	switch ev := ev.(type) {
	case qmgr.RetryAll:
		for _, m := range w.Messages {
			m.trials.ordered = step
		}
	case qmgr.Retry:
		order(ev.IDs...)
	case qmgr.Release:
		order(ev.IDs...)
	case qmgr.SetRoute:
		some(ev.ID)
	case qmgr.Settle:
		some(ev.ID)
	case qmgr.Split:
		some(ev.ID)
	case qmgr.Resume, qmgr.Rules, qmgr.Reroute:
		w.resumed = step
	case qmgr.Configure:
		w.resumed = step
		w.recovers = w.recovers || len(ev.Config.Sources.Sources) > 0
	}
}

// notePut notes that a message is put off.
func (w *World) notePut(c *mail.Change) {
	if m := w.Messages[c.ID]; m != nil && c.Op == mail.ChangeDefer {
		m.trials.put = w.steps + 1
	}
}

// noteBegun notes that attempts begin.
func (w *World) noteBegun(m *Message, d *mail.Delivery) {
	if m.trials.begun == nil {
		m.trials.begun = make(map[uint32]int)
	}
	for _, r := range d.Recipients {
		m.trials.begun[r.Index] = w.steps + 1
	}
}

// noteUnsure notes that it is unknown of a recipient whether a host has the message.
func (m *Message) noteUnsure(index uint32, now mail.Instant) {
	if m.trials.unsure == nil {
		m.trials.unsure = make(map[uint32]mail.Instant)
	}
	m.trials.unsure[index] = now
}

// checkDue finds out whether a delivery starts before its time.
func (w *World) checkDue(m *Message, d *mail.Delivery) {
	w.recovers = w.recovers || w.Core.Offline() != 0
	defer w.noteBegun(m, d)
	if m.Place.Area != mail.AreaDeferred || m.trials.ordered >= m.trials.put {
		return
	}
	ended := intake.Marked(m.Place.Due) && w.resumed >= m.trials.put
	early := m.Place.Due > w.Now && !intake.Marked(m.Place.Due) && m.Place.Due%mail.Instant(24*time.Hour) != 0 && !w.recovers
	for _, r := range d.Recipients {
		if m.trials.orderWaits(r.Index) {
			continue
		}
		if at, is := m.trials.unsure[r.Index]; is && w.Now < at.Add(unsurePause) && !ended && m.Envelope.By.Mode != mail.ByNotify {
			w.violate("recipient %d of %v, who may have it since %v, is tried again without an order", r.Index, m.Envelope.ID, at)
		}
		if early {
			w.violate("recipient %d of %v is tried before %v without an order; it was put off in Step %d", r.Index, m.Envelope.ID, m.Place.Due, m.trials.put)
		}
	}
}
