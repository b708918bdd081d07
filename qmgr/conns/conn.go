package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// An ID names one connection. IDs count up from 1 and are never used again.
type ID uint64

// A Conn is one connection.
type Conn struct {
	ID   ID
	pool *Pool
	host *host
	// planned is the host in the plan of the connection's site; nil if the host is no
	// longer in it. Such a connection is not Ready.
	planned *siteHost
	site    *Site
	state   State
	// message is the one on whose behalf the connection is being opened; it counts for
	// that message until it is ready. Zero unless state is Connecting.
	message mail.QueueID

	terms
	life
	work
	progress
	links connLinks
}

// Terms are what a connection may be used for. While it is Connecting, level is what is
// asked for; from then on it is what both sides do.
type terms struct {
	level    mail.Level
	limit    int           // transactions that it may carry; 0 for any number
	rtt      time.Duration // round trip
	security mail.Security // what was negotiated
	replaces bool          // it was opened in place of one that had ended, and does not count for slow start
	// proving means that a probe at the end shows whether the host handles LevelStream.
	// At most one connection of a host is proving, and then host.proving is set.
	proving bool
}

// A life is when a connection begins, and when and why it ends.
type life struct {
	made   mail.Instant // when dialing began
	ready  mail.Instant // when it became ready; 0 while Connecting
	used   mail.Instant // when it fell idle, if it is
	timer  timer        // idle or expired; set while Ready
	closed mail.CloseReason
	// expires is when the connection is closed whatever it carries, because of expiry:
	// DrainAge or DrainOutdated.
	expires mail.Instant
	expiry  DrainReason
	drained DrainReason // why it became Draining
}

// Work is what a connection carries and has carried.
type work struct {
	loads    []Load // assigned and not finished, in order
	cost     int    // sum of the costs of loads
	room     int    // how many more entries it takes now; 0 unless Ready
	finished int    // transactions on which the host has given a verdict
	callouts int    // of these; at most finished
	service  time.Duration
	// suspect means that the last entry was not begun, or broke off: the connection is
	// about to end, most likely. It takes nothing and is not idle either.
	suspect bool
	// lastCallout means that the last entry that was judged, or ended with the
	// connection, was a call-out.
	lastCallout bool
	// broken means that the connection has ended in the middle of a transaction, and
	// charged is the message of that transaction, 0 if it was a call-out.
	broken     bool
	charged    mail.QueueID
	positiveAt mail.Instant // when it last gave positive feedback; 0 for never
}

// ConnLinks are the lists that a connection is on. It is on all and inSite's list of all
// connections while it exists, on spare while listed is listedSpare, and on the four
// lists of idle connections while it is listedIdle.
type connLinks struct {
	all     ilist.Link[Conn] // on pool.all
	ofSite  ilist.Link[Conn] // on site.conns
	listed  listing
	site    ilist.Link[Conn] // on site.idle or site.spare
	inPool  ilist.Link[Conn] // on pool.idle
	inGroup ilist.Link[Conn] // on group.idle
	inHost  ilist.Link[Conn] // on host.idle
}

// A listing says on which of its site's lists a connection is.
type listing uint8

const (
	listedNone  listing = iota // it has no room
	listedSpare                // active, and has room
	listedIdle
)

// A Load is an entry that is assigned to a connection.
type Load struct {
	Entry   uint64 // the caller's number
	Message mail.QueueID
	Cost    int // of Cost
	// Callout means that no message is sent: the entry shows nothing about how the host
	// takes mail.
	Callout bool
}

// Costs are counted in thousandths of a small message's. A connection whose load has
// reached the threshold, or its depth if that is more, gets no further entry even if
// its depth would allow one, so that large messages are not lined up behind each other.
const (
	unit      = 1000
	threshold = 4 * unit
)

// Cost returns what an entry costs the connection that carries it: one unit, and one
// more for every 64 KiB and for every 50 recipients.
func Cost(size int64, recipients int) int {
	return unit + int(min(size, 1<<40)*unit/(64<<10)) + max(recipients-1, 0)*unit/50
}

// Host returns the host that the connection leads to.
func (c *Conn) Host() mail.Host { return c.host.Host }

// Site returns the site that the connection serves.
func (c *Conn) Site() *Site { return c.site }

// Message returns the message on whose behalf the connection is being opened, 0 once it
// is ready.
func (c *Conn) Message() mail.QueueID { return c.message }

// Loads returns the entries that are assigned to the connection and not finished, in
// order. The slice is valid until the next call of a method of the pool.
func (c *Conn) Loads() []Load { return c.loads }

// Opening returns what is needed to dial.
func (c *Conn) Opening() mail.Opening {
	g := c.site.group
	return mail.Opening{Transport: g.name, Nexthop: c.site.name, Source: c.site.way.Source, Security: c.site.way.Security, Host: c.host.Host, Level: c.level, InFlight: g.cfg.InFlight, Probe: c.proving}
}

// mails returns how many messages the connection has carried. Call-outs are left out:
// what a host does with them shows nothing about messages.
func (c *Conn) mails() int { return c.finished - c.callouts }

// working reports whether the connection carries something.
func (c *Conn) working() bool { return len(c.loads) > 0 }

// hasSlot reports whether the connection counts against the limits on connections.
func (c *Conn) hasSlot() bool { return c.state != Draining || c.working() }

// carries reports whether an entry of a message is assigned to the connection.
func (c *Conn) carries(id mail.QueueID) bool {
	for i := range c.loads {
		if c.loads[i].Message == id {
			return true
		}
	}
	return false
}

// limits returns the limits of connections to the host.
func (c *Conn) limits() HostLimits {
	if c.planned != nil {
		return c.planned.limits
	}
	g := &c.site.group.cfg
	return HostLimits{Connections: g.HostLimit, Level: g.Level, ActiveTime: g.ActiveTime, Count: g.CountLimit}
}

// fits reports whether a connection that was made under other limits could have been
// made under these.
func (c *Conn) fits(l *HostLimits) bool {
	return c.level <= l.Level && (l.Count <= 0 || c.finished < l.Count)
}

// tolerable is a delay that does not matter to an entry that waits behind another on the
// same connection.
const tolerable = 20 * time.Millisecond

// depth is the number of entries that may be assigned to the connection at once.
//
// An entry behind the one under way saves a round trip and costs freedom: it cannot go
// elsewhere, nor be overtaken. That is worth it where transactions are short, or where
// the round trip is a large part of them. A server that is near shows with its first
// message what it is like, and that message is alone.
func (c *Conn) depth() int {
	deep := 1
	switch {
	case c.site.single, c.mails() == 0 && c.rtt < tolerable:
	case c.service > tolerable && 4*c.rtt < c.service:
	case c.level == mail.LevelOverlap:
		deep = 2
	case c.level == mail.LevelStream:
		deep = c.site.group.cfg.InFlight + 1
	}
	if c.limit > 0 {
		deep = min(deep, c.limit-c.finished)
	}
	return deep
}

// update brings the connection's room, and the lists that depend on it, up to date.
func (c *Conn) update() {
	room, where := 0, listedNone
	if c.state == Ready {
		if n, deep := len(c.loads), c.depth(); !c.suspect && (n == 0 || c.cost < max(threshold, deep*unit)) {
			room = max(deep-n, 0)
		}
		switch {
		case !c.working() && !c.suspect:
			where = listedIdle
		case room > 0:
			where = listedSpare
		}
	}
	c.site.room += room - c.room
	c.room = room
	if where != c.links.listed {
		c.unlist()
		c.enlist(where)
	}
}

func (c *Conn) enlist(where listing) {
	c.links.listed = where
	s := c.site
	switch where {
	case listedSpare: // oldest first; mostly the newest gets on it
		at := s.spare.Back()
		for at != nil && at.ready > c.ready {
			at = s.spare.Prev(&at.links.site)
		}
		if at == nil {
			s.spare.PushFront(&c.links.site, c)
		} else {
			s.spare.InsertAfter(&c.links.site, c, &at.links.site)
		}
	case listedIdle:
		if c.finished > 0 || c.siteProven && !s.slow() {
			c.clearDoubt() // others are about to get their first message
		}
		s.idle.PushBack(&c.links.site, c)
		c.pool.idle.PushBack(&c.links.inPool, c)
		s.group.idle.PushBack(&c.links.inGroup, c)
		c.host.idle.PushBack(&c.links.inHost, c)
	}
}

func (c *Conn) unlist() {
	s := c.site
	switch c.links.listed {
	case listedSpare:
		s.spare.Remove(&c.links.site)
	case listedIdle:
		s.idle.Remove(&c.links.site)
		c.pool.idle.Remove(&c.links.inPool)
		s.group.idle.Remove(&c.links.inGroup)
		c.host.idle.Remove(&c.links.inHost)
	}
	c.links.listed = listedNone
}

// assign adds an entry.
func (c *Conn) assign(l Load) {
	assert.That(c.room > 0, "connection %d is assigned entry %d and has no room", c.ID, l.Entry)
	if !c.working() {
		c.pool.startsWork(c, c.pool.now)
	}
	c.loads = append(c.loads, l)
	c.cost += l.Cost
	c.update()
}

// drop takes an entry off; it need not be the first one.
func (c *Conn) drop(entry uint64) Load {
	for i, l := range c.loads {
		if l.Entry == entry {
			c.loads = append(c.loads[:i], c.loads[i+1:]...)
			c.cost -= l.Cost
			return l
		}
	}
	assert.Unreachable("an entry is finished that the connection does not have")
	return Load{}
}

// end returns when a ready connection will be closed if nothing else happens.
func (c *Conn) end() mail.Instant {
	if !c.working() {
		return min(c.expires, c.used.Add(max(c.site.group.cfg.IdleTime, 0)))
	}
	return c.expires
}

// overdue returns why a connection ends whose time has come.
func (c *Conn) overdue(now mail.Instant) DrainReason {
	if now < c.expires {
		return DrainIdle
	}
	return c.expiry
}

// outdated reports whether the connection was made before its host was proven to handle
// LevelStream, and is not itself the one that proves it.
func (c *Conn) outdated(now mail.Instant) bool {
	return c.level == mail.LevelOverlap && !c.proving && c.limits().Level == mail.LevelStream && c.pool.db.View(c.host.key, now).Streams
}

// expireOutdated closes the connection as soon as it has finished what it carries.
func (c *Conn) expireOutdated(now mail.Instant) { c.expires, c.expiry = now, DrainOutdated }

// prove makes a connection the one that shows whether its host handles LevelStream, or
// no longer.
func (c *Conn) prove(it bool) {
	if c.proving || it {
		c.proving, c.host.proving = it, it
	}
}
