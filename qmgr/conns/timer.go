package conns

import (
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
)

// A timer is when to look at a connection, a site, a host or our network again. It
// belongs to at most one of conn, site and host, and to our network if to none.
type timer struct {
	at   mail.Instant
	seq  uint64 // timers that are due at the same time are so in the order in which they were set
	conn *Conn
	site *Site
	host *host
	slot minheap.Slot
}

type byInstant struct{}

func (byInstant) Before(a, b *timer) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (byInstant) Slot(t *timer) *minheap.Slot { return &t.slot }

// Timers are those that are set.
type timers struct {
	heap minheap.Heap[timer, byInstant]
	seq  uint64 // of the timer that was set last
}

func (t *timer) set() bool { return t.slot.Heaped() }

// setTimer sets a timer, or sets it anew.
func (ts *timers) setTimer(t *timer, at mail.Instant) {
	ts.stopTimer(t)
	ts.seq++
	t.at, t.seq = at, ts.seq
	ts.heap.Push(t)
}

func (ts *timers) stopTimer(t *timer) {
	if t.set() {
		ts.heap.Remove(t)
	}
}

// NextDue returns when Surplus should be called next.
func (p *Pool) NextDue() (mail.Instant, bool) {
	if t := p.heap.Min(); t != nil {
		return t.at, true
	}
	return 0, false
}

// Surplus returns the connections that have been idle for too long, or have become too
// old. They are draining now and have to be hung up. It also wakes the sites whose time
// has come.
func (p *Pool) Surplus(now mail.Instant) []*Conn {
	p.now = now
	var surplus []*Conn
	for t := p.heap.Min(); t != nil && t.at <= now; t = p.heap.Min() {
		p.heap.PopMin()
		switch {
		case t.conn != nil:
			surplus = p.connDue(t, surplus, now)
		case t.site != nil:
			p.siteDue(t)
		case t.host != nil:
			p.hostDue(t.host, now)
		default:
			p.probeNetwork(now)
		}
	}
	return surplus
}

// connDue deals with a timer of a connection, which is appended to surplus if it ends.
func (p *Pool) connDue(t *timer, surplus []*Conn, now mail.Instant) []*Conn {
	c := t.conn
	if t == &c.stall {
		p.mayHaveStalled(c, now)
		return surplus
	}
	if at := c.end(); at > now {
		p.setTimer(t, at)
	} else if c.state == Ready {
		p.drainFor(c, c.overdue(now))
		surplus = append(surplus, c)
	}
	return surplus
}

func (p *Pool) siteDue(t *timer) {
	switch s := t.site; t {
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
