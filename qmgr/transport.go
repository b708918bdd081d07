package qmgr

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/directory"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A transport groups everything that is delivered in one way: the queues
// of its destinations and, in its lane, the jobs of the messages that it is to carry.
// Transports are made when the first recipient is routed to them and are never
// removed, so a route must not invent names.
type transport struct {
	flows.Transport
	cfg      TransportConfig
	outcomes [4]uint64             // recipients by mail.Result
	inRing   ilist.Link[transport] // on Qmgr.ring
	stocks   *stocks               // the queue manager's
	queues   directory.Directory[queue]
	outage   outage
	limits   limits // of its destinations, but for those that have others
	timely
	joint
}

// timely is a transport's limits by time.
type timely struct {
	rate   rate.Bucket
	paused bool  // one of them is reached
	pace   timer // paused, unless a delivery has to end: when it may have more
	delay  transportDelay
}

// joint is what the connections of a transport share. group is nil where the core does not decide on them, and
// then nothing is on resting.
type joint struct {
	group    *conns.Group
	wanting  *ilist.List[queue] // Qmgr.wanting
	detoured *ilist.List[queue] // Qmgr.detoured
	resting  ilist.List[queue]  // want connections when the transport is not paused any more
}

func newTransport(name string, cfg TransportConfig, q *Qmgr) *transport {
	t := &transport{cfg: cfg, stocks: &q.stocks, queues: directory.New[queue]()}
	t.SetUp(name, t, cfg.Scheduler, q.flows, q.shares)
	if cfg.Agents == AgentsConnections {
		t.group, t.wanting, t.detoured = conns.NewGroup(name, cfg.group()), &q.wanting, &q.detoured
		t.group.Share(q.shares)
	}
	t.outage.timer.Of = timed{kind: timerOutage, transport: t}
	t.limits, t.rate = cfg.limits(), rate.New(cfg.TransportRate)
	t.pace.Of = timed{kind: timerTransportPace, transport: t}
	t.delay.timer.Of = timed{kind: timerDelay, transport: t}
	return t
}

// setShares puts new rules for fair orders in force.
func (t *transport) setShares(r *fair.Rules) {
	t.SetShares(r)
	if t.group != nil {
		t.group.Share(r)
	}
	for d := range t.destinations() {
		d.SetShares()
	}
}

// Rules are those of the transport's lanes.
func (t *transport) Rules() sched.Rules { return t.cfg.lane() }

// destinations are the queues in their order.
func (t *transport) destinations() iter.Seq[*queue] { return t.queues.All() }

// ready reports whether the transport could start a delivery now.
func (t *transport) ready() bool {
	return t.cfg.Agents != AgentsOffered && !t.Full() && t.Next() != nil
}

// Full reports whether a limit of the transport itself, or its delay, keeps it from starting
// deliveries.
func (t *transport) Full() bool {
	return t.paused || t.delay.Holds() || t.cfg.Agents == AgentsOwn && t.Busy >= t.cfg.ProcessLimit
}

// queue returns the queue of a nexthop from a source, with a demand of security, and makes it
// if need be.
func (q *Qmgr) queue(t *transport, name, nexthop string, s *source.State, security string) *queue {
	if d := t.queues.Get(directory.Key{Name: name, Source: s.String(), Security: security}); d != nil {
		return d
	}
	d := q.newQueue(t, identity{name: name, source: s, security: security, nexthop: nexthop})
	if q.measured.Len() > 0 {
		q.recall(d)
	}
	return d
}

func (q *Qmgr) newQueue(t *transport, is identity) *queue {
	q.queues++
	d := newQueue(t, is)
	if q.cfg.AsPostfix {
		d.ClaimFirst()
	}
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
