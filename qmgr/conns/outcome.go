package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// An End is how far an entry came on its connection.
type End uint8

const (
	EndUntried End = iota // it was not begun, or nobody can tell
	EndBroken             // it was begun, and the end of the connection has decided
	EndOurs               // we have decided, without the server; the connection is what it was
	EndJudged             // the server has said what becomes of it
)

// Finished takes the end of an entry. took is what the transaction took of the
// connection's time. It tells whether this is positive feedback for the window: at
// most one each second and round trip for each connection, or a pipelined one would
// outweigh all others; and whether the connection is to be hung up, because others need
// its place more.
func (p *Pool) Finished(c *Conn, entry uint64, took time.Duration, end End, now mail.Instant) (praise, yields bool) {
	p.now = now
	wanted := c.site.group.wanted()
	l := c.drop(entry)
	c.suspect = end == EndUntried || end == EndBroken
	if end == EndJudged || end == EndBroken {
		c.asked = l.Callout
	}
	if end == EndBroken && !c.begun { // only the first was under way for certain
		c.begun = true
		if !l.Callout {
			c.charged = l.Message
		}
	}
	if end == EndJudged {
		c.finished++
		p.movesOn(c, now)
		praise = p.judged(c, l, took, now)
	}
	if len(c.loads) == 0 {
		c.used = now
		if c.state == Draining {
			c.host.carrying--
			c.site.carrying--
			c.site.group.leaving--
			if c.mails() > 0 {
				c.site.owe(now)
			}
			p.wakeSite(c.site)
			p.release(c)
			p.wakeFailing(c.host)
		}
	}
	c.update()
	if c.state == Ready && end == EndJudged && p.yields(c, wanted, now) {
		c.site.yielded = true
		p.part(c, PartRoom)
		return praise, true
	}
	if c.state == Ready && len(c.loads) == 0 {
		p.rest(c)
	}
	return praise, false
}

// judged takes in that the host has said what becomes of an entry, and tells whether
// that is feedback.
func (p *Pool) judged(c *Conn, l Load, took time.Duration, now mail.Instant) (praise bool) {
	p.works(c)
	p.well(c.host)
	if l.Callout {
		c.callouts++
		c.site.tired, c.site.tiredFor = 0, 0
		return false
	}
	c.service = smoothed(c.service, took)
	if c.mails() > 1 && now < c.praised.Add(max(time.Second, c.rtt)) {
		return false
	}
	c.praised = now
	p.observe(c, l, took, now)
	return !p.Slow(c, now)
}

// Slow tells that the host of a connection takes several times as long over a
// message as it can. It has more to do than it can bear, or wants to be left
// alone: its success is no reason to open more connections to it.
func (p *Pool) Slow(c *Conn, now mail.Instant) bool { return p.db.View(c.host.key, now).Slow }

// small is the cost of a message with one recipient and at most 8 KiB. Only these
// are compared with each other: a newsletter takes longer than a letter on a server
// that is quite well.
const small = unit + unit/8

// observe tells destdb what transactions on the connection are like.
func (p *Pool) observe(c *Conn, l Load, took time.Duration, now mail.Instant) {
	key := c.host.key
	if c.mails() == 1 {
		p.db.Succeeded(key, now) // it takes mail, and not only connections
		p.db.ObserveRTT(key, c.rtt, now)
	}
	p.db.Bears(key, c.level, now)
	if l.Cost <= small {
		p.db.ObserveService(key, max(took-c.rtt, 0), now)
	}
}

// smoothed returns the exponentially weighted mean of durations.
func smoothed(mean, next time.Duration) time.Duration {
	if mean == 0 {
		return next
	}
	return mean + (next-mean)/4
}

// rest deals with a connection that has nothing to carry. Those who may have use
// for it take it over, or have it closed for their own, only if its own site has
// no more use for it: they are asked after that.
func (p *Pool) rest(c *Conn) {
	if end := c.end(); !c.timer.slot.Heaped() || end < c.timer.at {
		p.setTimer(&c.timer, end)
	}
	if c.suspect {
		return
	}
	p.wakeHost(c.host)
	p.wakeSlot()
}
