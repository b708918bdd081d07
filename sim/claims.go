package sim

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// claims reconstructs, from events and actions alone, which flows have mail waiting for
// which destination, and where room has been scarce without interruption. Which flows share lanes
// it asks the core (Config.TenantFlows), and crowds checks that. What is not
// certain counts as not scarce, so that the checkers of fair shares never complain of a
// core that is right.
//
// It is there only where mail is classified and the core knows its destinations at once:
// lookups answer for many messages in an order of the core's own.
type claims struct {
	limits    *limits
	rules     *fair.Rules
	contests  map[*destination]*contest
	contested []*contest // those with several flows
	dead      map[[2]string]bool
	busy      map[string]int // deliveries, by transport
	turns     *turns
	sparse    *sparse
	idle      *idle
	crowds    *crowds
	most      int  // flows of a tenant that may have mail waiting for a destination
	strict    bool // some class goes first
	compared  int  // starts of contenders, while room was certainly scarce
}

// A contest is the mail that waits for one destination.
type contest struct {
	to      *destination
	root    contender // its members are classes
	queued  map[waiter]*contender
	flows   int // that have mail waiting
	busy    int // deliveries
	clock   uint64
	certain bool         // room has been scarce since the members' histories began
	known   bool         // the core's order began with them
	ordered bool         // there may be an order of the core's
	listed  bool         // among contested
	touched bool         // among those that idle will look at
	was     int          // how much waited when it did last
	free    mail.Instant // since when a slot is free, 0 if none is
	last    mail.Instant // when a delivery began
}

// A waiter is a recipient that waits.
type waiter struct {
	message *message
	index   uint32
}

// A contender is a class, a tenant or a flow with mail for one destination.
type contender struct {
	parent  *contender
	name    string
	weight  int
	members map[string]*contender
	waiting int // recipients
	busy    int // deliveries
	history
}

// history is what the checkers keep for a contender. Times are those of contest.clock.
type history struct {
	since  uint64   // when it started something last, or began to wait
	recent []uint64 // when it did since it began to wait, the latest last; as many as are compared
	served bool     // it has started something since the order began
	fresh  bool     // it has started nothing since it began to wait
	sparse bool     // it had certainly nothing to pay when it began to wait
	ahead  int      // sparse: members beside it that were fresh then
	passed int      // sparse: starts of these, and of others, since then
}

// newClaims returns nil where there is nothing to reconstruct.
func newClaims(w *world, t *turns, s *sparse, i *idle, crowds *crowds) *claims {
	if !w.scenario.hasFlows() || w.run.Unclassified || w.scenario.Sabotage != SabotageNone || w.looksUp() || w.hasSessions() && w.sharesHosts() {
		return nil
	}
	cfg := w.run.Core.WithDefaults()
	strict := slices.ContainsFunc(cfg.Shares.Classes, func(c fair.Class) bool { return c.Strict })
	return &claims{strict: strict, limits: newLimits(w), rules: &cfg.Shares, contests: make(map[*destination]*contest), dead: make(map[[2]string]bool),
		busy: make(map[string]int), turns: t, sparse: s, idle: i, crowds: crowds, most: cfg.TenantFlows + max(cfg.TenantFlows/4, 1)}
}

// looksUp reports whether the core asks for lookups.
func (w *world) looksUp() bool {
	s := w.scenario
	if s.DNS.asks() && !s.DNS.ByDelivery {
		return true
	}
	for i := range s.Sites {
		if s.Sites[i].Nameless {
			return true
		}
	}
	for i := range s.Outages {
		if s.Outages[i].Names {
			return true
		}
	}
	return false
}

// contest returns that of a destination, nil if its transport knows no flows, or has
// pauses of its own: then the core passes turns on.
func (c *claims) contest(to *destination) *contest {
	k := c.contests[to]
	if cfg := &c.limits.usage(to.transport).cfg; k == nil && cfg.Scheduler == qmgr.Preemptive && cfg.TransportRateDelay == 0 {
		k = &contest{to: to, queued: make(map[waiter]*contender)}
		c.contests[to] = k
	}
	return k
}

// routed notes that a recipient of a message will wait for a destination.
func (c *claims) routed(w *world, m *message, index uint32, to *destination) {
	m.counts = w.core.Explain([]mail.QueueID{m.id}, 0)[0].Flow
	if k := c.contest(to); k != nil && !c.isDead(to) {
		c.wait(w, k, waiter{m, index}, true)
	}
}

func (c *claims) isDead(to *destination) bool {
	return c.dead[[2]string{to.transport, to.name}] || c.dead[[2]string{to.transport, ""}]
}

// wait notes that a recipient waits. new says that it is one of a new message, so that it
// is certain when its flow begins to wait.
func (c *claims) wait(w *world, k *contest, r waiter, new bool) {
	if k.queued[r] != nil {
		return
	}
	leaf := k.leaf(c.rules, r.message.counts)
	fresh := leaf.waiting == 0
	if fresh {
		k.clock++
		if k.flows++; k.flows == 2 {
			k.certain = new && w.roomFor(c, k) < 2
			k.begin(k.certain && !k.ordered)
			k.ordered = true
			c.list(k)
			leaf = k.leaf(c.rules, r.message.counts)
		}
	}
	k.queued[r] = leaf
	c.idle.touch(k)
	for n := leaf; n != &k.root; n = n.parent {
		if n.waiting == 0 {
			n.join(k, new)
		}
		n.waiting++
	}
	if fresh {
		c.crowds.joined(w, c, k, leaf)
	}
}

// leave notes that a recipient does not wait any more.
func (c *claims) leave(k *contest, r waiter) {
	leaf := k.queued[r]
	if leaf == nil {
		return
	}
	delete(k.queued, r)
	for n := leaf; n != &k.root; n = n.parent {
		n.waiting--
	}
	if leaf.waiting == 0 {
		if k.flows--; k.flows < 2 {
			k.certain = false
			k.ordered = k.flows == 1 // which may keep the order
		}
	}
	c.idle.touch(k)
}

func (c *claims) list(k *contest) {
	if !k.listed {
		k.listed = true
		c.contested = append(c.contested, k)
	}
}

// confirm finds out whether room is certainly scarce.
func (c *claims) confirm(w *world, k *contest) {
	scarce := k.flows >= 2 && w.roomFor(c, k) < k.flows
	if scarce && !k.certain {
		k.clock++
		k.begin(false)
	}
	k.certain = scarce
}

// roomFor returns how many entries a destination could take, or more.
func (w *world) roomFor(c *claims, k *contest) (room int) {
	if c.limits.usage(k.to.transport).cfg.Agents != qmgr.AgentsConnections {
		q, _ := w.core.Peek(k.to.transport, k.to.name, "", "")
		if q.State != window.Ready {
			return 0
		}
		return q.Window - k.busy
	}
	for _, s := range w.listed {
		if s.ended != 0 && s.serves == k.to && s.opening.Transport == k.to.transport { // if it has broken, the core need not know
			room += max(s.depth()-s.pending(), 0)
		}
	}
	return room
}

func (c *claims) started(w *world, e *task) {
	k := c.contests[e.to]
	if k == nil || e.message == nil {
		return
	}
	c.confirm(w, k)
	leaf := k.leaf(c.rules, e.message.counts)
	k.clock++
	for n := leaf; n != &k.root; n = n.parent {
		n.start(k)
		if k.certain {
			c.compared++
		}
		if k.certain && len(n.parent.members) <= membersKnown && (n.parent != &k.root || !c.strict) {
			c.turns.started(w, k, n)
			c.sparse.started(w, k, n)
		}
		n.fresh, n.sparse = false, false
		n.busy++
	}
	for i := range e.recipients {
		c.leave(k, waiter{e.message, e.recipients[i].Index})
	}
	k.busy, k.last = k.busy+1, w.now
	c.busy[e.to.transport]++
	if cfg := &c.limits.usage(e.to.transport).cfg; cfg.Agents != qmgr.AgentsConnections && c.busy[e.to.transport] >= cfg.ProcessLimit {
		c.passOn(e.to.transport)
	}
}

// passOn notes that flows may lose turns: the core passes some on where a transport has no
// more agents.
func (c *claims) passOn(transport string) {
	for _, k := range c.contested {
		if k.to.transport == transport {
			k.certain = false
		}
	}
}

// start notes that a contender has started something.
func (n *contender) start(k *contest) {
	n.since, n.served = k.clock, true
	if len(n.recent) == recentMax {
		n.recent = append(n.recent[:0], n.recent[1:]...)
	}
	n.recent = append(n.recent, k.clock)
}

// recentMax bounds history.recent, and with it the ratio of weights that are compared.
const recentMax = 12

func (c *claims) finished(w *world, e *task, outcomes []mail.Outcome) {
	k := c.contests[e.to]
	if k == nil || e.message == nil {
		return
	}
	for n := k.leaf(c.rules, e.message.counts); n != &k.root; n = n.parent {
		n.busy--
	}
	k.busy--
	c.busy[e.to.transport]--
	for i := range e.recipients {
		if (outcomes == nil || outcomes[i].Result == mail.Untried) && !c.isDead(e.to) {
			c.wait(w, k, waiter{e.message, e.recipients[i].Index}, false)
		}
	}
	c.idle.touch(k)
}

func (c *claims) note(_ mail.Instant, n *qmgr.Note) {
	switch n.Kind {
	case qmgr.NoteDead:
		c.dead[[2]string{n.Transport, n.Nexthop}] = true
		for _, k := range c.contests { //archtest:anyorder each by itself
			if c.isDead(k.to) {
				c.empty(k)
			}
		}
	case qmgr.NoteAlive:
		delete(c.dead, [2]string{n.Transport, n.Nexthop})
	}
}

// empty notes that all that waits for a destination is put off.
func (c *claims) empty(k *contest) {
	for r := range k.queued { //archtest:anyorder all
		c.leave(k, r)
	}
}

// putOff notes that mail will be deferred without an attempt. It has left its destination
// before, at an instant that is not seen, so that nothing is certain about who waited.
func (c *claims) putOff(w *world, d *mail.Delivery) {
	k, m := c.contests[w.nexthops[d.Origin.Nexthop]], w.spool.message(d.Envelope.ID)
	if k == nil || m == nil {
		return
	}
	k.certain = false
	for i := range d.Recipients {
		c.leave(k, waiter{m, d.Recipients[i].Index})
	}
}

func (c *claims) stepped(w *world) {
	keep := c.contested[:0]
	for _, k := range c.contested {
		if c.confirm(w, k); k.flows >= 2 {
			keep = append(keep, k)
		} else {
			k.listed = false
		}
	}
	c.contested = keep
	c.idle.stepped(w, c)
}

func (k *contest) leaf(rules *fair.Rules, f mail.Flow) *contender {
	n := &k.root
	for level, name := range []string{f.Class, f.Tenant, f.Flow} {
		child := n.members[name]
		if child == nil {
			if n.members == nil {
				n.members = make(map[string]*contender)
			}
			child = &contender{parent: n, name: name, weight: weightOf(rules, fair.LevelClass+fair.Level(level), name)}
			n.members[name] = child
		}
		n = child
	}
	return n
}

// weightOf returns the weight of a class, tenant or flow.
func weightOf(r *fair.Rules, at fair.Level, name string) int {
	weight := 0
	switch at {
	case fair.LevelClass:
		for i := range r.Classes {
			if r.Classes[i].Name == name {
				weight = r.Classes[i].Weight
			}
		}
	case fair.LevelTenant:
		weight = r.Tenants[name]
	default:
		weight = r.Flows[name]
	}
	return max(weight, 1)
}

// begin forgets what has been. anew says that the core's order begins now, too, with those
// that have deliveries under way behind the others; else some may have something to pay.
func (k *contest) begin(anew bool) {
	k.known = anew
	k.root.begin(k, anew)
}

// begin reports whether some flow of the contender is behind.
func (n *contender) begin(k *contest, anew bool) (behind bool) {
	behind = n.waiting > 0 && n.busy > 0 && len(n.members) == 0
	for name, child := range n.members { //archtest:anyorder each by itself
		if child.waiting+child.busy == 0 {
			delete(n.members, name)
		} else if child.begin(k, anew) {
			behind = true
		}
	}
	n.history = history{since: k.clock, recent: n.recent[:0], served: !anew || n.busy > 0, fresh: !anew || !behind}
	return behind
}

// join has a contender begin to wait.
func (n *contender) join(k *contest, new bool) {
	n.since, n.recent, n.fresh = k.clock, n.recent[:0], true
	n.sparse = k.certain && k.known && new && !n.served && n.busy == 0 && len(n.parent.members) <= membersKnown
	n.ahead, n.passed = 0, 0
	for _, m := range n.parent.members { //archtest:anyorder counts
		if m != n && m.fresh && m.waiting > 0 {
			n.ahead++
		}
	}
}

// membersKnown is the number of members of a class, a tenant or a flow that are compared. It is
// below the number that an order remembers while they are idle (package fair).
const membersKnown = 1000
