package conns

import (
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// Check panics unless all that is counted, listed, set or implied agrees with what it
// comes from. Sites are all that there are. It is for tests, and takes time in proportion
// to connections, hosts and sites.
func (p *Pool) Check(sites iter.Seq[*Site]) {
	hosts, groups, own := make(map[*host]*tally), make(map[*Group]*tally), make(map[*Site]*tally)
	lines := make(map[*ilist.List[Site]]int)
	for s := range sites {
		groups[s.group], own[s] = new(tally), new(tally)
		lines[s.line]++
	}
	demanding := 0
	for _, h := range p.hosts { //archtest:anyorder one by one
		hosts[h] = new(tally)
		if h.key.Security != "" {
			demanding++
		}
	}
	assert.That(demanding == p.demanding, "of %d hosts a demand is made, counted %d", demanding, p.demanding)
	var all tally
	for c := range p.all.All() {
		assert.That(p.conns[c.ID] == c && c.pool == p, "connection %d is not known", c.ID)
		assert.That(hosts[c.host] != nil, "connection %d leads to %v, which is not known", c.ID, c.host.key)
		c.check()
		for _, n := range []*tally{&all, hosts[c.host], groups[c.site.group], own[c.site]} {
			n.add(c)
		}
	}
	assert.That(p.worked <= p.now && (p.all.Empty() || p.all.Back().ID <= p.last), "a connection worked at %d, connection %d is the last", p.worked, p.last)
	assert.That(p.all.Len() == len(p.conns), "%d connections, %d known", p.all.Len(), len(p.conns))
	assert.That(all.slots == p.open, "%d connections have a slot, counted %d", all.slots, p.open)
	for h, n := range hosts { //archtest:anyorder assertions
		h.check(p, n)
	}
	for _, a := range p.addresses { //archtest:anyorder one by one
		a.check()
	}
	for g, n := range groups { //archtest:anyorder assertions
		g.check(p, n, lines)
	}
	for s, n := range own { //archtest:anyorder assertions
		s.check(p, n)
	}
	p.checkLines(lines)
	p.idle.Check()
	p.timers.Check()
}

// A tally counts connections.
type tally struct {
	all, connecting, ready, carrying int // carrying: draining, with something under way
	fresh                            int // of connecting: replace no other
	slots, leaving                   int
	doubtful, untested, trials       int
	stalled, proving, room           int
}

func (n *tally) add(c *Conn) {
	count := func(at *int, is bool) {
		if is {
			*at++
		}
	}
	n.all++
	count(&n.connecting, c.state == Connecting)
	count(&n.ready, c.state == Ready)
	count(&n.carrying, c.state == Draining && c.working())
	count(&n.fresh, c.state == Connecting && !c.replaces)
	count(&n.slots, c.hasSlot())
	count(&n.leaving, c.state == Draining && c.hasSlot())
	count(&n.doubtful, c.doubt != doubtNone)
	count(&n.untested, c.doubt.untested())
	count(&n.trials, c.doubt.trial())
	count(&n.stalled, c.doubt.stalled())
	count(&n.proving, c.proving)
	n.room += c.room
}

// checkLines checks the lists of sites that belong to the pool. Lines counts the sites
// that are in each line.
func (p *Pool) checkLines(lines map[*ilist.List[Site]]int) {
	p.groups.Check()
	p.woken.Check()
	p.stuck.Check()
	p.offline.Check()
	assert.That(lines[&p.offline] == p.offline.Len(), "%d sites wait for the network, listed %d", lines[&p.offline], p.offline.Len())
	assert.That(p.offline.Empty() || p.probe.Running(), "%d sites wait for the network, and none will be woken", p.offline.Len())
	for message, list := range p.sharers { //archtest:anyorder assertions
		list.Check()
		assert.That(!list.Empty(), "a list of sites that wait for message %v is empty", message)
		for s := range list.All() {
			assert.That(s.waits == WaitShare && s.sharing == message, "%s is listed for a share of message %v, and waits for %v of %v", s.name, message, s.waits, s.sharing)
		}
	}
}

func (c *Conn) check() {
	cost := 0
	for _, l := range c.loads {
		cost += l.Cost
	}
	assert.That(cost == c.cost, "connection %d has loads of %d, counted %d", c.ID, cost, c.cost)
	assert.That(c.callouts <= c.finished, "connection %d has carried %d call-outs among %d entries", c.ID, c.callouts, c.finished)
	assert.That(c.charged == 0 || c.broken, "connection %d charges message %v and is not broken", c.ID, c.charged)
	c.checkState()
	c.checkTimes()
	c.checkLinks()
	assert.That(c.doubt == doubtNone || c.hasSlot(), "connection %d is %v without a slot", c.ID, c.doubt)
	assert.That(!c.doubt.untested() || c.isUntested(), "connection %d is %v after %d entries", c.ID, c.doubt, c.finished)
	assert.That(c.doubt == doubtNone || c.finished == 0 || c.links.listed != listedIdle, "connection %d is %v and idle", c.ID, c.doubt)
	assert.That(c.state != Connecting && !c.working() || c.stall.Running() || c.doubt.stalled(), "no timer shows whether connection %d makes progress", c.ID)
}

func (c *Conn) checkState() {
	switch c.state {
	case Connecting:
		assert.That(c.finished == 0 && !c.working(), "connection %d is being opened and has carried %d entries", c.ID, c.finished)
	case Ready:
		assert.That(c.planned != nil, "connection %d is ready and leads to no host of %s", c.ID, c.site.name)
		assert.That(c.timer.Running(), "no timer ends connection %d", c.ID)
		assert.That(c.expiry == DrainAge || c.expiry == DrainOutdated && c.expires <= c.pool.now, "connection %d expires at %d: %v", c.ID, c.expires, c.expiry)
		assert.That(c.limit == 0 || c.finished+len(c.loads) < c.limit, "connection %d has %d and %d entries of %d, and takes more", c.ID, c.finished, len(c.loads), c.limit)
	case gone:
		assert.Unreachable("connection %d is gone and listed", c.ID)
	}
	assert.That(c.state == Connecting || c.message == 0, "connection %d is %v for message %v", c.ID, c.state, c.message)
	assert.That(c.state == Ready || c.room == 0, "connection %d is %v and has room", c.ID, c.state)
	assert.That(c.state == Draining || c.drained == notDrained, "connection %d is %v and drained: %v", c.ID, c.state, c.drained)
	assert.That(!c.proving || c.host.proving, "connection %d is proving and its host is not being proven", c.ID)
	if at := c.planned; at != nil {
		assert.That(at.site == c.site && at.key() == c.host.key, "connection %d to %v is planned as %v of %s", c.ID, c.host.key, at.key(), at.site.name)
	}
}

func (c *Conn) checkTimes() {
	now := c.pool.now
	assert.That(0 < c.made && c.made <= c.moved && c.moved <= now, "connection %d was made at %d, and began something at %d", c.ID, c.made, c.moved)
	if c.state == Connecting {
		assert.That(c.ready == 0 && c.since == 0 && c.used == 0 && c.expires == 0, "connection %d is being opened, and has been ready since %d", c.ID, c.ready)
	} else {
		assert.That(c.made <= c.ready && c.ready <= c.since && c.since <= now, "connection %d was made at %d, ready at %d and %d", c.ID, c.made, c.ready, c.since)
		assert.That(c.ready <= c.used && c.used <= now && c.ready <= c.expires, "connection %d was ready at %d, idle at %d, and expires at %d", c.ID, c.ready, c.used, c.expires)
	}
	assert.That(c.positiveAt <= now && (c.positiveAt != 0) == (c.mails() > 0), "connection %d was well at %d, with %d messages", c.ID, c.positiveAt, c.mails())
	assert.That(c.closed == 0, "connection %d has ended: %v", c.ID, c.closed)
}

func (c *Conn) checkLinks() {
	s, l := c.site, &c.links
	idle, spare := c.state == Ready && !c.working() && !c.suspect, c.state == Ready && c.working() && c.room > 0
	assert.That(l.ofSite.On(&s.conns), "connection %d is not on the list of its site", c.ID)
	assert.That((l.listed == listedIdle) == idle && l.site.On(&s.idle) == idle, "connection %d is listed as idle wrongly", c.ID)
	assert.That((l.listed == listedSpare) == spare && l.site.On(&s.spare) == spare, "connection %d is listed as spare wrongly", c.ID)
	assert.That(l.inPool.On(&c.pool.idle) == idle && l.inGroup.On(&s.group.idle) == idle && l.inHost.On(&c.host.idle) == idle, "connection %d is listed as idle wrongly", c.ID)
}

// check compares a host with the counts of its connections.
func (h *host) check(p *Pool, n *tally) {
	assert.That(p.hosts[h.key] == h, "%v is not known", h.key)
	assert.That(n.all == h.count && (h.count > 0 || h.timer.Running()), "%v has %d connections, counted %d", h.key, n.all, h.count)
	assert.That(n.connecting == h.connecting && n.ready == h.ready && n.carrying == h.carrying, "%v has %d, %d and %d connections, counted %d, %d and %d",
		h.key, n.connecting, n.ready, n.carrying, h.connecting, h.ready, h.carrying)
	assert.That(n.proving <= 1 && (n.proving == 1) == h.proving, "%v is being proven by %d connections: %t", h.key, n.proving, h.proving)
	assert.That(h.inquiry == inquiryNone || h.ready == 0, "%v is %v with %d ready connections", h.key, h.inquiry, h.ready)
	assert.That(h.inquiry != inquiryProbe || h.connecting <= 1, "%v is probed by %d connections", h.key, h.connecting)
	assert.That((h.refused == refusedNothing) == (h.full == 0) && (h.full == 0) == (h.patience == 0), "%v has refused %v until %d, for %v", h.key, h.refused, h.full, h.patience)
	assert.That(h.full <= p.now || h.timer.Running(), "%v takes no more connections until %d, and no timer is set for that", h.key, h.full)
	assert.That(h.reset <= p.lastReset && h.since <= p.now && (h.refused != refusedMore || h.since > 0), "%v has refused %v at %d, after reset %d of %d", h.key, h.refused, h.since, h.reset, p.lastReset)
	assert.That(h.wrongAt <= p.now && (h.wrongAt > 0 || len(h.cuts) == 0 && h.turns == 0 && !h.failing), "%v was in trouble at %d", h.key, h.wrongAt)
	assert.That(!h.failing || len(h.cuts) >= cutsAgain, "%v fails after %d cuts", h.key, len(h.cuts))
	assert.That(len(h.cuts) <= cutsMany && h.turns < turnsMany, "%v has cut %d messages, and turned away %d sessions", h.key, len(h.cuts), h.turns)
	assert.That(h.accepted+h.noise < oddsMemory && h.odd <= h.inRow, "%v has accepted %d sessions, and refused %d, %d of %d in a row by chance", h.key, h.accepted, h.noise, h.odd, h.inRow)
	h.idle.Check()
	assert.That(p.addresses[h.at.key] == h.at && slices.Contains(h.at.hosts, h), "%v is not known at its address", h.key)
}

// check compares an address with its hosts.
func (a *address) check() {
	count := 0
	for _, h := range a.hosts {
		count += h.count
		key := h.key
		key.Security = ""
		assert.That(h.at == a && key == a.key, "%v is listed at %v", h.key, a.key)
	}
	assert.That(count == a.count && len(a.hosts) > 0, "%v has %d hosts with %d connections, counted %d", a.key, len(a.hosts), count, a.count)
	a.waiting.Check()
	for sh := range a.waiting.All() {
		assert.That(sh.site.waits == WaitHost || sh.site.waits == WaitBusy, "%s is listed at %v and waits for %v", sh.site.name, a.key, sh.site.waits)
	}
}

// check compares a transport with the counts of its connections and of the sites in lines.
func (g *Group) check(p *Pool, n *tally, lines map[*ilist.List[Site]]int) {
	assert.That(n.slots == g.open, "%s: %d connections have a slot, counted %d", g.name, n.slots, g.open)
	assert.That(n.leaving == g.leaving, "%s: %d connections that end have a slot, counted %d", g.name, n.leaving, g.leaving)
	assert.That(n.doubtful == g.doubtful, "%s: %d connections are doubtful, counted %d", g.name, n.doubtful, g.doubtful)
	assert.That(n.untested == g.untested, "%s: %d connections are not tested, counted %d", g.name, n.untested, g.untested)
	assert.That(n.trials == g.trials, "%s: %d connections are trials, counted %d", g.name, n.trials, g.trials)
	g.idle.Check()
	for _, line := range []*ilist.List[Site]{&g.slots, &g.shares, &g.fresh, &g.behind} {
		line.Check()
		assert.That(line.Len() == lines[line], "%s: %d sites wait in a line, listed %d", g.name, lines[line], line.Len())
	}
	g.checkTurns()
	assert.That(!g.wanted() || g.inPool.On(&p.groups), "%s has sites that wait and is not listed", g.name)
}

// check compares a site with the counts of its connections.
func (s *Site) check(p *Pool, n *tally) {
	assert.That(n.connecting == s.connecting && n.ready == s.ready, "%s has %d and %d connections, counted %d and %d", s.name, n.connecting, n.ready, s.connecting, s.ready)
	assert.That(n.carrying == s.carrying && n.fresh == s.fresh, "%s has %d connections that end and carry something and %d that replace no other, counted %d and %d",
		s.name, n.carrying, n.fresh, s.carrying, s.fresh)
	assert.That(n.room == s.room, "%s has room for %d, counted %d", s.name, n.room, s.room)
	assert.That(n.doubtful == s.doubtful, "%s has %d doubtful connections, counted %d", s.name, n.doubtful, s.doubtful)
	assert.That(n.stalled == s.stalled, "%s has %d stalled connections, counted %d", s.name, n.stalled, s.stalled)
	assert.That(s.slow() == (s.late > 0) && s.late <= paceVerdicts, "%s is %v, and has %d messages to take promptly", s.name, s.pace, s.late)
	assert.That(s.owed.n >= 0 && s.owed.at <= p.now && (s.owed.n == 0 || s.owed.at > 0), "%s may replace %d connections since %d", s.name, s.owed.n, s.owed.at)
	assert.That(s.failure.vain <= s.failure.at && s.failure.at <= p.now && (s.failure.at > 0 || s.failure.reply.IsZero()), "%s failed at %d, and during an outage at %d", s.name, s.failure.at, s.failure.vain)
	assert.That((s.calloutPause.until == 0) == (s.calloutPause.last == 0), "%s opens no connections for call-outs until %d, for %v", s.name, s.calloutPause.until, s.calloutPause.last)
	s.conns.Check()
	s.idle.Check()
	s.spare.Check()
	for prev, c := (*Conn)(nil), s.spare.Front(); c != nil; prev, c = c, s.spare.Next(&c.links.site) {
		assert.That(prev == nil || prev.ready <= c.ready, "%s: connections with room are not in the order of their age", s.name)
	}
	listed := false
	for i, tier := range s.tiers {
		for _, sh := range tier {
			assert.That(sh.site == s && sh.tier == i, "%s: a host of tier %d is planned for tier %d of %s", s.name, i, sh.tier, sh.site.name)
			listed = listed || sh.inWaiting.Listed()
		}
	}
	s.checkWait(p, listed)
}

// checkWait checks that a site is listed where what it waits for finds it. atHost is
// whether that is at one of its hosts.
func (s *Site) checkWait(p *Pool, atHost bool) {
	g, l := s.group, s.line
	found := false
	switch s.waits {
	case WaitSlot:
		found = l == &g.slots || l == &g.shares
	case WaitPart:
		found = l == &g.shares || l == &g.fresh || l == &g.behind
	case WaitShare:
		found = l == &g.shares
	case WaitOutage:
		found = l == &p.offline
	case WaitHost, WaitBusy:
		found = l == nil && (atHost || s.timer.Running())
	case WaitRate, WaitCallout:
		found = l == nil && s.timer.Running()
	default: // it is woken by what happens to itself
		found = l == nil && !s.timer.Running()
	}
	assert.That(found && (l == nil && !s.inLine.Listed() || s.inLine.On(l)), "%s waits for %v, and nothing that ends the wait finds it", s.name, s.waits)
	assert.That(!atHost || s.waits == WaitHost || s.waits == WaitBusy, "%s waits for %v, and is listed at a host", s.name, s.waits)
	assert.That(s.inShare.Listed() == (s.waits == WaitShare), "%s waits for %v, listed for a share: %t", s.name, s.waits, s.inShare.Listed())
	assert.That((s.cause == causeHost) == (s.at != nil) && (s.cause == causeShare || s.eased == 0), "%s was woken by %v, and by message %v", s.name, s.cause, s.eased)
}
