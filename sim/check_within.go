package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// neighbors: mail for a site that is well is delivered within the time that the
// scenario promises, whatever other sites are like. It is a rule of liveness: where
// one site takes what belongs to all, nothing wrong happens to the others, only
// nothing at all.
type neighbors struct{ finding }

func (*neighbors) name() string   { return "neighbors" }
func (*neighbors) progress() bool { return true }

func (*neighbors) started(*world, *task) {}

func (n *neighbors) finished(w *world, e *task, outcomes []mail.Outcome) {
	m, within := e.message, e.to.within
	if within == 0 || m == nil {
		return
	}
	for i := range outcomes {
		if late := w.now.Sub(m.arrived); outcomes[i].Result == mail.Delivered && late > within {
			n.found(w.now, "message %d is delivered to %s after %v, not within %v", m.number, e.to.name, late, within)
		}
	}
}

func (n *neighbors) end(w *world) {
	promised := false
	for i := range w.scenario.Sites {
		promised = promised || w.scenario.Sites[i].Within > 0
	}
	if !promised {
		return
	}
	late, longest := 0, time.Duration(0)
	for _, m := range w.spool.messages { //archtest:anyorder counts
		since := w.now.Sub(m.arrived)
		for i, state := range m.states {
			if within := m.recipient(i).to.within; within > 0 && since > within && state&(stateDelivered|stateFailed|stateSettled) == 0 {
				late, longest = late+1, max(longest, since)
			}
		}
	}
	if late > 0 {
		n.found(w.now, "%d recipients at sites that are well still wait, one for %v", late, longest)
	}
}
