package qmgr

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A transport groups everything that is delivered in one way: the queues
// of its destinations and the jobs of the messages that it is to carry. The latter
// are in its Lane, of which it has one: newQueue and owners.go rely on that.
// Transports are made when the first recipient is routed to them and are never
// removed, so a route must not invent names.
type transport struct {
	sched.Lane
	cfg    TransportConfig
	inRing ilist.Link[transport] // on Qmgr.ring
	queues map[string]*queue
	outage outage
	limits limits // of its destinations, but for those that have others
	rate   rate.Bucket
	paused bool // a limit by time of the destination is reached
	pace   timer
	delay  transportDelay
	stocks *stocks // the queue manager's
	// group is its connections, where the core decides on them; wanting is
	// Qmgr.wanting.
	group   *conns.Group
	wanting *ilist.List[queue]
	resting ilist.List[queue] // want connections when the transport is not paused any more
}

func newTransport(name string, cfg TransportConfig, q *Qmgr) *transport {
	t := &transport{cfg: cfg, queues: make(map[string]*queue), stocks: &q.stocks}
	t.SetUp(name, t, cfg.lane(), cfg.Scheduler, q.lanes)
	if cfg.Agents == AgentsConnections {
		t.group, t.wanting = conns.NewGroup(name, cfg.group()), &q.wanting
	}
	t.outage.timer = timer{kind: timerOutage, transport: t}
	t.limits, t.rate = cfg.limits(), rate.New(cfg.TransportRate)
	t.pace = timer{kind: timerTransportPace, transport: t}
	t.delay.timer = timer{kind: timerDelay, transport: t}
	return t
}

// destinations are the queues in the order in which they came about.
func (t *transport) destinations() iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		for d := range t.Destinations() {
			if !yield(queueOf(d)) {
				return
			}
		}
	}
}

// ready reports whether the transport could start a delivery now.
func (t *transport) ready() bool {
	switch {
	case t.paused, t.delay.holds():
		return false
	case t.cfg.Agents == AgentsOffered, t.cfg.Agents == AgentsOwn && t.Busy >= t.cfg.ProcessLimit:
		return false
	}
	return t.Lane.Ready()
}

// queue returns the queue of a nexthop, and makes it if need be.
func (q *Qmgr) queue(t *transport, name, nexthop string) *queue {
	if d, ok := t.queues[name]; ok {
		return d
	}
	q.queues++
	d := newQueue(t, name, nexthop)
	if t.group != nil {
		q.openSite(d)
		d.reset = q.admission.Flush().Reset // a dead destination that RetryAll revived may have been freed with its own
	}
	if q.shapes != nil || t.limits.rate != (rate.Limits{}) {
		q.shape(d, nil)
		d.window = window.New(&d.limits.window)
	}
	return d
}
