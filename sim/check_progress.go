package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// patience: whatever is due is tried before long, no delivery goes on forever,
// and the run does not come to rest with something left to do. It is the one
// rule that something happens.
type patience struct {
	finding
	bound time.Duration
}

// defaultPatience is longer than any wait that is not a mistake of the scenario.
const defaultPatience = 24 * time.Hour

func newPatience(w *world) *patience {
	p := &patience{bound: w.scenario.Patience}
	if p.bound == 0 {
		p.bound = defaultPatience
	}
	return p
}

func (*patience) name() string   { return "progress" }
func (*patience) progress() bool { return true }

// due is since when a message could have been tried.
func (m *message) due() mail.Instant {
	if m.place.Area == mail.AreaDeferred {
		return m.place.Due
	}
	return m.arrived
}

func (p *patience) started(w *world, e *task) {
	if m := e.message; m != nil && m.firstTry == 0 && m.attempts == 0 && w.now.Sub(m.due()) > p.bound {
		p.found(w.now, "message %d has waited %v for its first attempt", m.number, w.now.Sub(m.due()))
	}
}

func (p *patience) end(w *world) {
	if w.isOver() {
		return
	}
	left, late := 0, 0
	for _, m := range w.spool.messages { //archtest:anyorder counts
		if m.unsettled == 0 {
			continue
		}
		left++
		if w.now.Sub(m.due()) > p.bound && m.place.Area != mail.AreaHold {
			late++
		}
	}
	switch {
	case len(w.calendar.dates) == 0 && left > 0 && !w.coreWaits():
		p.found(w.now, "%d messages are left, %d deliveries never end, and nothing happens any more", left, w.underway)
	case late > 0:
		p.found(w.now, "%d messages have been due for more than %v", late, p.bound)
	}
}

// coreWaits reports whether the core is going to do something in time.
func (w *world) coreWaits() bool {
	_, waits := w.core.NextWake()
	return waits
}
