package conns

import "github.com/posthaste-mta/posthaste/internal/assert"

// Check panics unless everything that is counted or listed agrees with what it
// counts. It is for tests and takes time in proportion to the connections.
func (p *Pool) Check() {
	open := 0
	groups, hosts := make(map[*Group]int), make(map[*host]int)
	for c := range p.all.All() {
		assert.That(p.conns[c.ID] == c, "connection %d is not known", c.ID)
		c.check()
		hosts[c.host]++
		if c.state != Draining || len(c.loads) > 0 {
			open++
			groups[c.site.group]++
		}
	}
	assert.That(p.all.Len() == len(p.conns), "%d connections, %d known", p.all.Len(), len(p.conns))
	assert.That(open == p.open, "%d connections hold a slot, counted %d", open, p.open)
	for g, n := range groups { //archtest:anyorder assertions
		assert.That(n == g.open, "%s: %d connections hold a slot, counted %d", g.name, n, g.open)
	}
	for _, h := range p.hosts { //archtest:anyorder assertions
		assert.That(hosts[h] == h.count && h.count > 0, "%v has %d connections, counted %d", h.key, hosts[h], h.count)
		h.waiting.Check()
	}
	p.idle.Check()
	p.slots.Check()
	p.woken.Check()
	p.timers.Check()
}

func (c *Conn) check() {
	load := 0
	for _, l := range c.loads {
		load += l.Cost
	}
	assert.That(load == c.load, "connection %d has a load of %d, counted %d", c.ID, load, c.load)
	assert.That((c.listed == placeIdle) == (c.state == Ready && len(c.loads) == 0 && !c.suspect), "connection %d is listed as idle wrongly", c.ID)
	assert.That((c.listed == placeSpare) == (c.state == Ready && len(c.loads) > 0 && c.room > 0), "connection %d is listed as spare wrongly", c.ID)
	assert.That(c.state == Ready || c.room == 0, "connection %d is %v and has room", c.ID, c.state)
	assert.That(c.inAll.On(&c.site.conns), "connection %d is not on the list of its site", c.ID)
}

// Check does that for one site.
func (s *Site) Check() {
	connecting, ready, room := 0, 0, 0
	for c := range s.conns.All() {
		assert.That(c.site == s, "%s lists connection %d, which is of another site", s.name, c.ID)
		switch c.state {
		case Connecting:
			connecting++
		case Ready:
			ready++
		}
		room += c.room
	}
	assert.That(connecting == s.connecting && ready == s.ready, "%s has %d and %d connections, counted %d and %d", s.name, connecting, ready, s.connecting, s.ready)
	assert.That(room == s.room, "%s has room for %d, counted %d", s.name, room, s.room)
	s.idle.Check()
	s.spare.Check()
}
