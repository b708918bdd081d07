package conns

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A Blame says whom a failure tells something about.
type Blame uint8

const (
	BlameNone Blame = iota // nobody: the connection ended as connections do
	BlameHost              // the host alone: others of its tier can do its work
	BlameSite              // the site: it is negative feedback for the queue's window
	BlameLoop              // the host is this one, and none is better: mail for the site comes back here
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
	p.wakeSite(s)
	if !o.Reply.IsZero() {
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
	c.state, c.message, c.ready = Ready, 0, now
	h.ready++
	s.ready++
	h.probing, h.doubted = false, false
	p.forgive(h)
	p.wakeAll(h)
	p.works(c)
	p.db.ObserveCaps(h.key, o.Extensions, o.SizeMax, now)
	asked := c.level
	c.level, c.rtt = min(asked, o.Level), o.RTT
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
	if c.spot == nil {
		c.spot = s.spotOf(h.key)
	}
	if asked == mail.LevelOverlap && c.outdated(now) { // the probe has ended meanwhile
		c.expires = now
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

// An End is how far an entry came on its connection.
type End uint8

const (
	EndUntried End = iota // it was not begun, or nobody can tell
	EndBroken             // it was begun, and the end of the connection has decided
	EndOurs               // we have decided, without the server; the connection is what it was
	EndJudged             // the server has said what becomes of it
)

// Finished takes the end of an entry. took is what the transaction took of the
// connection's time. It tells whether this is positive feedback for the window: at
// most one each second and round trip for each connection, or a pipelined one would
// outweigh all others.
func (p *Pool) Finished(c *Conn, entry uint64, took time.Duration, end End, now mail.Instant) (praise bool) {
	p.now = now
	l := c.drop(entry)
	c.suspect = end == EndUntried || end == EndBroken
	if end == EndJudged || end == EndBroken {
		c.asked = l.Callout
	}
	if end == EndJudged {
		c.finished++
		praise = p.judged(c, l, took, now)
	}
	if len(c.loads) == 0 {
		c.used = now
		if c.state == Draining {
			c.host.carrying--
			p.release(c)
		}
	}
	c.update()
	if c.state == Ready && len(c.loads) == 0 {
		p.rest(c)
	}
	return praise
}

// judged takes in that the host has said what becomes of an entry, and tells whether
// that is feedback.
func (p *Pool) judged(c *Conn, l Load, took time.Duration, now mail.Instant) (praise bool) {
	p.works(c)
	if l.Callout {
		c.callouts++
		return false
	}
	c.service = smoothed(c.service, took)
	if c.mails() > 1 && now < c.praised.Add(max(time.Second, c.rtt)) {
		return false
	}
	c.praised = now
	p.observe(c, l, took, now)
	return !p.Slow(c, now)
}

// Slow tells that the host of a connection takes several times as long over a
// message as it can. It has more to do than it can bear, or wants to be left
// alone: its success is no reason to open more connections to it.
func (p *Pool) Slow(c *Conn, now mail.Instant) bool { return p.db.View(c.host.key, now).Slow }

// small is the cost of a message with one recipient and at most 8 KiB. Only these
// are compared with each other: a newsletter takes longer than a letter on a server
// that is quite well.
const small = unit + unit/8

// observe tells destdb what transactions on the connection are like.
func (p *Pool) observe(c *Conn, l Load, took time.Duration, now mail.Instant) {
	key := c.host.key
	if c.mails() == 1 {
		p.db.Succeeded(key, now) // it takes mail, and not only connections
		p.db.ObserveRTT(key, c.rtt, now)
	}
	if l.Cost <= small {
		p.db.ObserveService(key, max(took-c.rtt, 0), now)
	}
}

// smoothed returns the exponentially weighted mean of durations.
func smoothed(mean, next time.Duration) time.Duration {
	if mean == 0 {
		return next
	}
	return mean + (next-mean)/4
}

// rest deals with a connection that has nothing to carry. Those who may have use
// for it take it over, or have it closed for their own, only if its own site has
// no more use for it: they are asked after that.
func (p *Pool) rest(c *Conn) {
	if end := c.end(); !c.timer.slot.Heaped() || end < c.timer.at {
		p.setTimer(&c.timer, end)
	}
	if c.suspect {
		return
	}
	p.wakeHost(c.host)
	p.wakeSlot()
}

// early is how long a connection has to have been there for its loss to say
// nothing about the host.
const early = 5 * time.Second

// Closed takes the end of a connection. All its entries have been finished.
func (p *Pool) Closed(id ID, cl mail.Closing, now mail.Instant) (blame Blame) {
	c := p.conns[id]
	assert.That(c != nil && c.state != Connecting, "connection %d ends, and was not ready", id)
	assert.That(len(c.loads) == 0, "connection %d ends with %d entries", id, len(c.loads))
	p.now = now
	s := c.site
	if c.state == Ready {
		p.Drain(c)
	}
	switch {
	case cl.Why == mail.CloseStep, cl.Why == mail.CloseLost && !c.asked:
		p.db.StepDown(c.host.key, cl.Level, now)
	case cl.Why == mail.CloseMixed:
		p.db.HoldForever(c.host.key, mail.LevelGroup, now)
	}
	p.proved(c.host, cl.Proof, now)
	if p.blames(c, cl, now) {
		blame = p.failed(c, cl.Reply, now)
	}
	c.why = cl.Why
	p.ended(c, cl, now)
	p.remove(c, now)
	p.wakeSite(s)
	return blame
}

// proved takes what a probe of a host has found out. Connections that were made before
// it was proven give way to ones that stream.
func (p *Pool) proved(h *host, proof mail.Proof, now mail.Instant) {
	if proof == mail.ProofNone {
		return
	}
	p.db.Probed(h.key, proof, now)
	if proof != mail.ProofPassed {
		return
	}
	for c := range p.all.All() {
		if c.host == h && c.state == Ready && c.outdated(now) {
			c.expires = now
			p.setTimer(&c.timer, now)
		}
	}
}

// outdated tells whether the connection was made before its host was proven able of
// LevelStream, and has not seen to that itself.
func (c *Conn) outdated(now mail.Instant) bool {
	return c.level == mail.LevelOverlap && !c.proving && c.limits().Level == mail.LevelStream && c.pool.db.View(c.host.key, now).Streams
}

// blames tells whether the way in which a connection ended is a failure.
func (p *Pool) blames(c *Conn, cl mail.Closing, now mail.Instant) bool {
	switch cl.Why {
	case mail.CloseAsked:
		return false
	case mail.CloseIdle:
		return c.finished == 0 && now < c.ready.Add(early)
	case mail.CloseStep: // it speaks, and will be spoken to more simply at once
		return c.finished == 0 && cl.Level == mail.LevelLockStep
	case mail.CloseBusy, mail.CloseLost:
		// A server that takes so many messages on one connection and no more is
		// not in trouble.
		return c.limit == 0 || c.finished < c.limit
	}
	return true
}

// quiet is for how long nothing may have worked before failures are taken for an
// outage of our own network: many dead destinations that are tried at once look the
// same, but for the connections that go on.
const quiet = 20 * time.Second

// works notes that a connection does its work, be it new or old. That of an old one
// is a result only in an outage: looking through all results for each message took
// two microseconds.
func (p *Pool) works(c *Conn) {
	p.worked = p.now
	if c.finished > 1 && p.outage.Since() == 0 {
		return
	}
	since := c.made
	if c.finished > 0 {
		since = p.now
	}
	if p.outage.Result(c.host.key.Addr.Addr(), since, p.now, true) {
		p.networkIsBack()
	}
}

// failed deals with a connection that could not be made, or broke.
func (p *Pool) failed(c *Conn, why mail.Reply, now mail.Instant) Blame {
	h, s := c.host, c.site
	s.last, s.lastAt = why, now
	switch {
	case c.asked: // who is tired of questions may still want mail
		p.refused(h, now)
		return BlameHost
	case h.ready+h.carrying > 0 || c.mails() > 0:
		p.refused(h, now)
		return blameBusy(why)
	case h.connecting > 0: // let those show what is true
		h.doubted = true
		return blameBusy(why)
	}
	if now >= p.worked.Add(quiet) {
		p.outage.Result(h.key.Addr.Addr(), c.made, now, false)
	}
	if p.outage.Since() != 0 {
		s.vain = now
		return BlameNone
	}
	p.db.Failed(h.key, c.made, now, why)
	p.wakeAll(h) // there is nothing to wait for
	if !p.others(s, c.spot, now) {
		return BlameSite
	}
	return blameBusy(why)
}

// blameBusy returns whose a failure is that others can make good. A server that
// says that it is too busy means all of us.
func blameBusy(why mail.Reply) Blame {
	if why.Code == 421 {
		return BlameSite
	}
	return BlameHost
}

// others tells whether another host of the tier can be used.
func (p *Pool) others(s *Site, sp *spot, now mail.Instant) bool {
	if sp == nil {
		return true // the site has done without it before
	}
	return slices.ContainsFunc(s.tiers[sp.tier], func(other *spot) bool {
		key := other.key()
		h := p.hosts[key]
		return key != sp.key() && (h != nil && h.working() || p.db.RetryAt(key, now) == 0)
	})
}

// remove forgets a connection that has ended, or was never made.
func (p *Pool) remove(c *Conn, now mail.Instant) {
	h, s := c.host, c.site
	life := destdb.Life{MadeAt: c.ready, Messages: uint32(c.finished), Clean: uint32(c.clean()), Level: c.level, Why: c.why}
	p.db.Shut(h.key, life, now)
	if c.state == Connecting {
		p.release(c)
	}
	c.prove(false)
	c.state = gone
	p.stopTimer(&c.timer)
	s.conns.Remove(&c.inAll)
	delete(p.conns, c.ID)
	p.all.Remove(&c.inOrder)
	h.count--
	p.wakeHost(h)
	if h.count == 0 {
		p.vacate(h)
	}
}

// clean is how many transactions speak for the level at which they were made.
func (c *Conn) clean() int {
	switch c.why {
	case mail.CloseStep, mail.CloseMixed, mail.CloseWrong:
		return 0
	}
	return c.mails()
}

// vacate forgets a host without connections.
func (p *Pool) vacate(h *host) {
	p.wakeAll(h)
	p.stopTimer(&h.timer)
	delete(p.hosts, h.key)
}
