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

// Closed takes the end of a connection. All its entries have been finished.
func (p *Pool) Closed(id ID, cl mail.Closing, now mail.Instant) (blame Blame) {
	c := p.conns[id]
	assert.That(c != nil && c.state != Connecting, "connection %d ends, and was not ready", id)
	assert.That(len(c.loads) == 0, "connection %d ends with %d entries", id, len(c.loads))
	p.now = now
	s := c.site
	if c.state == Ready {
		p.Drain(c)
		if c.mails() > 0 {
			s.owe(now)
		}
	}
	switch {
	case cl.Why == mail.CloseStep:
		p.db.StepDown(c.host.key, cl.Level, now)
	case cl.Why == mail.CloseLost && !c.asked && cl.Level > mail.LevelLockStep:
		p.db.Suspect(c.host.key, cl.Level, now)
	case cl.Why == mail.CloseMixed:
		p.db.HoldForever(c.host.key, mail.LevelGroup, now)
	}
	p.proved(c.host, cl.Proof, now)
	switch c.faultOf(cl, now) {
	case faultSession:
		blame = p.failed(c, cl.Reply, now)
	case faultTransaction:
		blame = p.cut(c, cl.Reply, now)
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
			c.expires, c.givesWay = now, true
			p.setTimer(&c.timer, now)
		}
	}
}

// outdated tells whether the connection was made before its host was proven able of
// LevelStream, and has not seen to that itself.
func (c *Conn) outdated(now mail.Instant) bool {
	return c.level == mail.LevelOverlap && !c.proving && c.limits().Level == mail.LevelStream && c.pool.db.View(c.host.key, now).Streams
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

// failed deals with a connection that could not be made, or that the host ended before
// it had said anything about a transaction.
func (p *Pool) failed(c *Conn, why mail.Reply, now mail.Instant) Blame {
	h, s := c.host, c.site
	s.last, s.lastAt = why, now
	beside := h.ready+h.carrying > 0
	if beside && h.byChance(h.ready+h.carrying, now) {
		if c.replaces {
			s.owe(now)
		}
		return BlameHost
	}
	s.owed = 0
	switch {
	case beside:
		p.refuses(h, c.made, now)
		return blameBusy(why)
	case h.connecting > 0: // let those show what is true
		h.doubted = true
		return blameBusy(why)
	case p.isOffline(c, now): // noticed at the first failure, not when the host is given up
		return BlameNone
	case p.turnedAway(c, why, now):
		return blameBusy(why)
	}
	return p.down(c, why, now)
}

// isOffline notes that nothing works with the host of a connection, and reports whether
// that is held to be due to our network.
func (p *Pool) isOffline(c *Conn, now mail.Instant) bool {
	if p.isEvidence(c.host, now) {
		p.outage.Result(c.host.key.Addr.Addr(), c.made, now, false)
	}
	if p.outage.Since() == 0 {
		return false
	}
	c.site.vain = now
	return true
}

// down takes in that a host does nothing for us any more.
func (p *Pool) down(c *Conn, why mail.Reply, now mail.Instant) Blame {
	h, s := c.host, c.site
	if p.isOffline(c, now) {
		return BlameNone
	}
	p.db.Failed(h.key, c.made, now, why)
	p.wakeAll(h) // there is nothing to wait for
	if !p.others(s, c.spot, now) {
		return BlameSite
	}
	return blameBusy(why)
}

// tire has a site open no connections for call-outs for a while, for longer each time.
func (s *Site) tire(now mail.Instant) {
	s.tiredFor = min(max(2*s.tiredFor, firstPatience), lastPatience)
	s.tired = now.Add(s.tiredFor)
}

// Tired returns for how much longer it matters that hosts of the site have ended
// connections over call-outs: until a further time would count as the first again.
func (s *Site) Tired(now mail.Instant) time.Duration {
	return max(s.tired.Add(s.tiredFor).Sub(now), 0)
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
	life := destdb.Life{MadeAt: c.ready, Messages: uint32(c.finished), Clean: uint32(c.clean()), Level: c.level, Why: c.why, Outlived: c.outlived()}
	if c.tired() {
		life.Why = mail.CloseIdle // destdb learns from the others after how many messages the host ends a connection
	}
	p.db.Shut(h.key, life, now)
	if c.state == Connecting {
		p.release(c)
	}
	c.prove(false)
	c.state = gone
	p.stopTimer(&c.timer)
	p.stopTimer(&c.stall)
	s.conns.Remove(&c.inAll)
	delete(p.conns, c.ID)
	p.all.Remove(&c.inOrder)
	h.count--
	p.wakeHost(h)
	if h.count == 0 {
		p.vacate(h, now)
	}
}

// outlived reports whether another connection to the host has carried more, and is
// still there.
func (c *Conn) outlived() bool {
	for other := range c.site.conns.All() {
		if other.host == c.host && other.mails() > max(c.finished, 1) {
			return true
		}
	}
	return false
}

// tired tells whether the host has ended the connection over a call-out.
func (c *Conn) tired() bool {
	return c.asked && (c.why == mail.CloseBusy || c.why == mail.CloseLost)
}

// clean is how many transactions speak for the level at which they were made.
func (c *Conn) clean() int {
	switch c.why {
	case mail.CloseStep, mail.CloseMixed, mail.CloseWrong:
		return 0
	}
	return c.mails()
}

// vacate deals with a host whose last connection is gone. What went wrong there is
// remembered for a while.
func (p *Pool) vacate(h *host, now mail.Instant) {
	p.wakeAll(h)
	if now < h.until() {
		h.timer.host = h
		p.setTimer(&h.timer, h.until())
		if h.shut(now) {
			p.setTimer(&h.timer, h.full)
		}
		return
	}
	p.stopTimer(&h.timer)
	delete(p.hosts, h.key)
}
