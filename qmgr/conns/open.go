package conns

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// An Ask is a request for one more connection.
type Ask struct {
	Message mail.QueueID // at the head of the queue
	Used    int          // connections that carry entries of it, or are being opened for it
	Window  int          // how many connections may serve the site
	Callout bool         // it is wanted for a call-out
	Flow    fair.Path    // of the message
}

// A Decision is the answer to Open.
type Decision struct {
	Kind DecisionKind
	Conn *Conn // Adopted: it serves this site now; Dialing: it has to be dialed
	From *Site // Adopted: the one that it served before
	// Evict, with Dialing or Waiting, is a connection that has to be hung up to make room;
	// nil if there is room, or none can be made.
	Evict *Conn
	wait  Wait         // Waiting: for what
	Until mail.Instant // Exhausted: when the first of the hosts may be tried again
	Reply mail.Reply   // Exhausted: why the last one failed
	// Hopeless, with Exhausted, means that no host can be secured as the mail demands, for good.
	Hopeless bool
}

// A DecisionKind says what becomes of a request for a connection.
type DecisionKind uint8

const (
	Waiting   DecisionKind = iota // not now; the site is woken when it is worth asking again
	Adopted                       // an idle connection of another site
	Dialing                       // a new one
	Exhausted                     // no host can be reached
)

// Open answers the request for one more connection of a site whose hosts are known.
// The package comment says how it decides. A site that has to wait comes back
// from Woken when the reason may have passed; asking before that does no harm.
func (p *Pool) Open(s *Site, ask Ask, now mail.Instant) Decision {
	assert.That(s.Known(), "a connection of %s is wanted and its hosts are not known", s.name)
	p.now = now
	p.stopWaiting(s)
	s.flow = ask.Flow
	yielded := s.yielded
	s.yielded = false
	if s.Count() >= ask.Window {
		return p.wait(s, WaitWindow, mail.Never)
	}
	if ask.Callout && now < s.calloutPause.until {
		return p.wait(s, WaitCallout, s.calloutPause.until)
	}
	e := Decision{Kind: Exhausted, Until: mail.Never, Reply: s.failure.reply}
	shut := mail.Never
	for i, tier := range s.tiers {
		v := p.survey(s, tier, now)
		shut = min(shut, v.shut)
		if v.dead {
			if v.until < e.Until {
				e.Until = v.until
			}
			if !v.reply.IsZero() {
				e.Reply = v.reply
			}
			continue
		}
		p.upgradeAt(s, e.Until)
		if s.upgrades && s.room > 0 && !s.servedBelow(i) {
			s.upgrades = false // no better connection can be had
			return Decision{Kind: Waiting}
		}
		d := p.openIn(s, v, ask, yielded, now)
		s.upgrades = s.upgrades && d.Kind == Waiting
		return d
	}
	s.upgrades = false
	if shut != mail.Never { // some host will be asked again in a moment
		return p.wait(s, WaitBusy, shut)
	}
	if e.Hopeless = p.hopeless(s, now); !e.Hopeless && e.Reply.Permanent() && e.Reply.By == "" { // it is not true of all hosts
		e.Reply.Code, e.Reply.Status.Class = 451, 4
	}
	return e
}

// hopeless reports whether all hosts of a site are known not to meet what its mail demands, so that
// the mail need not wait. Only our own verdict on their security is permanent (Pool.unsafe).
func (p *Pool) hopeless(s *Site, now mail.Instant) bool {
	if len(s.tiers) == 0 {
		return false
	}
	for _, tier := range s.tiers {
		for _, sh := range tier {
			if why := p.db.View(sh.key(), now).Reason; !why.Permanent() || why.By != "" {
				return false
			}
		}
	}
	return true
}

// upgradeAt has the site asked again when a host of a better tier may be tried.
func (p *Pool) upgradeAt(s *Site, at mail.Instant) {
	if at != mail.Never && !s.upgrade.Running() {
		s.upgrade.Of.site = s
		p.timers.Set(&s.upgrade, at)
	}
}

// servedBelow reports whether entries may be carried by connections to hosts of
// worse tiers.
func (s *Site) servedBelow(tier int) bool {
	for c := range s.conns.All() {
		if c.state == Ready && c.planned != nil && c.planned.tier > tier {
			return true
		}
	}
	return false
}

// openIn chooses within a tier that can be used.
func (p *Pool) openIn(s *Site, v *survey, ask Ask, yielded bool, now mail.Instant) Decision {
	free := p.free(s.group)
	p.awaitAnswer(s, now)
	switch {
	case !p.mayUse(ask.Used, free):
		return p.waitForShare(s, ask)
	case yielded:
		return p.waitAgain(s, ask)
	case p.letsOthersFirst(s, free):
		return p.waitBehind(s, &s.group.behind)
	case p.waitsForTrial(s):
		return p.waitBehind(s, &s.group.fresh)
	case free > 0 && !p.mayTake(s, free):
		return p.waitForPart(s, ask, WaitPart)
	case v.adopt != nil:
		from := v.adopt.site
		s.group.tookTurn(s)
		p.adopt(s, v.adopt)
		return Decision{Kind: Adopted, Conn: v.adopt, From: from}
	case free == 0 && s.Count() > 0:
		return p.waitForPart(s, ask, WaitSlot)
	case free == 0:
		return p.waitForSlot(s)
	case p.inVain(s, now):
		return p.giveUp(s, now)
	case s.owed.left(now) == 0 && s.fresh >= s.initial():
		return p.wait(s, WaitStart, mail.Never)
	}
	if ready, at := s.dials.Ready(now); !ready {
		return p.wait(s, WaitRate, at)
	}
	sh := p.choose(s, v)
	if sh == nil {
		return p.waitForHost(s, v)
	}
	if at := p.outage.ProbeAt(); now < at && !sh.isSocket() {
		return p.waitForNetwork(s, at, now)
	}
	return Decision{Kind: Dialing, Evict: p.evict(s.group), Conn: p.dial(s, sh, ask.Message, now)}
}

// adopt gives an idle connection to another site.
func (p *Pool) adopt(s *Site, c *Conn) {
	old := c.site
	c.clearDoubt() // for that one
	c.unlist()
	old.conns.Remove(&c.links.ofSite)
	old.ready--
	old.room -= c.room
	c.room = 0
	c.site, c.planned, c.since = s, s.find(c.host.key), p.now
	if limits := c.limits(); limits.ActiveTime > 0 {
		c.expires = min(c.expires, c.ready.Add(limits.ActiveTime+limits.ActiveTime/10))
	}
	c.limit = least(c.limit, c.limits().Count)
	s.conns.PushBack(&c.links.ofSite, c)
	s.ready++
	c.update()
	p.wakeSite(old)
}

// evict makes room for one more connection where there is none left: it returns
// the one that has been idle for longest, draining.
func (p *Pool) evict(g *Group) *Conn {
	var c *Conn
	switch {
	case g.open >= g.cfg.Limit:
		c = g.idle.Front()
	case p.open >= p.cfg.Limit:
		c = p.idle.Front()
	default:
		return nil
	}
	assert.That(c != nil, "no connection can be closed for another one")
	p.drainFor(c, DrainSlot)
	return c
}

// dial makes a connection that the host will dial.
func (p *Pool) dial(s *Site, sh *siteHost, message mail.QueueID, now mail.Instant) *Conn {
	h := p.hostOf(sh)
	view := p.db.View(h.key, now)
	s.dials.Take(now)
	s.group.tookTurn(s)
	p.last++
	c := &Conn{ID: p.last, pool: p, host: h, planned: sh, site: s, message: message}
	c.made, c.timer.Of.conn, c.siteProven = now, c, s.proven()
	if c.replaces = s.owed.left(now) > 0; c.replaces {
		s.owed.n--
	} else {
		s.fresh++
	}
	level, prove := h.levelFor(sh.limits.Level, &view, now)
	c.level = level
	c.prove(prove)
	p.conns[c.ID] = c
	p.all.PushBack(&c.links.all, c)
	p.open++
	s.group.open++
	s.connecting++
	p.startsWork(c, now)
	s.conns.PushBack(&c.links.ofSite, c)
	if !h.working() {
		p.inquireAbout(h, s, &view)
	}
	h.connecting++
	h.count++
	h.at.count++
	p.db.Open(h.key, now)
	if !h.isSocket() {
		p.outage.Tried(now)
		p.nextProbe()
	}
	return c
}

// inquireAbout decides whether the first connection to a host is to show whether the host
// is back.
func (p *Pool) inquireAbout(h *host, s *Site, view *destdb.View) {
	failed := view.Failures > 0 && view.State != destdb.Unused && view.State != destdb.Closed
	if !failed && h.turns == 0 {
		p.inquire(h, inquiryNone)
		return
	}
	p.inquire(h, inquiryProbe)
	if view.Failures > 0 && s.ready == 0 {
		p.markStuck(s)
	}
}
