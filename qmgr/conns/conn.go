package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// An ID names one connection. IDs count up from 1 and are never used again.
type ID uint64

// A State is where a connection is in its life. It only ever grows.
type State uint8

const (
	Connecting State = iota // being dialled
	Ready                   // takes entries
	Draining                // takes none any more, and ends when it has finished
	gone
)

// String returns the state's name.
func (s State) String() string { return [...]string{"connecting", "ready", "draining", "gone"}[s] }

// A Load is an entry that is assigned to a connection.
type Load struct {
	Entry   uint64 // the caller's number
	Message mail.QueueID
	Cost    int // of Cost
	// Callout says that no message is sent: it tells nothing about how the host
	// takes mail.
	Callout bool
}

// The cost of entries is counted in thousandths of a small message's. A
// connection whose load has reached the threshold, or as much as its depth if that
// is more, gets no further entry even if
// its depth would allow one, so that large messages are not lined up behind each
// other.
const (
	unit      = 1000
	threshold = 4 * unit
)

// Cost returns what an entry costs the connection that carries it: one small
// message's worth, and as much again for every 64 KiB and for every 50
// recipients.
func Cost(size int64, recipients int) int {
	return unit + int(min(size, 1<<40)*unit/(64<<10)) + max(recipients-1, 0)*unit/50
}

// A Conn is one connection.
type Conn struct {
	ID    ID
	pool  *Pool
	host  *host
	spot  *spot // in its site's plan; nil if the host is not in it any more
	site  *Site
	state State
	// message is the one on whose behalf it is being opened; it counts for that
	// message until the connection is ready.
	message mail.QueueID

	level    mail.Level
	replaces bool // it was opened in place of one that had ended
	proving  bool // a probe at its end shows whether the host bears LevelStream
	limit    int  // transactions it may carry; 0 for any number
	rtt      time.Duration

	loads    []Load        // assigned and not finished, in order
	load     int           // their cost
	room     int           // how many more entries it takes now
	finished int           // transactions
	callouts int           // of these
	asked    bool          // the last that ended, or ended with the connection, was a call-out
	service  time.Duration // of one transaction, smoothed
	begun    bool          // it has ended in the midst of a transaction
	charged  mail.QueueID  // the message of that; 0 for a call-out
	why      mail.CloseReason
	parting  Parting
	givesWay bool // expires is when its host was proven able of LevelStream
	suspect  bool // it began nothing of the last entry: it is about to end, most likely
	trusted  bool // its site was known to take mail when it was dialled
	doubtful bool // it holds a place and has not shown that it gets on
	untested bool // it is doubtful because its site is not known to take mail
	stalled  bool // it is doubtful, and has made no progress for stallTime
	trial    bool // it is untested, and holds a place for trials

	made    mail.Instant // when dialling began
	ready   mail.Instant
	since   mail.Instant // when it was first ready for its site
	used    mail.Instant // when it fell idle
	expires mail.Instant // end of ActiveTime
	praised mail.Instant // when it last gave positive feedback
	moved   mail.Instant // when it last began something or made progress
	listed  place
	inSite  ilist.Link[Conn] // on site.idle or site.spare
	inOrder ilist.Link[Conn] // on pool.all
	inPool  ilist.Link[Conn] // on pool.idle
	inGroup ilist.Link[Conn] // on group.idle
	inHost  ilist.Link[Conn] // on host.idles
	inAll   ilist.Link[Conn] // on site.conns
	timer   timer
	stall   timer // when to look whether it makes progress
}

// place says on which of its site's lists a connection is.
type place uint8

const (
	placeNone  place = iota // it has no room
	placeSpare              // active, and has room
	placeIdle
)

// State returns where the connection is in its life.
func (c *Conn) State() State { return c.state }

// Host returns the host that it leads to.
func (c *Conn) Host() mail.Host { return c.host.Host }

// Site returns the site that it serves.
func (c *Conn) Site() *Site { return c.site }

// Message returns the message on whose behalf it is being opened.
func (c *Conn) Message() mail.QueueID { return c.message }

// Carried returns how many transactions it has carried.
func (c *Conn) Carried() int { return c.finished }

// mails returns how many messages it has carried: of what a host does with
// call-outs nothing follows for them.
func (c *Conn) mails() int { return c.finished - c.callouts }

// Opening returns what the host of the core has to know to dial.
func (c *Conn) Opening() mail.Opening {
	g := c.site.group
	return mail.Opening{Transport: g.name, Nexthop: c.site.name, Host: c.host.Host, Level: c.level, InFlight: g.cfg.InFlight, Probe: c.proving}
}

// Holds tells whether an entry of a message is assigned to the connection, or
// whether it is being opened on its behalf.
func (c *Conn) Holds(id mail.QueueID) bool {
	if c.state == Connecting {
		return c.message == id
	}
	for i := range c.loads {
		if c.loads[i].Message == id {
			return true
		}
	}
	return false
}

// limits returns what holds for connections to its host.
func (c *Conn) limits() HostLimits {
	if c.spot != nil {
		return c.spot.limits
	}
	g := &c.site.group.cfg
	return HostLimits{Connections: g.HostLimit, Level: g.Level, ActiveTime: g.ActiveTime, Count: g.CountLimit}
}

// lateEnough is how long an entry may have to wait behind another on the same
// connection without anybody minding.
const lateEnough = 20 * time.Millisecond

// depth is how many entries may be assigned to the connection at once.
//
// An entry behind the one under way saves a round trip and costs freedom: it
// cannot go elsewhere, nor be overtaken. That is worth it where transactions are
// short, or where the round trip is a large part of them. On a server that is near
// the first message shows what it is like, and is alone.
func (c *Conn) depth() int {
	deep := 1
	switch {
	case c.site.single, c.mails() == 0 && c.rtt < lateEnough:
	case c.service > lateEnough && 4*c.rtt < c.service:
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

// update brings room, and the lists that depend on it, up to date.
func (c *Conn) update() {
	room, where := 0, placeNone
	if c.state == Ready {
		if n, deep := len(c.loads), c.depth(); !c.suspect && (n == 0 || c.load < max(threshold, deep*unit)) {
			room = max(deep-n, 0)
		}
		switch {
		case len(c.loads) == 0 && !c.suspect:
			where = placeIdle
		case room > 0:
			where = placeSpare
		}
	}
	c.site.room += room - c.room
	c.room = room
	if where != c.listed {
		c.unlist()
		c.enlist(where)
	}
}

func (c *Conn) enlist(where place) {
	c.listed = where
	s := c.site
	switch where {
	case placeSpare: // oldest first; mostly the newest gets on it
		at := s.spare.Back()
		for at != nil && at.ready > c.ready {
			at = s.spare.Prev(&at.inSite)
		}
		if at == nil {
			s.spare.PushFront(&c.inSite, c)
		} else {
			s.spare.InsertAfter(&c.inSite, c, &at.inSite)
		}
	case placeIdle:
		if c.finished > 0 || c.trusted && !s.slow() {
			c.doubt(false) // others are about to get their first message
		}
		s.idle.PushBack(&c.inSite, c)
		c.pool.idle.PushBack(&c.inPool, c)
		s.group.idle.PushBack(&c.inGroup, c)
		c.host.idles.PushBack(&c.inHost, c)
	}
}

func (c *Conn) unlist() {
	s := c.site
	switch c.listed {
	case placeSpare:
		s.spare.Remove(&c.inSite)
	case placeIdle:
		s.idle.Remove(&c.inSite)
		c.pool.idle.Remove(&c.inPool)
		s.group.idle.Remove(&c.inGroup)
		c.host.idles.Remove(&c.inHost)
	}
	c.listed = placeNone
}

// assign adds an entry.
func (c *Conn) assign(l Load) {
	assert.That(c.room > 0, "connection %d is assigned entry %d and has no room", c.ID, l.Entry)
	if len(c.loads) == 0 {
		c.pool.begins(c, c.pool.now)
	}
	c.loads = append(c.loads, l)
	c.load += l.Cost
	c.update()
}

// Loads returns the entries that are assigned to the connection and not finished,
// in order. The slice is valid until the next call of a method of the pool.
func (c *Conn) Loads() []Load { return c.loads }

// drop takes an entry off; it need not be the first one.
func (c *Conn) drop(entry uint64) Load {
	for i, l := range c.loads {
		if l.Entry == entry {
			c.loads = append(c.loads[:i], c.loads[i+1:]...)
			c.load -= l.Cost
			return l
		}
	}
	assert.Unreachable("an entry is finished that the connection does not have")
	return Load{}
}
