package qmgr

import "github.com/posthaste-mta/posthaste/qmgr/sched"

// Deliveries that start together to one destination, with entries of one size,
// also end together, and so do those that follow them: all its slots come free
// at one moment and then none for as long as a delivery takes. Small mail that
// could overtake has to wait for that moment. With 20 deliveries of half a
// second each it waits a quarter of a second on average, where a slot could have
// come free every 25 ms.
//
// So the entries of such a first volley are cut to different sizes: a small part
// of what a transaction may carry for the one, more for the next. From then on
// the slots come free one after the other, and every entry has its full size.
// Postfix does not do this; there the time it takes to start processes has some
// of the same effect. Where the host offers the agents, it is left to the host.

// A window that has just grown starts two deliveries at once, which is no volley;
// and entries of a few recipients are not worth the further transactions.
const (
	volleyMin  = 2  // deliveries that start before the first one is cut
	staggerMin = 10 // recipients that a transaction may carry
)

// stagger cuts an entry that is about to start, if it is part of a volley to a
// destination that has more waiting than it can take. What is cut off waits in
// front.
func (q *Qmgr) stagger(e *sched.Entry) {
	d := queueOf(e.Destination())
	place := d.volley
	d.volley++
	cfg, width := &d.transport.cfg, d.window.Size()
	if cfg.Agents == AgentsOffered || q.cfg.AsPostfix || place < volleyMin || d.Waiting <= width {
		return
	}
	full := d.limits.recipients
	if full <= 0 {
		full = len(e.Recipients)
	}
	keep := max(full*(place%width)/width, 1)
	if full < staggerMin || place%width == 0 || keep >= len(e.Recipients) {
		return
	}
	e.Cut(keep)
}
