package conns

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// Dialed takes the result of dialing: c is the connection if it is ready, otherwise it is
// gone. Surplus are connections to hosts that are not to be used any more, which have to
// be hung up; c may be one of them.
func (p *Pool) Dialed(id ID, o mail.OpenedConnection, now mail.Instant) (c *Conn, surplus []*Conn, f Feedback) {
	c = p.conns[id]
	assert.That(c != nil && c.state == Connecting, "connection %d is dialed, and was not to be", id)
	p.now = now
	h, s := c.host, c.site
	h.connecting--
	s.connecting--
	if !c.replaces {
		s.fresh--
	}
	p.wakeSite(s)
	if o.Reply.IsZero() {
		surplus, f = p.isReady(c, o, now)
		return c, surplus, f
	}
	if o.Reply.By != "" {
		p.hostAnswered(h, now)
	}
	switch {
	case o.Unavailable || o.Unbound || p.halted: // it was not reached, and is as it was
		p.stopProbe(h)
	case o.Insecure:
		f = p.unsafe(c, o.Reply, now)
	case o.Reply.Permanent() && o.Reply.By == "": // our own verdict: a host may send such a reply for any reason
		surplus, f = p.looped(c)
	default:
		f = p.failed(c, o.Reply, now)
	}
	p.remove(c, now)
	return nil, surplus, f
}

// isReady takes a connection into use.
func (p *Pool) isReady(c *Conn, o mail.OpenedConnection, now mail.Instant) (surplus []*Conn, f Feedback) {
	h, s := c.host, c.site
	c.become(Ready)
	c.message, c.ready, c.since, c.used = 0, now, now, now
	h.ready++
	s.ready++
	p.inquire(h, inquiryNone)
	h.accepts(h.ready+h.carrying, now)
	p.clearRefusal(h)
	p.wakeAll(h)
	p.connWorks(c)
	p.db.ObserveCaps(h.key, o.Extensions, o.SizeMax, now)
	asked := c.level
	c.agree(o, now)
	p.gotOn(s)
	p.timers.Stop(&s.answer)
	if c.planned == nil {
		c.planned = s.find(h.key)
	}
	if asked == mail.LevelOverlap && c.outdated(now) { // the probe has ended meanwhile
		c.expireOutdated(now)
	}
	c.update()
	p.timers.Set(&c.timer, c.end())
	if c.planned == nil { // its host was taken off the plan meanwhile
		p.drainFor(c, DrainHostGone)
		return []*Conn{c}, feedbackNone
	}
	p.wakeAddress(h.at) // should the site have no use for it any more
	p.wakeSlot()
	surplus = p.inferior(c)
	if p.isSlow(c, now) {
		return surplus, FeedbackAlive
	}
	return surplus, FeedbackPositive
}

// agree notes what the host and we may do on a connection.
func (c *Conn) agree(o mail.OpenedConnection, now mail.Instant) {
	p, limits := c.pool, c.limits()
	c.level, c.rtt, c.security = min(c.level, o.Level), o.RTT, o.Security
	c.limit = least(limits.Count, o.Mails, p.db.View(c.host.key, now).MessagesMax)
	if c.prove(c.proving && o.Probes); c.proving {
		c.limit = least(c.limit, provingMessages)
	}
	c.expires, c.expiry = mail.Never, DrainAge
	if life := limits.ActiveTime; life > 0 {
		c.expires = now.Add(p.rng.Between(life-life/10, life+life/10))
	}
}

// unsafe deals with a host that cannot be secured as the site's mail demands. It is there, so
// that this is no evidence about our network, and other mail may be sent to it: what is
// remembered concerns this demand only (keyOf). No window moves.
func (p *Pool) unsafe(c *Conn, why mail.Reply, now mail.Instant) Feedback {
	h, s := c.host, c.site
	s.failure.reply, s.failure.at = why, now
	p.hostAnswered(h, now)
	switch {
	case h.ready+h.carrying > 0: // it did better a moment ago: one of several servers behind an address
		p.refuses(h, c.made, now)
	case h.connecting > 0: // let those show what is true, or two sites would dial in turns for ever
		if h.inquiry != inquiryProbe {
			p.inquire(h, inquiryDoubt)
		}
	default:
		p.db.Failed(h.key, c.made, now, why)
		p.wakeAll(h)
	}
	return feedbackHost
}

// looped deals with a host that has turned out to be this one. Hosts that are no
// better would send the mail back here sooner or later, so they are left out
// until they are looked up again (RFC 5321 5.1).
func (p *Pool) looped(c *Conn) (surplus []*Conn, f Feedback) {
	p.stopProbe(c.host)
	if c.planned == nil {
		return nil, feedbackNone
	}
	s, tier := c.site, c.planned.tier
	for other := range s.conns.All() {
		if other.planned == nil || other.planned.tier < tier {
			continue
		}
		if other.planned = nil; other.state == Ready {
			surplus = append(surplus, other)
		}
	}
	p.stopWaiting(s)
	if s.tiers = s.tiers[:tier]; tier == 0 {
		s.until, f = 0, FeedbackLoop
	}
	for _, other := range surplus {
		p.drainFor(other, DrainHostGone)
	}
	p.wake(s)
	return surplus, f
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

// inferior drains connections to worse tiers than c's: what they were for has passed.
func (p *Pool) inferior(c *Conn) (surplus []*Conn) {
	for other := range c.site.conns.All() {
		if other.state == Ready && other.planned != nil && other.planned.tier > c.planned.tier {
			surplus = append(surplus, other)
		}
	}
	for _, other := range surplus {
		p.drainFor(other, DrainBetterHost)
	}
	return surplus
}
