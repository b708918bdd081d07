package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A place is what one connection takes up of its transport's limit. One that carries
// something cannot be had back before its deadline, which is minutes away (RFC 5321
// 4.5.3.2): whoever answers nothing, or one octet now and then, keeps what it has. So
// no site may take so many places that others find none when they come.
//
// Two rules see to that. Both let a site take all that it has use for as long as
// enough is free, and neither takes anything away.
//
// The first is for places that are doubtful: held by a connection that has not shown
// that it gets on. A site that has never taken a message, as far as is known, holds
// nothing but these until it takes one; for others a connection is doubtful that has
// made no progress for stallTime. A site that has some may have another connection
// only while it has fewer of them than there may still be of the transport, which are
// all but a twenty-fifth of its limit: this is the dynamic threshold of Choudhury and
// Hahne ("Dynamic queue length thresholds for shared-memory packet switches", 1998)
// with factor one. Six sites that never finish hold 13 places each of 100, and thirty
// hold 3 each; what they leave is for sites that do take mail. A site that holds
// nothing yet may have a first connection as long as such sites as it do not hold
// all of these.
//
// The second keeps a twentieth of the places for sites with few or none: the last
// ones go to a site only while it holds less than four times of what is left. It is
// for sites that are well known and stop answering all at once. Ten busy sites lose
// nothing by it but these places, and those that come next find one at once.
//
// A transport with a limit below 25 has no places to set aside for the first rule, and
// one below 20 none for the second: there they do not apply.
const (
	// stallTime is after which time without a verdict a connection is doubtful. Most
	// servers take a message within a second or two.
	stallTime = 10 * time.Second
	// silence is after which time a site counts as stuck that has nothing but dials
	// without an answer. A first packet that was lost is sent again after a second.
	silence = time.Second

	// One place in so many is kept by the first and by the second rule.
	provenPart, sparePart = 25, 20
	spareScale            = 4
)

// proven reports whether the site is known to take mail.
func (s *Site) proven() bool { return s.took || s.known }

// mayHold reports whether a site may take one place more, when free are left.
func (p *Pool) mayHold(s *Site, free int) bool {
	g := s.group
	switch n := p.places(g); {
	case n < provenPart:
	case s.doubtful > 0 && s.doubtful >= p.beside(g, g.doubtful):
		return false
	case !s.proven() && p.beside(g, g.untested) == 0:
		return false
	}
	n := s.Count()
	return n == 0 || free > p.places(s.group)/sparePart || n < spareScale*(free-1)
}

// places is how many a transport has.
func (p *Pool) places(g *Group) int { return min(g.cfg.Limit, p.cfg.Limit) }

// beside is how many more of the connections that may be doubtful there may be beside n.
func (p *Pool) beside(g *Group, n int) int {
	all := p.places(g)
	return max(all-all/provenPart-n, 0)
}

// mayTake reports whether a site may take a place on account of a message that holds
// so many.
func (p *Pool) mayTake(s *Site, held, free int) bool {
	return p.allowed(held, free) && p.mayHold(s, free)
}

// waitForPart waits until the site may hold one place more.
func (p *Pool) waitForPart(s *Site, ask Ask) Decision {
	s.held = ask.Held
	s.group.shares.PushBack(&s.inWait, s)
	p.list(s.group)
	return p.wait(s, WaitPart, mail.Never)
}

// doubt notes whether the place that a connection holds is doubtful.
func (c *Conn) doubt(it bool) {
	if c.doubtful == it {
		return
	}
	s, g, n := c.site, c.site.group, -1
	if c.doubtful = it; it {
		c.untested, n = !c.trusted && c.finished == 0, 1
	}
	s.doubtful += n
	g.doubtful += n
	if c.untested {
		g.untested += n
	}
	if !it {
		c.untested = false
		if !g.shares.Empty() {
			c.pool.wakeSlot()
		}
	}
}

// begins notes that a connection begins to be dialled, or to carry something.
func (p *Pool) begins(c *Conn, now mail.Instant) {
	c.moved = now
	if !c.trusted && c.finished == 0 {
		c.doubt(true)
	}
	p.watch(c, now)
}

// watch sees to it that the connection is looked at when it may have stalled. The
// timer is not set anew for each entry: stalled finds out that it came too early.
func (p *Pool) watch(c *Conn, now mail.Instant) {
	if !c.stall.slot.Heaped() {
		c.stall.conn = c
		p.setTimer(&c.stall, now.Add(stallTime))
	}
}

// movesOn notes that the host of a connection has said what becomes of an entry.
func (p *Pool) movesOn(c *Conn, now mail.Instant) {
	c.moved = now
	c.doubt(false)
	if len(c.loads) > 0 {
		p.watch(c, now)
	}
	s := c.site
	s.stuck = false
	if !s.took {
		s.took = true
		if s.waits == WaitPart {
			p.wakeSite(s)
		}
	}
}

// stalled looks at a connection that may have made no progress for long.
func (p *Pool) stalled(c *Conn, now mail.Instant) {
	switch at := c.moved.Add(stallTime); {
	case c.state != Connecting && len(c.loads) == 0: // it holds no place, or ends
		return
	case at > now:
		p.setTimer(&c.stall, at)
		return
	}
	c.doubt(true)
	if s := c.site; s.doubtful >= s.connecting+s.ready-s.idle.Len() {
		p.sticks(s)
	}
}

// listen has a site count as stuck if it has no connection that is ready after
// silence.
func (p *Pool) listen(s *Site, now mail.Instant) {
	if s.ready == 0 && !s.stuck && !s.silent.slot.Heaped() {
		s.silent.site = s
		p.setTimer(&s.silent, now.Add(silence))
	}
}

// unheard does that. Who is known to take mail and only waits for its turn is not to
// blame.
func (p *Pool) unheard(s *Site) {
	if s.ready == 0 && (s.connecting > 0 || s.waits != WaitNone && !s.proven()) {
		p.sticks(s)
	}
}

// sticks notes that mail for a site gets nowhere.
func (p *Pool) sticks(s *Site) {
	if !s.stuck {
		s.stuck = true
		if !s.inStuck.Listed() {
			p.stuck.PushBack(&s.inStuck, s)
		}
	}
}

// NextStuck returns a site that has become stuck, nil if there is none.
func (p *Pool) NextStuck() *Site { return p.stuck.PopFront() }

// Stuck reports whether mail for the site gets nowhere for now, as far as is known:
// none of its hosts has answered for some time, all its connections have stalled, or
// our network is down.
func (s *Site) Stuck() bool { return s.stuck }

// LastFailure returns why a connection to one of the site's hosts failed last; zero if
// none has since it came into core.
func (s *Site) LastFailure() mail.Reply { return s.last }
