package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// find returns the connection that is to carry the site's next entry: the newest
// active one that has room, else the one that fell idle last; nil if none has
// room.
func (p *Pool) find(s *Site) *Conn {
	if c := s.spare.Back(); c != nil {
		return c
	}
	return s.idle.Back()
}

// Assign gives an entry to a connection of a site that has room, and returns the
// connection. First means that the connection carried nothing of the entry's message
// before; last means that the caller must hang it up, because this entry reaches its limit
// of transactions.
func (p *Pool) Assign(s *Site, l Load) (c *Conn, first, last bool) {
	c = p.find(s)
	first = !c.carries(l.Message)
	c.assign(l)
	if c.limit == 0 || c.finished+len(c.loads) < c.limit {
		return c, first, false
	}
	why := DrainCount
	if c.proving {
		why = DrainProbe
	}
	p.drainFor(c, why)
	return c, first, true
}

// An end is how far an entry came on its connection.
type end uint8

const (
	endUntried end = iota // it was not begun, or that is unknown
	endBroken             // it was begun, and the end of the connection has decided
	endOurs               // we have decided, without the server; the connection is what it was
	endJudged             // the server has given a verdict on it
)

// endOf returns how far a transaction came. Only what the server has said itself
// shows that it does its work. Our own words are about a message that cannot be
// read, or about what the server does not offer, unless the connection has ended.
func endOf(r *mail.DeliveryResult) end {
	if !r.Site.IsZero() {
		return endBroken
	}
	e := endUntried
	for i := range r.Outcomes {
		switch o := &r.Outcomes[i]; {
		case o.Result == mail.Untried:
		case o.Result == mail.Delivered, o.Reply.By != "":
			return endJudged
		default:
			e = endOurs
		}
	}
	return e
}

// A Finish is what follows from the end of an entry.
type Finish struct {
	Feedback Feedback
	Left     bool // the connection carries nothing more of the entry's message
	Hangup   bool // the caller must hang the connection up, because others need its slot more
}

// Finished takes the result of an entry.
func (p *Pool) Finished(c *Conn, entry uint64, r *mail.DeliveryResult, now mail.Instant) Finish {
	return p.finished(c, entry, r.Send, endOf(r), now)
}

// Untried takes an entry off a connection that never began it. It reports whether the
// connection carries nothing more of the entry's message.
func (p *Pool) Untried(c *Conn, entry uint64, now mail.Instant) (left bool) {
	return p.finished(c, entry, 0, endUntried, now).Left
}

// finished takes the end of an entry. Took is how long the transaction occupied the
// connection.
func (p *Pool) finished(c *Conn, entry uint64, took time.Duration, e end, now mail.Instant) (f Finish) {
	p.now = now
	wanted := c.site.group.wanted()
	l := c.drop(entry)
	f.Left = !c.carries(l.Message)
	c.suspect = e == endUntried || e == endBroken
	if e == endJudged || e == endBroken {
		c.lastCallout = l.Callout
	}
	if e == endBroken && !c.broken { // only the first was under way for certain
		c.broken = true
		if !l.Callout {
			c.charged = l.Message
		}
	}
	if e == endJudged {
		c.finished++
		p.progressed(c, now)
		f.Feedback = p.judged(c, l, took, now)
	}
	if !c.working() {
		c.used = now
		if c.state == Draining {
			p.emptied(c, now)
		}
	}
	c.update()
	if c.state != Ready {
		return f
	}
	if e == endJudged && p.mustYield(c, wanted, now) {
		c.site.yielded = true
		p.drainFor(c, DrainSlot)
		f.Hangup = true
	} else if !c.working() {
		p.rest(c)
	}
	return f
}

// emptied gives back the slot of a draining connection that has finished what it carried.
func (p *Pool) emptied(c *Conn, now mail.Instant) {
	s := c.site
	c.host.carrying--
	s.carrying--
	s.group.leaving--
	if c.mails() > 0 {
		s.owed.add(now)
	}
	p.wakeSite(s)
	p.release(c)
	p.wakeFailing(c.host)
}

// rest deals with a connection that has nothing to carry. Other sites may take it over,
// or have it closed for one of their own, only if its own site does not use it: they are
// asked after that one.
func (p *Pool) rest(c *Conn) {
	if end := c.end(); !c.timer.Running() || end < c.timer.At() {
		p.timers.Set(&c.timer, end)
	}
	if c.suspect {
		return
	}
	p.wakeAddress(c.host.at)
	p.wakeSlot()
}
