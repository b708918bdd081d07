package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Progress is whether a connection gets on. A connection that has begun something and
// shown nothing for stallTime has stalled, and a site none of whose connections gets on
// is stuck. What follows for slots is in slots.go.
type progress struct {
	siteProven bool         // the site was known to take mail when it was dialed
	doubt      doubt        // doubtNone unless it has a slot
	since      mail.Instant // when it was first ready for its site
	moved      mail.Instant // when it last began something or made progress
	stall      timer        // when to look whether it makes progress; set while it works
}

const (
	// stallTime is after which time without a verdict a connection is doubtful. Most
	// servers take a message within a second or two.
	stallTime = 10 * time.Second
	// silence is after which time a site counts as stuck that has nothing but dials
	// without an answer. A first packet that was lost is sent again after a second.
	silence = time.Second
	// paceVerdicts is the number of messages in a row a site has to take promptly so that it
	// is no longer slow.
	paceVerdicts = 5
)

// isUntested reports whether the connection has shown nothing, and its site was not known
// to take mail when it was dialed.
func (c *Conn) isUntested() bool { return !c.siteProven && c.finished == 0 }

// setDoubt changes why the connection's slot counts as doubtful, and all counts of such.
func (c *Conn) setDoubt(d doubt) {
	s, g, was := c.site, c.site.group, c.doubt
	change(c.pool, &c.doubt, d, doubtTransitions)
	n := differ(d != doubtNone, was != doubtNone)
	s.doubtful += n
	g.doubtful += n
	s.stalled += differ(d.stalled(), was.stalled())
	g.untested += differ(d.untested(), was.untested())
	g.trials += differ(d.trial(), was.trial())
}

// differ returns by how much a count of what is so changes.
func differ(is, was bool) int {
	switch {
	case is == was:
		return 0
	case is:
		return 1
	}
	return -1
}

// clearDoubt notes that the connection's slot is not doubtful any more.
func (c *Conn) clearDoubt() {
	if c.doubt == doubtNone {
		return
	}
	c.setDoubt(doubtNone)
	if c.site.group.waitForDoubt() {
		c.pool.wakeSlot()
	}
}

// startsWork notes that a connection begins to be dialed, or to carry something.
func (p *Pool) startsWork(c *Conn, now mail.Instant) {
	c.moved = now
	switch {
	case c.doubt != doubtNone:
	case c.isUntested():
		if c.setDoubt(doubtUntested); p.doubtfulBalance(c.site.group) < 0 {
			c.setDoubt(doubtTrial)
		}
	case c.site.slow():
		c.setDoubt(doubtSlow)
	}
	// The timer is not set anew for each entry: mayHaveStalled finds out that it came too
	// early.
	if !c.stall.Running() {
		c.stall.Of.conn = c
		p.timers.Set(&c.stall, now.Add(stallTime))
	}
}

// progressed notes that the host of a connection has given a verdict on an entry.
func (p *Pool) progressed(c *Conn, now mail.Instant) {
	s := c.site
	p.gotOn(s)
	better := s.trust != trustProven
	if better {
		p.setTrust(s, trustProven)
	}
	if s.slow() && now < c.moved.Add(stallTime) {
		if s.late--; s.late == 0 {
			p.setPace(s, false, false)
			better = true
		}
	}
	if better && s.waits == WaitPart {
		p.wakeSite(s)
	}
	c.moved = now
	c.clearDoubt()
	if c.working() {
		p.startsWork(c, now)
	}
}

// mayHaveStalled looks at a connection that may have made no progress for long.
func (p *Pool) mayHaveStalled(c *Conn, now mail.Instant) {
	switch at := c.moved.Add(stallTime); {
	case c.state != Connecting && !c.working(): // it has no slot, or ends
		return
	case at > now:
		p.timers.Set(&c.stall, at)
		return
	}
	s := c.site
	p.becomesSlow(s)
	switch c.doubt {
	case doubtNone, doubtSlow:
		c.setDoubt(doubtStalled)
	case doubtUntested:
		c.setDoubt(doubtUntestedStalled)
	case doubtTrial:
		c.setDoubt(doubtTrialStalled)
	}
	if s.stalled >= s.connecting+s.ready-s.idle.Len() {
		p.markStuck(s)
	}
}

func (p *Pool) setTrust(s *Site, t trust) {
	if s.trust != t {
		change(p, &s.trust, t, trustTransitions)
	}
}

// becomesSlow notes that a host of the site takes longer than stallTime over a message.
func (p *Pool) becomesSlow(s *Site) {
	s.late = paceVerdicts
	p.setPace(s, true, s.Stuck())
}

// gotOn notes that a host of the site has answered.
func (p *Pool) gotOn(s *Site) { p.setPace(s, s.slow(), false) }

// markStuck notes that mail for a site gets nowhere.
func (p *Pool) markStuck(s *Site) {
	if s.Stuck() {
		return
	}
	p.setPace(s, s.slow(), true)
	if !s.inStuck.Listed() {
		p.stuck.PushBack(&s.inStuck, s)
	}
}

func (p *Pool) setPace(s *Site, slow, stuck bool) {
	to := pacePrompt
	switch {
	case slow && stuck:
		to = paceSlowStuck
	case slow:
		to = paceSlow
	case stuck:
		to = paceStuck
	}
	if to != s.pace {
		change(p, &s.pace, to, paceTransitions)
	}
}

// NextStuck returns a site that has become stuck, nil if there is none.
func (p *Pool) NextStuck() *Site { return p.stuck.PopFront() }

// awaitAnswer has a site count as stuck if it has no connection that is ready after
// silence.
func (p *Pool) awaitAnswer(s *Site, now mail.Instant) {
	if s.ready == 0 && !s.Stuck() && !s.answer.Running() {
		s.answer.Of.site = s
		p.timers.Set(&s.answer, now.Add(silence))
	}
}

// noAnswer does that. A site that is known to take mail and only waits for its turn is
// not stuck.
func (p *Pool) noAnswer(s *Site) {
	if s.ready == 0 && (s.connecting > 0 || s.waits != WaitNone && (s.slow() || !s.proven())) {
		p.markStuck(s)
	}
}
