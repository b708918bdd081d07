package conns

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/timers"
)

// A Pool is all connections of all transports. It belongs to one goroutine. The
// instants that its methods are given must not decrease.
type Pool struct {
	cfg       Config
	db        *destdb.DB
	rng       prng.Source
	now       mail.Instant // when it was last told the time
	halted    bool
	lastReset uint64 // the last retry reset

	registry
	network
	lines
	timers  timers.Timers[watched]
	endings endings
	scratch survey // used again by each survey

	observe func(from, to any) // sees each change of a state; nil but in tests
}

// A registry is the connections that there are, and the hosts to which they lead. A host
// is in it while it has connections, and for troubleTTL after something went wrong there.
type registry struct {
	last  ID
	conns map[ID]*Conn
	hosts map[destdb.Key]*host
	// addresses are where the hosts are; by keys without Security.
	addresses map[destdb.Key]*address
	demanding int              // hosts of which a demand of security is made
	open      int              // connections that have a slot
	all       ilist.List[Conn] // the oldest first
	idle      ilist.List[Conn] // the one unused for longest first
}

// Lines are where sites wait, and where they are reported from.
type lines struct {
	groups ilist.List[Group] // with sites that wait for a slot; the one to serve next in front
	woken  ilist.List[Site]
	// sharers are the sites that wait because a message uses enough, in the order in
	// which they began to. There may be as many as the message has domains. No list is
	// empty.
	sharers map[mail.QueueID]*ilist.List[Site]
	waking  []*Site          // used again by wakeAll
	waited  []*siteHost      // used again by waitsAt
	stuck   ilist.List[Site] // have become stuck, and the caller does not know yet
}

// New returns a pool without connections. The seed decides which of several equal
// hosts is dialed, and when connections of one age end.
func New(cfg Config, db *destdb.DB, seed uint64) *Pool {
	return &Pool{cfg: cfg, db: db, rng: prng.New(seed),
		registry: registry{conns: make(map[ID]*Conn), hosts: make(map[destdb.Key]*host), addresses: make(map[destdb.Key]*address)},
		lines:    lines{sharers: make(map[mail.QueueID]*ilist.List[Site])}}
}

// Configure puts new limits in force.
func (p *Pool) Configure(cfg Config) { p.cfg = cfg }

// Dialing returns a connection that is being opened; nil if the ID is of no such one.
func (p *Pool) Dialing(id ID) *Conn {
	if c := p.conns[id]; c != nil && c.state == Connecting {
		return c
	}
	return nil
}

// Established returns a connection that was ready and has not ended; nil if the ID is of
// no such one.
func (p *Pool) Established(id ID) *Conn {
	if c := p.conns[id]; c != nil && c.state != Connecting {
		return c
	}
	return nil
}

// All yields all connections, in the order in which they were made.
func (p *Pool) All() iter.Seq[*Conn] { return p.all.All() }

// Forget ends a site. It has no connections.
func (p *Pool) Forget(s *Site) {
	assert.That(s.Empty(), "site %s is forgotten and has connections", s.name)
	p.forgetPlan(s)
	p.timers.Stop(&s.upgrade)
	p.timers.Stop(&s.answer)
	if s.inWake.Listed() {
		p.woken.Remove(&s.inWake)
	}
	if s.inStuck.Listed() {
		p.stuck.Remove(&s.inStuck)
	}
	p.PassOn(s)
}

// Halt ends all connections: nothing may be started any more, and what fails from now on
// says nothing about hosts. It returns those that have to be hung up.
func (p *Pool) Halt() (surplus []*Conn) {
	p.halted = true
	for c := range p.all.All() {
		if c.state == Ready {
			p.drain(c)
			surplus = append(surplus, c)
		}
	}
	return surplus
}

// Shrink drains connections of a site until no more than most are in use, those first that
// carry nothing, and of these the youngest. It returns those that have to be hung up.
// Connections that are being opened are not counted.
func (p *Pool) Shrink(s *Site, most int) (surplus []*Conn) {
	for _, busy := range []bool{false, true} {
		var ready []*Conn
		for c := range s.conns.All() {
			if c.state == Ready && c.working() == busy {
				ready = append(ready, c)
			}
		}
		for i := len(ready) - 1; i >= 0 && s.ready > most; i-- {
			p.drainFor(ready[i], DrainLimit)
			surplus = append(surplus, ready[i])
		}
	}
	return surplus
}

// drainFor drains a connection that works, for a reason of ours.
func (p *Pool) drainFor(c *Conn, why DrainReason) {
	c.drained = why
	p.drain(c)
}

// drain lets a connection take no further entries. The caller hangs it up.
func (p *Pool) drain(c *Conn) {
	if p.halted && c.drained == notDrained {
		c.drained = DrainStop
	}
	s := c.site
	s.ready--
	c.host.ready--
	c.become(Draining)
	c.update()
	if !c.working() {
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
	c.clearDoubt()
	p.open--
	c.site.group.open--
	p.wakeSlot()
}

// free is how many further connections there could be for a transport: those not
// open and those that may be closed for it.
func (p *Pool) free(g *Group) int {
	return max(0, min(p.cfg.Limit-p.open+p.idle.Len(), g.cfg.Limit-g.open+g.idle.Len()))
}
