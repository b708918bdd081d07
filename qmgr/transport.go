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
	order  ilist.List[queue] // in order of creation
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
	cache      candidateCache
	pool       recipientPool
	paused     pause
}

// A pause is where a selection waits for recipients to be read.
type pause struct {
	job   *job
	visit visit
	offer bool // an agent was offered
}

// A visit is how far the look at one job has come: recipients may be read
// before its peers are looked at, and once more if none of them has room.
type visit uint8

const (
	visitStart visit = iota
	visitPeers
	visitPeersAgain
)

func newTransport(name string, cfg TransportConfig) *transport {
	return &transport{name: name, cfg: cfg, queues: make(map[string]*queue), blockerTag: 1,
		pool: recipientPool{unused: cfg.RecipientPool}}
}

// ready tells whether the transport could start a delivery now.
func (t *transport) ready() bool {
	return t.startable > 0 && t.busy < t.cfg.ProcessLimit && t.current != nil &&
		t.paused.job == nil && t.cfg.Agents == AgentsOwn
}

// queue returns the queue of a nexthop, and makes it if need be.
func (q *Qmgr) queue(t *transport, nexthop string) *queue {
	return q.namedQueue(t, nexthop, nexthop)
}

func (q *Qmgr) namedQueue(t *transport, name, nexthop string) *queue {
	if d, ok := t.queues[name]; ok {
		return d
	}
	q.queues++
	return newQueue(t, name, nexthop)
}
