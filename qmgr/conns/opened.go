package conns

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// Dialed takes the result of dialling: c is the connection if it is ready,
// otherwise it is gone. Surplus are connections to hosts that are not to be used
// any more, which have to be hung up.
func (p *Pool) Dialed(id ID, o mail.OpenedConnection, now mail.Instant) (c *Conn, surplus []*Conn, blame Blame) {
	c = p.conns[id]
	assert.That(c != nil && c.state == Connecting, "connection %d is dialled, and was not to be", id)
	p.now = now
	h, s := c.host, c.site
	h.connecting--
	s.connecting--
	if !c.replaces {
		s.fresh--
	}
	p.wakeSite(s)
	if !o.Reply.IsZero() {
		if o.Reply.By != "" {
			p.hears(h, now)
		}
		switch {
		case o.Unavailable || p.halted: // it was not reached, and is as it was
			h.probing = false
		case o.Reply.Permanent():
			surplus, blame = p.looped(c)
		default:
			blame = p.failed(c, o.Reply, now)
		}
		p.remove(c, now)
		return nil, surplus, blame
	}
	c.state, c.message, c.ready, c.since = Ready, 0, now, now
	h.ready++
	s.ready++
	h.probing, h.doubted = false, false
	h.accepts(h.ready+h.carrying, now)
	p.forgive(h)
	p.wakeAll(h)
	p.works(c)
	p.db.ObserveCaps(h.key, o.Extensions, o.SizeMax, now)
	most := c.level
	c.level, c.rtt = min(most, o.Level), o.RTT
	limits := c.limits()
	c.limit = least(limits.Count, o.Mails, p.db.View(h.key, now).MessagesMax)
	if c.prove(c.proving && o.Probes); c.proving {
		c.limit = least(c.limit, provingMessages)
	}
	c.expires = mail.Never
	if life := limits.ActiveTime; life > 0 {
		c.expires = now.Add(p.rng.Between(life-life/10, life+life/10))
	}
	c.used = now
	s.stuck = false
	p.stopTimer(&s.silent)
	if c.spot == nil {
		c.spot = s.spotOf(h.key)
	}
	if most == mail.LevelOverlap && c.outdated(now) { // the probe has ended meanwhile
		c.expires, c.givesWay = now, true
	}
	c.update()
	p.setTimer(&c.timer, c.end())
	if c.spot == nil { // its host was taken off the plan meanwhile
		p.part(c, PartPlan)
		return c, []*Conn{c}, BlameNone
	}
	p.wakeSlot() // should the site have no use for it any more
	return c, p.inferior(c), BlameNone
}

// Halt tells that nothing is to be started any more: what comes to nothing from
// now on says nothing about hosts.
func (p *Pool) Halt() { p.halted = true }

// looped deals with a host that has turned out to be this one. Hosts that are no
// better would send the mail back here sooner or later, so they are left out
// until they are looked up again (RFC 5321 5.1).
func (p *Pool) looped(c *Conn) (surplus []*Conn, blame Blame) {
	c.host.probing = false
	if c.spot == nil {
		return nil, BlameNone
	}
	s, tier := c.site, c.spot.tier
	for other := range s.conns.All() {
		if other.spot == nil || other.spot.tier < tier {
			continue
		}
		if other.spot = nil; other.state == Ready {
			surplus = append(surplus, other)
		}
	}
	p.stopWaiting(s)
	if s.tiers = s.tiers[:tier]; tier == 0 {
		s.until, blame = 0, BlameLoop
	}
	for _, other := range surplus {
		p.part(other, PartPlan)
	}
	p.wake(s)
	return surplus, blame
}

// least returns the smallest of several limits, of which 0 means none.
func least(limits ...int) int {
	least := 0
	for _, l := range limits {
		if l > 0 && (least == 0 || l < least) {
			least = l
		}
	}
	return least
}

// inferior lets connections to worse tiers than c's end: what they were for has
// passed.
func (p *Pool) inferior(c *Conn) []*Conn {
	if c.spot == nil {
		return nil
	}
	var surplus []*Conn
	for other := range c.site.conns.All() {
		if other.state == Ready && other.spot != nil && other.spot.tier > c.spot.tier {
			surplus = append(surplus, other)
		}
	}
	for _, other := range surplus {
		p.part(other, PartBetter)
	}
	return surplus
}
