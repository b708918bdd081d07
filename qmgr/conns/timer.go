package conns

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/timers"
)

// A timer is when to look at a connection, a site, a host or our network again.
type timer = timers.Timer[watched]

// watched is at most one of conn, site and host, and our network if it is none.
type watched struct {
	conn *Conn
	site *Site
	host *host
}

// NextDue returns when Surplus should be called next.
func (p *Pool) NextDue() (mail.Instant, bool) {
	at := p.timers.Next()
	return at, at != mail.Never
}

// Surplus returns the connections that have been idle for too long, or have become too
// old. They are draining now and have to be hung up. It also wakes the sites whose time
// has come.
func (p *Pool) Surplus(now mail.Instant) []*Conn {
	p.now = now
	var surplus []*Conn
	for t := p.timers.Due(now); t != nil; t = p.timers.Due(now) {
		switch {
		case t.Of.conn != nil:
			surplus = p.connDue(t, surplus, now)
		case t.Of.site != nil:
			p.siteDue(t)
		case t.Of.host != nil:
			p.hostDue(t.Of.host, now)
		default:
			p.probeNetwork(now)
		}
	}
	return surplus
}

// connDue deals with a timer of a connection, which is appended to surplus if it ends.
func (p *Pool) connDue(t *timer, surplus []*Conn, now mail.Instant) []*Conn {
	c := t.Of.conn
	if t == &c.stall {
		p.mayHaveStalled(c, now)
		return surplus
	}
	if at := c.end(); at > now {
		p.timers.Set(t, at)
	} else if c.state == Ready {
		p.drainFor(c, c.overdue(now))
		surplus = append(surplus, c)
	}
	return surplus
}

func (p *Pool) siteDue(t *timer) {
	switch s := t.Of.site; t {
	case &s.waiting.timer:
		p.wakeSite(s)
	case &s.answer:
		p.noAnswer(s)
	case &s.upgrade:
		s.upgrades = true
		p.wake(s)
	}
}

func (p *Pool) hostDue(h *host, now mail.Instant) {
	if h.count > 0 {
		p.wakeAddress(h.at)
	} else {
		p.hostEmptied(h, now)
	}
}
