package conns

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// An Ask is a wish for one more connection.
type Ask struct {
	Message mail.QueueID // at the head of the queue
	Held    int          // connections that carry entries of it, or are being opened for it
	Window  int          // how many connections may serve the site
	Callout bool         // it is wanted for a call-out
}

// A Decision is the answer to Open.
type Decision struct {
	Kind DecisionKind
	Conn *Conn // Adopted: it serves this site now; Dialing: it has to be dialled
	From *Site // Adopted: the one that it served before
	// Evict, with Dialing, is a connection that has to be hung up to make room; nil
	// if there is room.
	Evict *Conn
	Wait  Wait         // Waiting: for what
	Until mail.Instant // Exhausted: when the first of the hosts may be tried again
	Reply mail.Reply   // Exhausted: why the last one failed
}

// A DecisionKind says what becomes of a wish for a connection.
type DecisionKind uint8

const (
	Waiting   DecisionKind = iota // not now; the site is woken when it is worth asking again
	Adopted                       // an idle connection of another site
	Dialing                       // a new one
	Exhausted                     // no host can be reached
)

// better has the site asked again when a host of a better tier may be tried.
func (p *Pool) better(s *Site, at mail.Instant) {
	if at != mail.Never && !s.upgrade.slot.Heaped() {
		s.upgrade.site = s
		p.setTimer(&s.upgrade, at)
	}
}

// Open answers the wish for one more connection of a site whose hosts are known.
// The package comment tells how it decides. A site that has to wait comes back
// from Woken when the reason may have passed; asking before that does no harm.
func (p *Pool) Open(s *Site, ask Ask, now mail.Instant) Decision {
	assert.That(s.Known(), "a connection of %s is wanted and its hosts are not known", s.name)
	p.now = now
	p.stopWaiting(s)
	yielded := s.yielded
	s.yielded = false
	if s.Count() >= ask.Window {
		return p.wait(s, WaitWindow, mail.Never)
	}
	if ask.Callout && now < s.tired {
		return p.wait(s, WaitCallout, s.tired)
	}
	e := Decision{Kind: Exhausted, Until: mail.Never, Reply: s.last}
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
		p.better(s, e.Until)
		if s.upgrades && s.room > 0 && !s.servedBelow(i) {
			s.upgrades = false // there is nothing better than what there is
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
	return e
}

// servedBelow tells whether entries may be carried by connections to hosts of
// worse tiers.
func (s *Site) servedBelow(tier int) bool {
	for c := range s.conns.All() {
		if c.state == Ready && c.spot != nil && c.spot.tier > tier {
			return true
		}
	}
	return false
}

// A survey is what there is in one tier (step 1 of the decision table).
type survey struct {
	adopt  *Conn   // idle, of another site of the transport, used last
	unused []*spot // nothing is known of them
	closed *spot   // the one whose last connection was made longest ago
	made   mail.Instant
	retry  []*spot // failed, may be tried again, and is not being tried
	more   []*spot // have connections, fewest of all, and may have more
	fewest int
	alive  bool    // some host has a connection, or is being connected to
	busy   bool    // some have said that they take no more
	full   []*spot // busy, at the limit of connections for one host, or not known to work

	dead  bool         // no host of the tier can be used
	until mail.Instant // dead: when the first may be
	shut  mail.Instant // when the first is asked again that refused a session a moment ago; mail.Never if none did
	reply mail.Reply   // dead: why it failed
}

func (p *Pool) survey(s *Site, tier []*spot, now mail.Instant) *survey {
	v := &p.scratch
	*v = survey{unused: v.unused[:0], retry: v.retry[:0], more: v.more[:0], full: v.full[:0], until: mail.Never, shut: mail.Never}
	for _, sp := range tier {
		if h := p.hosts[sp.key()]; h != nil && h.working() {
			p.addOpen(v, s, sp, h, now)
		} else {
			p.addClosed(v, sp, h, now)
		}
	}
	v.dead = !v.alive && v.adopt == nil && len(v.unused) == 0 && v.closed == nil && len(v.retry) == 0
	return v
}

// addOpen takes in a host that has connections.
func (p *Pool) addOpen(v *survey, s *Site, sp *spot, h *host, now mail.Instant) {
	v.alive = true
	if c := p.idleFor(s, sp, h); c != nil && (v.adopt == nil || v.adopt.used < c.used) {
		v.adopt = c
	}
	if h.takes(sp.limits.Connections, now) {
		v.addMore(sp, h.connecting+h.ready)
		return
	}
	v.full = append(v.full, sp)
	v.busy = v.busy || h.busy(now)
}

// addMore takes in a host that has n connections and may have one more.
func (v *survey) addMore(sp *spot, n int) {
	switch {
	case len(v.more) == 0 || n < v.fewest:
		v.more, v.fewest = append(v.more[:0], sp), n
	case n == v.fewest:
		v.more = append(v.more, sp)
	}
}

// addClosed takes in a host that has none; h is not nil if one is ending.
func (p *Pool) addClosed(v *survey, sp *spot, h *host, now mail.Instant) {
	if h != nil && h.shut(now) {
		v.shut, v.until = min(v.shut, h.full), min(v.until, h.full)
		return
	}
	state, at := p.db.State(sp.key(), now)
	if state == destdb.InUse { // by connections that end
		if at = p.db.RetryAt(sp.key(), now); at != 0 {
			state = destdb.RetryLater
		}
	}
	if h != nil && state != destdb.RetryLater && !h.takes(sp.limits.Connections, now) {
		v.alive, v.busy = true, v.busy || h.busy(now)
		v.full = append(v.full, sp)
		return
	}
	switch state {
	case destdb.Unused:
		v.unused = append(v.unused, sp)
	case destdb.Closed:
		if v.closed == nil || at < v.made {
			v.closed, v.made = sp, at
		}
	case destdb.RetryDue:
		v.retry = append(v.retry, sp)
	case destdb.InUse:
		v.alive = true
		v.addMore(sp, 0)
	case destdb.RetryLater:
		if at < v.until {
			v.until, v.reply = at, p.db.View(sp.key(), now).Reason
		}
	}
}

// idleFor returns the connection to a host that fell idle last and may serve the
// site: one of the same transport, nil if there is none. It is made for another
// site, for the site's own ones have room.
func (p *Pool) idleFor(s *Site, sp *spot, h *host) *Conn {
	for c := range h.idles.Backward() {
		if c.site != s && c.site.group == s.group && c.fits(&sp.limits) {
			return c
		}
	}
	return nil
}

// openIn chooses within a tier that can be used.
func (p *Pool) openIn(s *Site, v *survey, ask Ask, yielded bool, now mail.Instant) Decision {
	free := p.free(s.group)
	p.listen(s, now)
	if !p.allowed(ask.Held, free) {
		return p.waitForShare(s, ask)
	}
	if yielded {
		return p.waitAgain(s, ask)
	}
	if p.yieldsTurn(s, free) {
		return p.waitBehind(s, &s.group.behind)
	}
	if p.waitsForTrial(s) {
		return p.waitBehind(s, &s.group.fresh)
	}
	if free > 0 && !p.mayHold(s, free) {
		return p.waitForPart(s, ask, WaitPart)
	}
	if v.adopt != nil {
		from := v.adopt.site
		p.adopt(s, v.adopt)
		return Decision{Kind: Adopted, Conn: v.adopt, From: from}
	}
	if free == 0 && s.Count() > 0 {
		return p.waitForPart(s, ask, WaitSlot)
	}
	if free == 0 {
		return p.waitForSlot(s)
	}
	if p.inVain(s, now) {
		return p.giveUp(s, now)
	}
	if s.replaceable(now) == 0 && s.fresh >= s.begins() {
		return p.wait(s, WaitStart, mail.Never)
	}
	if ready, at := s.dials.Ready(now); !ready {
		return p.wait(s, WaitRate, at)
	}
	sp := p.choose(s, v)
	if sp == nil {
		return p.waitForHost(s, v)
	}
	if at := p.outage.ProbeAt(); now < at {
		return p.waitForNetwork(s, at, now)
	}
	return Decision{Kind: Dialing, Evict: p.evict(s.group), Conn: p.dial(s, sp, ask.Message, now)}
}

// choose returns the host to dial (steps 8 to 12), nil if none may be dialled now.
func (p *Pool) choose(s *Site, v *survey) *spot {
	switch {
	case len(v.unused) > 0:
		return p.any(v.unused)
	case v.closed != nil:
		return v.closed
	case len(v.retry) > 0 && !(s.group.cfg.NoProbe && v.alive):
		return p.any(v.retry)
	case len(v.more) > 0:
		return p.any(v.more)
	}
	return nil
}

func (p *Pool) any(spots []*spot) *spot {
	if len(spots) == 1 {
		return spots[0]
	}
	return spots[p.rng.IntN(len(spots))]
}

// fits tells whether a connection that was made under other limits is one that
// could have been made under these.
func (c *Conn) fits(l *HostLimits) bool {
	return c.level <= l.Level && (l.Count <= 0 || c.finished < l.Count)
}

// adopt gives an idle connection to another site.
func (p *Pool) adopt(s *Site, c *Conn) {
	old := c.site
	c.doubt(false) // for that one
	c.unlist()
	old.conns.Remove(&c.inAll)
	old.ready--
	old.room -= c.room
	c.room = 0
	c.site, c.spot, c.since = s, s.spotOf(c.host.key), p.now
	if limits := c.limits(); limits.ActiveTime > 0 {
		c.expires = min(c.expires, c.ready.Add(limits.ActiveTime+limits.ActiveTime/10))
	}
	c.limit = least(c.limit, c.limits().Count)
	s.conns.PushBack(&c.inAll, c)
	s.ready++
	c.update()
	p.wakeSite(old)
}

func (s *Site) spotOf(key destdb.Key) *spot {
	for _, tier := range s.tiers {
		for _, sp := range tier {
			if sp.key() == key {
				return sp
			}
		}
	}
	return nil
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
	p.part(c, PartRoom)
	return c
}

// dial makes a connection that is to be dialled.
func (p *Pool) dial(s *Site, sp *spot, message mail.QueueID, now mail.Instant) *Conn {
	h := p.host(sp)
	known := p.db.View(h.key, now)
	s.dials.Take(now)
	p.last++
	c := &Conn{ID: p.last, pool: p, host: h, spot: sp, site: s, message: message, made: now}
	if c.replaces = s.replaceable(now) > 0; c.replaces {
		s.owed--
	} else {
		s.fresh++
	}
	level, prove := h.speak(sp.limits.Level, &known, now)
	c.level = level
	c.prove(prove)
	c.timer.conn, c.trusted = c, s.proven()
	p.conns[c.ID] = c
	p.all.PushBack(&c.inOrder, c)
	p.open++
	s.group.open++
	s.connecting++
	p.begins(c, now)
	s.conns.PushBack(&c.inAll, c)
	if !h.working() {
		h.probing, h.doubted = known.Failures > 0 && known.State != destdb.Unused && known.State != destdb.Closed || h.turns > 0, false
		if h.probing && known.Failures > 0 && s.ready == 0 {
			p.sticks(s)
		}
	}
	h.connecting++
	h.count++
	p.db.Open(h.key, now)
	p.outage.Tried(now)
	p.nextProbe()
	return c
}
