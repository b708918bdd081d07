package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A transport groups everything that is to be delivered in one way: the queues
// of its destinations and the jobs of the messages that it is to carry.
// Transports are made when the first recipient is routed to them and are never
// removed, so a route must not invent names.
type transport struct {
	name   string
	cfg    TransportConfig
	inRing ilist.Link[transport] // on Qmgr.ring
	queues map[string]*queue
	// jobs is the order in which entries are selected; jobsByTime the order in
	// which the messages were admitted.
	jobs, jobsByTime ilist.List[job]
	// current is where the next selection starts; nil means that nothing can be
	// selected until a job is listed or unblocked.
	current *job
	// blockerTag is odd; jobs and queues that carry the same tag are blocked.
	blockerTag uint64
	busy       int // deliveries under way
	startable  int // sum over the queues
}

func newTransport(name string, cfg TransportConfig) *transport {
	return &transport{name: name, cfg: cfg, queues: make(map[string]*queue), blockerTag: 1}
}

// ready tells whether the transport could start a delivery now.
func (t *transport) ready() bool {
	return t.startable > 0 && t.busy < t.cfg.ProcessLimit && t.current != nil
}

// queue returns the queue of a nexthop, and makes it if need be.
func (t *transport) queue(nexthop string) *queue {
	if q, ok := t.queues[nexthop]; ok {
		return q
	}
	return newQueue(t, nexthop)
}

// selectEntry returns the entry to deliver next, still on its todo lists, or
// nil if none can be started.
//
// Jobs are taken in order, starting with the current one. Within a job,
// destinations take turns. A job none of whose destinations has room is marked
// as blocked and passed by; one that has nothing to select is retired.
func (t *transport) selectEntry() *entry {
	for j := t.current; j != nil; {
		next := t.jobs.Next(&j.inOrder)
		switch p := t.visit(j); {
		case p != nil:
			t.current = j
			return p.todo.Front()
		case j.blocked():
		case j.waiting() > 0:
			j.block()
		default:
			j.retire()
		}
		j = next
	}
	t.current = nil
	return nil
}

func (t *transport) visit(j *job) *peer {
	if j.blocked() {
		return nil
	}
	return j.selectPeer()
}

// passed is called when an entry of j has been started: a job that has nothing
// left to select leaves the lists.
func (t *transport) passed(j *job) {
	if j.waiting() == 0 && !j.message.more {
		j.retire()
	}
}
