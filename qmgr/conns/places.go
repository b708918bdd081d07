package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// A place is what one connection takes up of its transport's limit. One that carries
// something cannot be had back before its deadline, which is minutes away (RFC 5321
// 4.5.3.2): whoever answers nothing, or one octet now and then, keeps what it has. So
// no site may take so many places that others find none when they come.
//
// Three rules see to that. They let a site take all that it has use for as long as
// enough is free, and take away nothing that carries a message.
//
// The first is for places that are doubtful: held by a connection that has not shown
// that it gets on. A site that has never taken a message, as far as is known, holds
// nothing but these until it takes one; for others a connection is doubtful that has
// made no progress for stallTime. A site that has some may have another connection
// only while it has fewer of them than there may still be of the transport, which are
// all but two parts in 33 of its limit: this is the dynamic threshold of Choudhury and
// Hahne ("Dynamic queue length thresholds for shared-memory packet switches", 1998)
// with factor one. Six sites that never finish hold 13 places each of 100, and thirty
// hold 3 each; what they leave is for sites that do take mail.
//
// A site that finishes, but takes a minute for each message, holds as much as one that
// does not, only with interruptions: a hundred of these hold a hundred places, though
// each has just taken a message. What a message costs others is the time for which it
// holds a place, so a site is judged by that and not by whether it finishes. One of
// whose connections has stalled is slow until paceVerdicts messages in a row have been
// prompt, and all that it holds is doubtful from the start. In the terms of queueing
// theory the transport is a loss system with two classes, where the places kept for
// the class with the short holding time are a trunk reservation: those who hold a place
// for 60 s can never have the last six of 100, and whoever needs one of these for
// 100 ms finds it free although the others have more use for places than there are.
//
// Six places may be too few for the prompt sites. So what doubtful connections may not
// have is six places, as many as the others have at work, and half as many again, up to
// half of all: the prompt sites can always grow without waiting. A connection to a
// slow site ends after its message if there are too many doubtful ones, or if slow sites
// hold half of the places and another site waits. So nothing is taken away in midmessage,
// each class has half of the places if it needs them, and the slow sites take turns.
//
// A new site is in neither class, and can only be judged by trying. Of the six, three
// are for that: a site that has never had a message and holds nothing may have one of
// them, once. So it waits for no slow site, however many there are; only three new ones
// that never finish keep other new ones waiting, until their deadlines. Nothing that
// could be observed distinguishes those from a new one that is well.
//
// The second keeps a twentieth of the places for sites with few or none: half of these
// go to a site only while it holds less than four times of what is left, and the other
// half to sites that hold none. It is for sites that are well known and stop answering:
// those that come next find a place at once.
//
// Sites that are well must not use up those places one by one, for thirty of them may
// stop answering before the first is known to have done so. So the third has busy sites
// give places up when a message has ended. A site with several does until the second
// half of the last twentieth is free again, and for the sake of one that has none, or at
// least two less. Busy sites then have equal parts within a few messages, as with max-min
// fairness, and what stops answering takes its part along and not the places that were
// kept. Where there are more busy sites than places, each keeps its only connection for a
// quantum and they go in turn, more quickly the more of them wait, as processes do
// under the Completely Fair Scheduler of Linux, until it is a message each.
//
// What no rule can see to is that more sites stop answering at once than there are
// places, or one after the other where all others have stopped before. Each is as good
// as any other until it has stopped, and then holds a place until its deadline. To
// take it away sooner would be to give up mail that a slow server takes.
//
// A transport with a limit below 33 has no places to set aside for the first rule, and
// one below 20 none for the second: there they do not apply.
const (
	// stallTime is after which time without a verdict a connection is doubtful. Most
	// servers take a message within a second or two.
	stallTime = 10 * time.Second
	// silence is after which time a site counts as stuck that has nothing but dials
	// without an answer. A first packet that was lost is sent again after a second.
	silence = time.Second

	// One place in so many is kept for sites that are prompt, and one for trials.
	provenPart = 33
	// One place in so many is kept by the second rule, half of them for sites without any.
	sparePart, spareScale = 20, 4
	// quantum is for how long a site keeps its only connection while others have none,
	// if these are no more than there are places. More make it shorter in proportion.
	quantum = time.Second
	// slowPart of the places is what slow sites may keep while others wait.
	slowPart = 2
	// paceVerdicts is how many messages in a row a site has to take promptly so that it
	// is no longer slow.
	paceVerdicts = 5
)

// proven reports whether the site is known to take mail.
func (s *Site) proven() bool { return s.took || s.known }

// slow reports whether the site lately took longer than stallTime over a message.
func (s *Site) slow() bool { return s.late > 0 }

// mayHold reports whether a site may take one place more, when free are left.
func (p *Pool) mayHold(s *Site, free int) bool {
	g := s.group
	doubted := s.doubtful > 0 || s.slow() || !s.proven()
	if doubted && p.places(g) >= provenPart && s.doubtful >= p.beside(g) && !p.mayTry(s) {
		return false
	}
	n := s.Count()
	return n == 0 || free > p.places(g)/sparePart || n < spareScale*(free-p.firsts(g))
}

// firsts is how many places are kept for first connections.
func (p *Pool) firsts(g *Group) int { return (p.places(g)/sparePart + 1) / 2 }

// mayTry reports whether a site may have one of the places for trials.
func (p *Pool) mayTry(s *Site) bool {
	g := s.group
	return !s.proven() && !s.slow() && s.Count() == 0 && g.trials < p.places(g)/provenPart
}

// slowHave reports whether slow sites hold what they may keep while others wait.
func (p *Pool) slowHave(g *Group) bool {
	return slowPart*(g.doubtful-g.untested) >= p.places(g)
}

// yields reports whether a connection whose message has ended ends for the sake of
// others. wanted is whether some waited for a place then.
func (p *Pool) yields(c *Conn, wanted bool, now mail.Instant) bool {
	g := c.site.group
	switch {
	case !c.site.slow() || p.places(g) < provenPart:
		return p.shares(c, now)
	case len(c.loads) > 0:
		return false
	case p.beside(g) == 0:
		return true
	}
	return wanted && p.slowHave(g)
}

// shares reports whether a connection to a prompt site ends for others by the third
// rule.
func (p *Pool) shares(c *Conn, now mail.Instant) bool {
	s, g := c.site, c.site.group
	n, free := s.Count(), p.free(g)+g.leaving
	if c.listed == placeIdle {
		free-- // its site has more for it, or it takes nothing from anybody
	}
	switch {
	case n > 1 && free < p.firsts(g):
		return true
	case g.slots.Len() > g.leaving:
		all := p.places(g)
		return n > 1 || now >= c.since.Add(quantum*time.Duration(all)/time.Duration(max(all, g.slots.Len())))
	case g.leaving > 0:
		return false
	}
	left := looks
	for w := range g.shares.All() {
		if left == 0 {
			break
		}
		left--
		if w.Count()+2 <= n && p.mayTake(w, w.held, max(free, p.places(g)/sparePart)+1) {
			return true
		}
	}
	return false
}

// places is how many a transport has.
func (p *Pool) places(g *Group) int { return min(g.cfg.Limit, p.cfg.Limit) }

// beside is how many more doubtful connections there may be, but for trials.
func (p *Pool) beside(g *Group) int { return max(p.left(g), 0) }

// left is the same, and below zero if there are too many.
func (p *Pool) left(g *Group) int {
	all, atWork := p.places(g), max(g.open-g.idle.Len()-g.doubtful, 0)
	kept := min(2*(all/provenPart)+atWork+atWork/2, all/slowPart)
	return all - kept - (g.doubtful - g.trials)
}

// mayTake reports whether a site may take a place on account of a message that holds
// so many.
func (p *Pool) mayTake(s *Site, held, free int) bool {
	return p.allowed(held, free) && p.mayHold(s, free)
}

// waitForPart waits until the site may hold one place more.
func (p *Pool) waitForPart(s *Site, ask Ask, why Wait) Decision {
	s.held = ask.Held
	s.group.shares.PushBack(&s.inWait, s)
	p.list(s.group)
	return p.wait(s, why, mail.Never)
}

// waitAgain has a site that has given up a place wait behind those for whose sake it
// did, before it can take the place itself.
func (p *Pool) waitAgain(s *Site, ask Ask) (d Decision) {
	switch {
	case s.slow():
		d = p.waitBehind(s, &s.group.behind)
	case s.Count() > 0:
		d = p.waitForPart(s, ask, WaitPart)
	default:
		d = p.waitForSlot(s)
	}
	p.wakeSlot()
	return d
}

// yieldsTurn reports whether a site waits until no other has use for a place. It has no
// use for one that is free meanwhile, so that the first of those who wait like that can
// speak for all.
func (p *Pool) yieldsTurn(s *Site, free int) bool {
	g := s.group
	if !s.slow() || p.places(g) < provenPart {
		return false
	}
	return p.beside(g) == 0 || free == 0 && p.slowHave(g)
}

// waitsForTrial reports whether a site that is new waits until such sites may hold one
// place more.
func (p *Pool) waitsForTrial(s *Site) bool {
	g := s.group
	return !s.proven() && !s.slow() && s.Count() == 0 && p.places(g) >= provenPart && p.beside(g) == 0 && !p.mayTry(s)
}

// waitBehind waits on one of the lists of sites that wait until there may be one more
// doubtful connection.
func (p *Pool) waitBehind(s *Site, list *ilist.List[Site]) Decision {
	g := s.group
	if s.cause == causeSlot {
		list.PushFront(&s.inWait, s)
	} else {
		list.PushBack(&s.inWait, s)
	}
	p.list(g)
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
	if it {
		c.trial = c.untested && c.pool.left(g) < 0
	}
	if c.untested {
		g.untested += n
	}
	if c.trial {
		g.trials += n
	}
	if !it {
		c.untested, c.trial = false, false
		if c.stalled {
			c.stalled = false
			s.stalled--
		}
		if !(g.shares.Empty() && g.fresh.Empty() && g.behind.Empty()) {
			c.pool.wakeSlot()
		}
	}
}

// begins notes that a connection begins to be dialled, or to carry something.
func (p *Pool) begins(c *Conn, now mail.Instant) {
	c.moved = now
	if !c.trusted && c.finished == 0 || c.site.slow() {
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
	s := c.site
	s.stuck = false
	better := !s.took
	s.took = true
	if s.slow() && now < c.moved.Add(stallTime) {
		s.late--
		better = better || !s.slow()
	}
	if better && s.waits == WaitPart {
		p.wakeSite(s)
	}
	c.moved = now
	c.doubt(false)
	if len(c.loads) > 0 {
		p.begins(c, now)
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
	c.site.late = paceVerdicts
	c.doubt(true)
	if !c.stalled {
		c.stalled = true
		c.site.stalled++
	}
	if s := c.site; s.stalled >= s.connecting+s.ready-s.idle.Len() {
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
	if s.ready == 0 && (s.connecting > 0 || s.waits != WaitNone && (s.slow() || !s.proven())) {
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
