package conns

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A Pool is all connections of all transports. It belongs to one goroutine. The
// instants that its methods are given must not decrease.
type Pool struct {
	cfg    Config
	db     *destdb.DB
	rng    prng.Source
	outage destdb.Outage
	worked mail.Instant // when a connection last did its work

	amnesty uint64 // the last

	last  ID
	conns map[ID]*Conn
	hosts map[destdb.Key]*host // those with connections
	open  int                  // connecting, ready, and draining with something under way

	all    ilist.List[Conn]  // the oldest first
	idle   ilist.List[Conn]  // the one unused for longest first
	groups ilist.List[Group] // that have sites which wait for a slot; the one to serve next in front
	woken  ilist.List[Site]
	// sharers are the sites that wait because a message holds enough, in the order
	// in which they began to. There may be as many as the message has domains.
	sharers map[mail.QueueID]*ilist.List[Site]
	outaged ilist.List[Site] // wait for our network
	stuck   ilist.List[Site] // have become stuck, and the caller does not know yet
	probe   timer            // when the first of them may make an attempt
	halted  bool
	scratch survey
	endings endings
	timers  minheap.Heap[timer, byInstant]
	seq     uint64
	now     mail.Instant // when it was last told the time
}

// New returns a pool without connections. The seed decides which of several equal
// hosts is dialled, and when connections of one age end.
func New(cfg Config, db *destdb.DB, seed uint64) *Pool {
	return &Pool{cfg: cfg, db: db, rng: prng.New(seed),
		conns: make(map[ID]*Conn), hosts: make(map[destdb.Key]*host), sharers: make(map[mail.QueueID]*ilist.List[Site])}
}

// Configure puts new limits in force.
func (p *Pool) Configure(cfg Config) { p.cfg = cfg }

// Offline returns since when our own network is held to be down, 0 if it is not.
func (p *Pool) Offline() mail.Instant { return p.outage.Since() }

// Conn returns a connection that has not ended yet, or nil.
func (p *Pool) Conn(id ID) *Conn { return p.conns[id] }

// All yields all connections, in the order in which they were made.
func (p *Pool) All() iter.Seq[*Conn] { return p.all.All() }

// SetLimits says what holds for connections to the site's hosts that are opened
// from now on.
func (p *Pool) SetLimits(s *Site, limits func(mail.Host) HostLimits) {
	for _, tier := range s.tiers {
		for _, sp := range tier {
			sp.limits = limits(sp.host)
		}
	}
}

// SetHosts tells which hosts serve the site, none if the set is empty: then they
// are not known any more; and which limits they have. It returns the connections to
// hosts that serve the site no longer: they have to be hung up.
func (p *Pool) SetHosts(s *Site, set mail.HostSet, limits func(mail.Host) HostLimits) []*Conn {
	p.wakeSite(s)
	p.forgetPlan(s)
	s.until, s.known = set.Until, false
	s.tiers = make([][]*spot, 0, len(set.Tiers))
	where := make(map[destdb.Key]*spot)
	for i, hosts := range set.Tiers {
		tier := make([]*spot, 0, len(hosts))
		for _, h := range hosts {
			sp := &spot{host: h, site: s, tier: i, limits: limits(h)}
			tier = append(tier, sp)
			key := sp.key()
			s.known = s.known || p.db.Works(key)
			if !s.took && p.db.View(key, p.now).Service >= stallTime {
				s.late = paceVerdicts
			}
			if where[key] == nil {
				where[key] = sp
			}
		}
		s.tiers = append(s.tiers, tier)
	}
	var surplus []*Conn
	for c := range s.conns.All() {
		if c.spot = where[c.host.key]; c.spot == nil && c.state == Ready {
			surplus = append(surplus, c)
		}
	}
	for _, c := range surplus {
		p.part(c, PartPlan)
	}
	return surplus
}

// Amnesty returns the number of a new amnesty for all that hosts have failed until
// now: an operator wants them tried, or our network is back.
func (p *Pool) Amnesty() uint64 {
	p.amnesty = p.db.Amnesty()
	return p.amnesty
}

// Pardon forgets that hosts of the site have failed, if that was before an amnesty.
// It tells whether there was anything to forget.
func (p *Pool) Pardon(s *Site, amnesty uint64, now mail.Instant) (forgotten bool) {
	for _, tier := range s.tiers {
		for _, sp := range tier {
			key := sp.key()
			forgotten = p.db.Pardon(key, amnesty, now) || forgotten
			if h := p.hosts[key]; h != nil && h.amnesty < amnesty {
				p.forgive(h)
			}
		}
	}
	p.wakeSite(s)
	return forgotten
}

// KeepHosts tells that the hosts could not be looked up, and when that should be
// tried again. What is known of them is better than nothing.
func (p *Pool) KeepHosts(s *Site, until mail.Instant) { s.until = until }

// Forget ends a site. It has no connections.
func (p *Pool) Forget(s *Site) {
	assert.That(s.Empty(), "site %s is forgotten and has connections", s.name)
	p.forgetPlan(s)
	p.stopTimer(&s.upgrade)
	p.stopTimer(&s.silent)
	if s.inWake.Listed() {
		p.woken.Remove(&s.inWake)
	}
	if s.inStuck.Listed() {
		p.stuck.Remove(&s.inStuck)
	}
	p.PassOn(s)
}

func (p *Pool) forgetPlan(s *Site) {
	p.stopWaiting(s)
	for c := range s.conns.All() {
		c.spot = nil
	}
	s.tiers = nil
}

// Find returns the connection that is to carry the site's next entry: the newest
// active one that has room, else the one that fell idle last; nil if none has
// room.
func (p *Pool) Find(s *Site) *Conn {
	if c := s.spare.Back(); c != nil {
		return c
	}
	return s.idle.Back()
}

// Assign gives an entry to a connection that has room. It tells whether the
// connection is to be hung up, because it may carry no more after this one.
func (p *Pool) Assign(c *Conn, l Load) (last bool) {
	c.assign(l)
	if c.limit > 0 && c.finished+len(c.loads) >= c.limit {
		why := PartCount
		if c.proving {
			why = PartProbe
		}
		p.part(c, why)
		return true
	}
	return false
}

// part drains a connection that works, for a reason of ours.
func (p *Pool) part(c *Conn, why Parting) {
	c.parting = why
	p.Drain(c)
}

// overdue returns why a connection ends whose time has come.
func (c *Conn) overdue(now mail.Instant) Parting {
	switch {
	case now < c.expires:
		return PartIdle
	case c.givesWay:
		return PartOutdated
	}
	return PartAge
}

// Drain lets a connection take no further entries. The caller hangs it up.
func (p *Pool) Drain(c *Conn) {
	assert.That(c.state == Ready, "connection %d is to end and is %v", c.ID, c.state)
	if p.halted && c.parting == PartNone {
		c.parting = PartStop
	}
	s := c.site
	s.ready--
	c.host.ready--
	c.state = Draining
	c.update()
	if len(c.loads) == 0 {
		p.release(c)
	} else {
		c.host.carrying++
		s.carrying++
		s.group.leaving++
	}
	p.wakeFailing(c.host)
	p.wakeSite(s)
}

// release gives back the slot of a connection that carries nothing any more. It
// may live a little longer, until both ends have said goodbye.
func (p *Pool) release(c *Conn) {
	c.doubt(false)
	p.open--
	c.site.group.open--
	p.wakeSlot()
}

// free is how many further connections there could be for a transport: those not
// open and those that may be closed for it.
func (p *Pool) free(g *Group) int {
	return max(0, min(p.cfg.Limit-p.open+p.idle.Len(), g.cfg.Limit-g.open+g.idle.Len()))
}

// Surplus returns the connections that have been idle for too long, or have
// become too old. They are draining now and have to be hung up. It also wakes the
// sites whose time has come.
func (p *Pool) Surplus(now mail.Instant) []*Conn {
	p.now = now
	var surplus []*Conn
	for t := p.timers.Min(); t != nil && t.at <= now; t = p.timers.Min() {
		p.timers.PopMin()
		switch {
		case t == &p.probe:
			p.probeNetwork(now)
			continue
		case t.site != nil:
			p.expired(t)
			continue
		case t.host != nil:
			if t.host.count > 0 {
				p.wakeHost(t.host)
			} else {
				p.vacate(t.host, now)
			}
			continue
		case t == &t.conn.stall:
			p.stalled(t.conn, now)
			continue
		}
		if at := t.conn.end(); at > now {
			p.setTimer(&t.conn.timer, at)
		} else if t.conn.state == Ready {
			p.part(t.conn, t.conn.overdue(now))
			surplus = append(surplus, t.conn)
		}
	}
	return surplus
}

// expired deals with a timer of a site.
func (p *Pool) expired(t *timer) {
	s := t.site
	switch t {
	case &s.timer:
		p.wakeSite(s)
		return
	case &s.silent:
		p.unheard(s)
		return
	}
	s.upgrades = true
	p.wake(s)
}

// end returns when a ready connection is to be hung up, as things are.
func (c *Conn) end() mail.Instant {
	if len(c.loads) == 0 {
		return min(c.expires, c.used.Add(max(c.site.group.cfg.IdleTime, 0)))
	}
	return c.expires
}

// NextDue returns when Surplus should be called next.
func (p *Pool) NextDue() (mail.Instant, bool) {
	if t := p.timers.Min(); t != nil {
		return t.at, true
	}
	return 0, false
}

// A timer is when to look at a connection, a site, a host or our network again.
type timer struct {
	at   mail.Instant
	seq  uint64
	conn *Conn
	site *Site
	host *host
	slot minheap.Slot
}

type byInstant struct{}

func (byInstant) Before(a, b *timer) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (byInstant) Slot(t *timer) *minheap.Slot { return &t.slot }

// setTimer sets a timer, or sets it anew.
func (p *Pool) setTimer(t *timer, at mail.Instant) {
	p.stopTimer(t)
	p.seq++
	t.at, t.seq = at, p.seq
	p.timers.Push(t)
}

func (p *Pool) stopTimer(t *timer) {
	if t.slot.Heaped() {
		p.timers.Remove(t)
	}
}
