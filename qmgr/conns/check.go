package conns

import "github.com/posthaste-mta/posthaste/internal/assert"

// Check panics unless everything that is counted or listed agrees with what it
// counts. It is for tests and takes time in proportion to the connections.
func (p *Pool) Check() {
	open := 0
	groups, hosts := make(map[*Group]int), make(map[*host]host)
	leaving, doubtful, untested, trials := make(map[*Group]int), make(map[*Group]int), make(map[*Group]int), make(map[*Group]int)
	for c := range p.all.All() {
		assert.That(p.conns[c.ID] == c, "connection %d is not known", c.ID)
		c.check()
		hosts[c.host] = hosts[c.host].with(c)
		if c.state != Draining || len(c.loads) > 0 {
			open++
			groups[c.site.group]++
			if c.state == Draining {
				leaving[c.site.group]++
			}
		}
		if c.doubtful {
			doubtful[c.site.group]++
		}
		if c.untested {
			untested[c.site.group]++
		}
		if c.trial {
			trials[c.site.group]++
		}
	}
	assert.That(p.all.Len() == len(p.conns), "%d connections, %d known", p.all.Len(), len(p.conns))
	assert.That(open == p.open, "%d connections hold a slot, counted %d", open, p.open)
	for g, n := range groups { //archtest:anyorder assertions
		assert.That(n == g.open, "%s: %d connections hold a slot, counted %d", g.name, n, g.open)
		assert.That(leaving[g] == g.leaving, "%s: %d connections that end hold a slot, counted %d", g.name, leaving[g], g.leaving)
		assert.That(doubtful[g] == g.doubtful, "%s: %d connections are doubtful, counted %d", g.name, doubtful[g], g.doubtful)
		assert.That(untested[g] == g.untested, "%s: %d connections are not tested, counted %d", g.name, untested[g], g.untested)
		assert.That(trials[g] == g.trials, "%s: %d connections are trials, counted %d", g.name, trials[g], g.trials)
	}
	for _, h := range p.hosts { //archtest:anyorder assertions
		n := hosts[h]
		assert.That(n.count == h.count && (h.count > 0 || h.timer.slot.Heaped()), "%v has %d connections, counted %d", h.key, n.count, h.count)
		assert.That(n.connecting == h.connecting && n.ready == h.ready && n.carrying == h.carrying, "%v has %d, %d and %d connections, counted %d, %d and %d",
			h.key, n.connecting, n.ready, n.carrying, h.connecting, h.ready, h.carrying)
		h.waiting.Check()
		h.idles.Check()
		for sp := range h.waiting.All() {
			assert.That(sp.site.waits == WaitHost || sp.site.waits == WaitBusy, "%s is listed at %v and waits for %v", sp.site.name, h.key, sp.site.waits)
		}
	}
	p.idle.Check()
	p.groups.Check()
	p.outaged.Check()
	for g := range p.groups.All() {
		g.slots.Check()
		g.shares.Check()
		g.fresh.Check()
		g.behind.Check()
	}
	for s := range p.outaged.All() {
		assert.That(s.waits == WaitOutage && p.probe.slot.Heaped(), "%s waits for %v and is listed for the network", s.name, s.waits)
	}
	sharers := 0
	for message, list := range p.sharers { //archtest:anyorder sums and assertions
		list.Check()
		sharers += list.Len()
		assert.That(!list.Empty(), "a list of sites that wait for message %v is empty", message)
		for s := range list.All() {
			assert.That(s.waits == WaitShare && s.sharer == message, "%s is listed for a share of message %v, and waits for %v of %v", s.name, message, s.waits, s.sharer)
		}
	}
	for g := range p.groups.All() {
		for s := range g.shares.All() {
			if s.waits == WaitShare {
				sharers--
			}
		}
	}
	assert.That(sharers == 0, "of the sites that wait for shares %d are not listed with both their transport and message", sharers)
	p.woken.Check()
	p.timers.Check()
}

// with returns the counts with one connection more.
func (h host) with(c *Conn) host {
	h.count++
	switch {
	case c.state == Connecting:
		h.connecting++
	case c.state == Ready:
		h.ready++
	case len(c.loads) > 0:
		h.carrying++
	}
	return h
}

func (c *Conn) check() {
	load := 0
	for _, l := range c.loads {
		load += l.Cost
	}
	assert.That(load == c.load, "connection %d has a load of %d, counted %d", c.ID, load, c.load)
	assert.That((c.listed == placeIdle) == (c.state == Ready && len(c.loads) == 0 && !c.suspect), "connection %d is listed as idle wrongly", c.ID)
	assert.That((c.listed == placeSpare) == (c.state == Ready && len(c.loads) > 0 && c.room > 0), "connection %d is listed as spare wrongly", c.ID)
	assert.That(!c.doubtful || c.finished == 0 || c.listed != placeIdle, "connection %d is doubtful and idle", c.ID)
	assert.That(c.state == Ready || c.room == 0, "connection %d is %v and has room", c.ID, c.state)
	assert.That(c.inAll.On(&c.site.conns), "connection %d is not on the list of its site", c.ID)
}

// Check does that for one site.
func (s *Site) Check() {
	connecting, ready, carrying, fresh, room, doubtful, stalled := 0, 0, 0, 0, 0, 0, 0
	for c := range s.conns.All() {
		assert.That(c.site == s, "%s lists connection %d, which is of another site", s.name, c.ID)
		switch c.state {
		case Connecting:
			connecting++
			if !c.replaces {
				fresh++
			}
		case Ready:
			ready++
		case Draining:
			if len(c.loads) > 0 {
				carrying++
			}
		}
		room += c.room
		if c.doubtful {
			doubtful++
		}
		if c.stalled {
			stalled++
		}
	}
	assert.That(stalled == s.stalled, "%s has %d stalled connections, counted %d", s.name, stalled, s.stalled)
	assert.That(doubtful == s.doubtful, "%s has %d doubtful connections, counted %d", s.name, doubtful, s.doubtful)
	assert.That(connecting == s.connecting && ready == s.ready, "%s has %d and %d connections, counted %d and %d", s.name, connecting, ready, s.connecting, s.ready)
	assert.That(carrying == s.carrying && fresh == s.fresh, "%s has %d connections that end and carry something and %d that replace no other, counted %d and %d",
		s.name, carrying, fresh, s.carrying, s.fresh)
	assert.That(room == s.room, "%s has room for %d, counted %d", s.name, room, s.room)
	s.idle.Check()
	s.spare.Check()
	s.checkWait()
	for prev, c := (*Conn)(nil), s.spare.Front(); c != nil; prev, c = c, s.spare.Next(&c.inSite) {
		assert.That(prev == nil || prev.ready <= c.ready, "%s: connections with room are not in the order of their age", s.name)
	}
}

// checkWait checks that a site is listed where what it waits for finds it.
func (s *Site) checkWait() {
	g := s.group
	assert.That(s.waits == WaitSlot || !s.inWait.On(&g.slots), "%s waits for %v, and is listed for a slot", s.name, s.waits)
	assert.That((s.waits == WaitSlot || s.waits == WaitShare || s.waits == WaitPart) == (s.inWait.On(&g.slots) || s.inWait.On(&g.shares) || s.inWait.On(&g.fresh) || s.inWait.On(&g.behind)),
		"%s waits for %v, listed for a share: %t", s.name, s.waits, s.inWait.On(&g.shares))
	assert.That(!g.wanted() || g.inPool.Listed(), "%s has sites that wait and is not listed", g.name)
}
