package conns

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// looks is among how many sites one is looked for that can use something.
const looks = 16

// wait notes what a site waits for. What happens to the site itself (a dial ends,
// the window grows) wakes it anyway; for the rest the caller puts it where it is
// found.
func (p *Pool) wait(s *Site, why Wait, until mail.Instant) Decision {
	change(p, &s.waits, why, waitTransitions)
	if until != mail.Never {
		s.timer.Of.site = s
		p.timers.Set(&s.timer, until)
	}
	return Decision{Kind: Waiting, wait: why}
}

// queue puts a site in a line of its group: to the back, but in front if it was its turn
// and another site was faster.
func (p *Pool) queue(s *Site, line *ilist.List[Site]) {
	if s.cause != causeSlot {
		p.queueBack(s, line)
		return
	}
	s.line = line
	line.PushFront(&s.inLine, s)
	p.lined(s, true)
}

func (p *Pool) queueBack(s *Site, line *ilist.List[Site]) {
	s.line = line
	line.PushBack(&s.inLine, s)
	p.lined(s, false)
}

// lined notes that a site waits in a line.
func (p *Pool) lined(s *Site, front bool) {
	if s.line == &s.group.slots {
		s.group.joinTurn(s, front)
	}
	p.list(s.group)
}

// list notes that a transport has sites that wait for slots.
func (p *Pool) list(g *Group) {
	if !g.inPool.Listed() {
		p.groups.PushBack(&g.inPool, g)
	}
}

// waitForHost waits until some host of the tier takes one more connection, or one
// that has failed may be tried again.
func (p *Pool) waitForHost(s *Site, v *survey) Decision {
	evict := p.makePlace(v.full)
	for _, sh := range v.full {
		a := p.addresses[sh.addressKey()]
		if s.cause == causeHost && s.at == a {
			a.waiting.PushFront(&sh.inWaiting, sh) // another site was faster
		} else {
			a.waiting.PushBack(&sh.inWaiting, sh)
		}
	}
	why := WaitHost
	if v.busy {
		why = WaitBusy
	}
	d := p.wait(s, why, v.until)
	d.Evict = evict
	return d
}

// waitForShare waits until a message uses fewer connections, or more are free.
func (p *Pool) waitForShare(s *Site, ask Ask) Decision {
	s.sharing = ask.Message
	sharers := p.sharers[s.sharing]
	if sharers == nil {
		sharers = new(ilist.List[Site])
		p.sharers[s.sharing] = sharers
	}
	sharers.PushBack(&s.inShare, s)
	return p.waitForPart(s, ask, WaitShare)
}

// mayUse reports whether a message may use one connection more.
func (p *Pool) mayUse(used, free int) bool {
	return share.Allowed(used, p.cfg.MessageLimit, p.cfg.Scale, free)
}

// stopWaiting takes a site off all lists of those that wait.
func (p *Pool) stopWaiting(s *Site) {
	switch s.waits {
	case WaitNone:
		return
	case WaitHost, WaitBusy:
		for _, tier := range s.tiers {
			for _, sh := range tier {
				if sh.inWaiting.Listed() {
					p.addresses[sh.addressKey()].waiting.Remove(&sh.inWaiting)
				}
			}
		}
	case WaitShare:
		p.stopSharing(s)
	}
	if s.line != nil {
		s.line.Remove(&s.inLine)
		s.line = nil
		s.group.leaveTurn(s)
	}
	p.timers.Stop(&s.timer)
	change(p, &s.waits, WaitNone, waitTransitions)
}

func (p *Pool) stopSharing(s *Site) {
	sharers := p.sharers[s.sharing]
	if sharers.Remove(&s.inShare); sharers.Empty() {
		delete(p.sharers, s.sharing)
	}
	s.sharing = 0
}

// Eased notes that a message uses a connection fewer than before.
func (p *Pool) Eased(message mail.QueueID) {
	if len(p.sharers) == 0 {
		return
	}
	if sharers := p.sharers[message]; sharers != nil {
		s := sharers.Front()
		p.wakeFor(s, causeShare, nil)
		s.eased = message
	}
}

// Reconsider has a site asked again, as when limits have changed.
func (p *Pool) Reconsider(s *Site) { p.wakeSite(s) }

// wakeSite has a site asked again, if it waits.
func (p *Pool) wakeSite(s *Site) { p.wakeFor(s, causeNone, nil) }

func (p *Pool) wakeFor(s *Site, why cause, at *address) {
	if s.waits == WaitNone {
		return
	}
	p.stopWaiting(s)
	p.PassOn(s) // it has asked again since it was woken before
	p.setCause(s, why)
	s.at = at
	p.wake(s)
}

func (p *Pool) setCause(s *Site, why cause) {
	if s.cause != why {
		change(p, &s.cause, why, causeTransitions)
	}
}

func (p *Pool) wake(s *Site) {
	if !s.inWake.Listed() {
		p.woken.PushBack(&s.inWake, s)
	}
}

// wakeSlot wakes a site that waits for a slot, if there is one: those of the
// transports take turns, and within one the flows do; the site of a flow goes first that has
// waited longest. Those that have many, or whose message does, come after the others, and slow
// ones last if they have their part, and by turns with all others if not.
func (p *Pool) wakeSlot() {
	for range p.groups.Len() {
		g := p.groups.Front()
		p.groups.MoveToBack(&g.inPool)
		if free := p.free(g); free > 0 {
			if s := p.next(g, free); s != nil {
				p.wakeFor(s, causeSlot, nil)
				return
			}
		}
		if !g.wanted() {
			p.groups.Remove(&g.inPool)
		}
	}
}

// next returns the site of a transport that can use a slot.
func (p *Pool) next(g *Group, free int) *Site {
	behind := g.behind.Front()
	if behind != nil && p.reserves(g) && p.doubtfulLeft(g) == 0 {
		behind = nil
	}
	if behind != nil && g.slowTurn && !p.slowAtLimit(g) {
		g.slowTurn = false
		return behind
	}
	g.slowTurn = true
	if s := g.firstInTurn(); s != nil {
		return s
	}
	for range min(g.shares.Len(), looks) {
		s := g.shares.Front()
		if p.mayServe(s, s.used, free) {
			return s
		}
		g.shares.MoveToBack(&s.inLine)
	}
	if s := g.fresh.Front(); s != nil && (p.doubtfulLeft(g) > 0 || p.mayTry(s)) {
		return s
	}
	return behind
}

// wakeFailing wakes a site that waits for a host at which one transaction after the
// other was cut, if nothing is left there that would show whether it works.
func (p *Pool) wakeFailing(h *host) {
	if h.failing && !h.working() && h.carrying == 0 {
		p.wakeAddress(h.at)
	}
}

// Woken returns a site whose wait may be over, nil if there is none.
func (p *Pool) Woken() *Site {
	return p.woken.PopFront()
}

// PassOn notes that a site that was woken has been asked again. If it has not used up
// what it was woken for, that is offered to the next one. It does nothing for other
// sites.
func (p *Pool) PassOn(s *Site) {
	why, at, message := s.cause, s.at, s.eased
	p.setCause(s, causeNone)
	s.at, s.eased = nil, 0
	switch why {
	case causeSlot:
		p.wakeSlot()
	case causeHost:
		if p.addresses[at.key] == at {
			p.wakeAddress(at)
		}
	case causeShare:
		if s.waits != WaitShare {
			p.Eased(message)
		}
	case causeOutage:
		if next := p.offline.Front(); next != nil && s.waits != WaitOutage {
			p.wakeFor(next, causeOutage, nil)
		}
	}
}
