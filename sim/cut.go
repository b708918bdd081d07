package sim

import "github.com/posthaste-mta/posthaste/mail"

// A cut is the beginning of an outage that connections feel which exist.
type cut struct {
	event
	to    *receiver
	until mail.Instant
	open  Open
}

// cutLines sets the events of all such outages.
func (w *world) cutLines() {
	for _, r := range w.receivers {
		for i := range r.outages {
			if o := &r.outages[i]; o.Open != OpenStays {
				c := &cut{to: r, until: w.start.Add(o.Until), open: o.Open}
				w.at(&c.event, c, w.start.Add(o.From))
			}
		}
	}
}

// happen breaks the sessions with the host, or lets them hang.
func (c *cut) happen(w *world) {
	var all []*session // breaking one changes the list
	for s := range c.to.sessions.All() {
		all = append(all, s)
	}
	if c.open == OpenHangs {
		c.to.frozen = max(c.to.frozen, c.until)
	}
	for _, s := range all {
		if c.open == OpenHangs {
			s.freeze(w, c.until)
		} else {
			s.lose(w, replyLost)
		}
	}
}
