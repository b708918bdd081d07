package conns

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// Closed takes the end of a connection. All its entries have been finished.
func (p *Pool) Closed(id ID, cl mail.Closing, now mail.Instant) (f Feedback) {
	c := p.conns[id]
	assert.That(c != nil && c.state != Connecting, "connection %d ends, and was not ready", id)
	assert.That(!c.working(), "connection %d ends with %d entries", id, len(c.loads))
	p.now = now
	s := c.site
	if c.state == Ready {
		p.drain(c)
		if c.mails() > 0 {
			s.owed.add(now)
		}
	}
	switch {
	case cl.Why == mail.CloseStep:
		p.db.StepDown(c.host.key, cl.Level, now)
	case cl.Why == mail.CloseLost && !c.lastCallout && cl.Level > mail.LevelLockStep:
		p.db.Suspect(c.host.key, cl.Level, now)
	case cl.Why == mail.CloseMixed:
		p.db.HoldForever(c.host.key, mail.LevelGroup, now)
	}
	p.proved(c.host, cl.Proof, now)
	switch c.faultOf(cl, now) {
	case faultSession:
		f = p.failed(c, cl.Reply, now)
	case faultTransaction:
		f = p.cut(c, cl.Reply, now)
	}
	c.closed = cl.Why
	p.ended(c, cl, now)
	p.remove(c, now)
	p.wakeSite(s)
	return f
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
			c.expireOutdated(now)
			p.timers.Set(&c.timer, now)
		}
	}
}

// connWorks notes that a connection does its work, be it new or old. That of an old one
// is a result only in an outage: looking through all results for each message took
// two microseconds.
func (p *Pool) connWorks(c *Conn) {
	if c.host.isSocket() {
		return // nor does it say anything about our network
	}
	p.worked = p.now
	if c.finished > 1 && p.outage.Since() == 0 {
		return
	}
	since := c.made
	if c.finished > 0 {
		since = p.now
	}
	p.networkResult(c.host, since, p.now, true)
}

// failed deals with a connection that could not be made, or that the host ended before
// it had said anything about a transaction.
func (p *Pool) failed(c *Conn, why mail.Reply, now mail.Instant) Feedback {
	h, s := c.host, c.site
	s.failure.reply, s.failure.at = why, now
	beside := h.ready+h.carrying > 0
	if beside && h.byChance(h.ready+h.carrying, now) {
		if c.replaces {
			s.owed.add(now)
		}
		return feedbackHost
	}
	s.owed.n = 0
	switch {
	case beside:
		p.refuses(h, c.made, now)
		return feedbackOf(why)
	case h.connecting > 0: // let those show what is true
		if h.inquiry != inquiryProbe {
			p.inquire(h, inquiryDoubt)
		}
		return feedbackOf(why)
	case p.isOffline(c, now): // noticed at the first failure, not when the host is given up
		return feedbackNone
	case p.turnedAway(c, why, now):
		return feedbackOf(why)
	}
	return p.down(c, why, now)
}

// down takes in that a host does nothing for us any more.
func (p *Pool) down(c *Conn, why mail.Reply, now mail.Instant) Feedback {
	h, s := c.host, c.site
	if p.isOffline(c, now) {
		return feedbackNone
	}
	p.db.Failed(h.key, c.made, now, why)
	p.wakeAll(h) // there is nothing to wait for
	if !p.others(s, c.planned, now) {
		return FeedbackNegative
	}
	return feedbackOf(why)
}

// others reports whether another host of the tier can be used.
func (p *Pool) others(s *Site, sh *siteHost, now mail.Instant) bool {
	if sh == nil {
		return true // the site has done without it before
	}
	return slices.ContainsFunc(s.tiers[sh.tier], func(other *siteHost) bool {
		key := other.key()
		h := p.hosts[key]
		return key != sh.key() && (h != nil && h.working() || p.db.RetryAt(key, now) == 0)
	})
}

// remove forgets a connection that has ended, or was never made.
func (p *Pool) remove(c *Conn, now mail.Instant) {
	h, s := c.host, c.site
	record := destdb.Life{MadeAt: c.ready, Messages: uint32(c.finished), Clean: uint32(c.clean()), Level: c.level, Why: c.closed, Outlived: c.outlived()}
	if c.endedByCallout() {
		record.Why = mail.CloseIdle // destdb learns from the others after how many messages the host ends a connection
	}
	p.db.Shut(h.key, record, now)
	if c.state == Connecting {
		p.release(c)
	}
	c.prove(false)
	c.become(gone)
	p.timers.Stop(&c.timer)
	p.timers.Stop(&c.stall)
	s.conns.Remove(&c.links.ofSite)
	delete(p.conns, c.ID)
	p.all.Remove(&c.links.all)
	h.count--
	h.at.count--
	p.wakeAddress(h.at)
	if h.count == 0 {
		p.hostEmptied(h, now)
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

// endedByCallout reports whether the host has ended the connection over a call-out.
func (c *Conn) endedByCallout() bool {
	return c.lastCallout && (c.closed == mail.CloseBusy || c.closed == mail.CloseLost)
}

// clean is the number of transactions that speak for the level at which they were made.
func (c *Conn) clean() int {
	switch c.closed {
	case mail.CloseStep, mail.CloseMixed, mail.CloseWrong:
		return 0
	}
	return c.mails()
}
