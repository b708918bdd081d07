package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/window"
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
	jobs       ilist.List[job]
	jobsByTime sequence[job]
	unread     sequence[job] // those of jobsByTime whose messages have unread recipients
	lists      uint64        // how often a job was listed
	// current is where the next selection starts; nil means that nothing can be
	// selected until a job is listed or unblocked.
	current   *job
	servable  sequence[queue] // RoundRobin: the destinations that have entries to start
	run       *job            // Runner: the one whose message has been opened
	busy      int             // deliveries under way
	startable int             // sum over the queues
	topLabel  uint64          // the largest label that was ever given
	labelGap  uint64
	blockers
	candidates
	cache  candidateCache
	pool   recipientPool
	outage outage
	limits limits // of its destinations, but for those that have others
	rate   rate.Bucket
	paused bool // it has had what it may have by now
	pace   timer
	lull   lull
	find   finder
	exact  bool    // Config.AsPostfix
	stocks *stocks // the queue manager's
	// group is its connections, where the core decides on them; wanting is
	// Qmgr.wanting.
	group   *conns.Group
	wanted  *job // Runner: the one for which connections have been asked for
	wanting *ilist.List[queue]
	resting ilist.List[queue] // want connections when the transport is not paused any more
}

// A finder answers the questions that would take linear time by definition. The
// tests put the definition in its place.
type finder interface {
	// place returns the job behind which a new one goes on the scheduler list.
	place(t *transport, j *job) *job
	// nextUnread returns the job that is to own the free recipient slots after
	// another.
	nextUnread(j *job) *job
	// nextVisit returns the first job that selection has to look at.
	nextVisit(t *transport) *job
	// nextPeer returns the next peer of a job, in turn, that can be served.
	nextPeer(j *job) *peer
	// nextQueue returns the next destination, in turn, that has an entry to start.
	nextQueue(t *transport) *queue
	// candidate returns the job that gains most by going first.
	candidate(t *transport, current *job, slots int, now mail.Instant) *job
}

// quick is the finder.
type quick struct{}

// A pause is where a selection waits for recipients to be read
// (Config.AsPostfix).
type pause struct {
	job   *job // nil: none waits
	visit visit
}

// A visit is how far the look at one job has come: recipients may be read
// before its peers are looked at, and once more if none of them has room.
type visit uint8

const (
	visitStart visit = iota
	visitPeers
	visitPeersAgain
)

func newTransport(name string, cfg TransportConfig, q *Qmgr) *transport {
	t := &transport{name: name, cfg: cfg, queues: make(map[string]*queue), blockers: blockers{tag: 1},
		pool: recipientPool{unused: cfg.RecipientPool}, find: q.find, exact: q.cfg.AsPostfix, labelGap: q.labelGap, stocks: &q.stocks}
	if cfg.Agents == AgentsConnections {
		t.group, t.wanting = conns.NewGroup(name, cfg.group()), &q.wanting
	}
	t.jobsByTime.before, t.unread.before, t.servable.before = older, older, earlierQueue
	t.files.before, t.files.summarize = (*file).before, summarizeFiles
	t.outage.timer = timer{kind: timerOutage, transport: t}
	t.limits, t.rate = cfg.limits(), rate.New(cfg.TransportRate)
	t.pace = timer{kind: timerTransportPace, transport: t}
	t.lull.timer = timer{kind: timerLull, transport: t}
	return t
}

// ready tells whether the transport could start a delivery now.
func (t *transport) ready() bool {
	switch {
	case t.startable == 0, t.paused, t.lull.state != lullFree:
		return false
	case t.cfg.Agents == AgentsOffered, t.cfg.Agents == AgentsOwn && t.busy >= t.cfg.ProcessLimit:
		return false
	}
	switch t.cfg.Scheduler {
	case RoundRobin:
		return true
	case Runner:
		return t.canRun()
	}
	return t.current != nil
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
	d := newQueue(t, name, nexthop)
	if t.group != nil {
		q.openSite(d)
		d.pardon = q.admission.amnesty // a dead destination that RetryAll revived may have been freed with its own
	}
	if q.shapes != nil || t.limits.rate != (rate.Limits{}) {
		q.shape(d, nil)
		d.window = window.New(&d.limits.window)
	}
	return d
}
