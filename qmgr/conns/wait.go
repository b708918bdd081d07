package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// wait notes what a site waits for. What happens to the site itself (a dial ends,
// the window grows) wakes it anyway; for the rest the caller puts it where it is
// found.
func (p *Pool) wait(s *Site, why Wait, until mail.Instant) Decision {
	s.waits = why
	if until != mail.Never {
		s.timer.site = s
		p.setTimer(&s.timer, until)
	}
	return Decision{Kind: Waiting, Wait: why}
}

// waitForSlot waits until there may be one more connection. A site whose turn it
// was keeps its place if somebody was faster.
func (p *Pool) waitForSlot(s *Site) Decision {
	g := s.group
	if s.cause == causeSlot {
		g.slots.PushFront(&s.inWait, s)
	} else {
		g.slots.PushBack(&s.inWait, s)
	}
	p.list(g)
	return p.wait(s, WaitSlot, mail.Never)
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
	for _, sp := range v.full {
		h := p.hosts[sp.key()]
		if s.cause == causeHost && s.at == h {
			h.waiting.PushFront(&sp.inHost, sp) // somebody was faster
		} else {
			h.waiting.PushBack(&sp.inHost, sp)
		}
	}
	why := WaitHost
	if v.busy {
		why = WaitBusy
	}
	return p.wait(s, why, v.until)
}

const (
	// outagePatience is how long mail waits in core for our network to come back;
	// from then on it is deferred, so that senders are warned, what is too old is
	// given up, and mail that needs no network finds room.
	outagePatience = 5 * time.Minute
	// outageRest is for how long a site is left alone after that.
	outageRest = time.Minute
)

// longOffline tells whether our network has been down for longer than mail waits.
func (p *Pool) longOffline(now mail.Instant) bool {
	since := p.outage.Since()
	return since != 0 && now >= since.Add(outagePatience)
}

// inVain tells whether a site has made an attempt in vain while our network was down,
// and that has been for longer than mail waits.
func (p *Pool) inVain(s *Site, now mail.Instant) bool {
	return s.ready == 0 && p.longOffline(now) && s.vain >= p.outage.Since()
}

// giveUp has the site make no further attempt for the same mail. Where attempts take
// longer than the time between them sites have never to wait for their turn, and would
// make one after the other.
func (p *Pool) giveUp(s *Site, now mail.Instant) Decision {
	if s.connecting > 0 {
		return p.wait(s, WaitStart, mail.Never)
	}
	return p.putOff(s, now)
}

// putOff puts a site's mail off.
func (p *Pool) putOff(s *Site, now mail.Instant) Decision {
	s.vain = 0
	return Decision{Kind: Exhausted, Until: now.Add(outageRest), Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4},
		Text: "our network is down, or hardly any host can be reached"}}
}

// waitForNetwork waits until one more attempt may begin although our network is
// down. Sites take turns, promising ones first.
func (p *Pool) waitForNetwork(s *Site, at, now mail.Instant) Decision {
	if s.ready == 0 && p.longOffline(now) {
		return p.putOff(s, now)
	}
	d := p.wait(s, WaitOutage, mail.Never)
	p.sticks(s)
	if p.promising(s) {
		p.outaged.PushFront(&s.inWait, s)
	} else {
		p.outaged.PushBack(&s.inWait, s)
	}
	if !p.probe.slot.Heaped() {
		p.setTimer(&p.probe, at)
	}
	return d
}

// nextProbe sets the time of the next attempt, where some wait for it.
func (p *Pool) nextProbe() {
	if at := p.outage.ProbeAt(); at != 0 && !p.outaged.Empty() {
		p.setTimer(&p.probe, at)
	}
}

// probeNetwork lets the site make an attempt that has waited longest.
func (p *Pool) probeNetwork(now mail.Instant) {
	if now >= p.outage.Since().Add(outagePatience) {
		p.wakeOutaged()
		return
	}
	if s := p.outaged.Front(); s != nil {
		p.wakeFor(s, causeOutage, nil)
	}
	if !p.outaged.Empty() { // should that one have no use for it
		p.setTimer(&p.probe, now.Add(destdb.OutageProbe))
	}
}

// networkIsBack wakes all that wait for that.
func (p *Pool) networkIsBack() {
	p.stopTimer(&p.probe)
	p.wakeOutaged()
}

func (p *Pool) wakeOutaged() {
	for s := p.outaged.Front(); s != nil; s = p.outaged.Front() {
		p.wakeSite(s)
	}
}

// stopWaiting takes a site off all lists of those that wait.
func (p *Pool) stopWaiting(s *Site) {
	if s.waits == WaitHost || s.waits == WaitBusy {
		for _, tier := range s.tiers {
			for _, sp := range tier {
				if sp.inHost.Listed() {
					p.hosts[sp.key()].waiting.Remove(&sp.inHost)
				}
			}
		}
	}
	switch {
	case s.inWait.On(&s.group.slots):
		s.group.slots.Remove(&s.inWait)
	case s.inWait.On(&s.group.shares):
		s.group.shares.Remove(&s.inWait)
		if s.waits == WaitShare {
			p.stopSharing(s)
		}
	case s.inWait.On(&s.group.fresh):
		s.group.fresh.Remove(&s.inWait)
	case s.inWait.On(&s.group.behind):
		s.group.behind.Remove(&s.inWait)
	case s.inWait.On(&p.outaged):
		p.outaged.Remove(&s.inWait)
	}
	p.stopTimer(&s.timer)
	s.waits = WaitNone
}

// waitForShare waits until a message holds fewer connections, or more are free.
func (p *Pool) waitForShare(s *Site, ask Ask) Decision {
	s.sharer, s.held = ask.Message, ask.Held
	sharers := p.sharers[s.sharer]
	if sharers == nil {
		sharers = new(ilist.List[Site])
		p.sharers[s.sharer] = sharers
	}
	sharers.PushBack(&s.inShare, s)
	s.group.shares.PushBack(&s.inWait, s)
	p.list(s.group)
	return p.wait(s, WaitShare, mail.Never)
}

// allowed tells whether a message may hold one connection more.
func (p *Pool) allowed(held, free int) bool {
	return share.Allowed(held, p.cfg.MessageLimit, p.cfg.Scale, free)
}

func (p *Pool) stopSharing(s *Site) {
	sharers := p.sharers[s.sharer]
	if sharers.Remove(&s.inShare); sharers.Empty() {
		delete(p.sharers, s.sharer)
	}
	s.sharer = 0
}

// Eased tells that a message holds a connection fewer than before.
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

func (p *Pool) wakeFor(s *Site, why cause, at *host) {
	if s.waits == WaitNone {
		return
	}
	p.stopWaiting(s)
	p.PassOn(s) // it has asked again since it was woken before
	s.cause, s.at = why, at
	p.wake(s)
}

func (p *Pool) wake(s *Site) {
	if !s.inWake.Listed() {
		p.woken.PushBack(&s.inWake, s)
	}
}

// wakeSlot wakes a site that waits for a slot, if there is one: those of the
// transports take turns, and within one the site goes first that has waited
// longest. Those that hold much, or whose message does, come after the others, and slow
// ones last if they hold their part, and by turns with all others if not.
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

// looks is among how many sites one is looked for that can make use of something.
const looks = 16

// next returns the site of a transport that can make use of a slot.
func (p *Pool) next(g *Group, free int) *Site {
	behind := g.behind.Front()
	if behind != nil && p.beside(g) == 0 {
		behind = nil
	}
	if behind != nil && g.slowTurn && !p.slowHave(g) {
		g.slowTurn = false
		return behind
	}
	g.slowTurn = true
	if s := g.slots.Front(); s != nil {
		return s
	}
	for range min(g.shares.Len(), looks) {
		s := g.shares.Front()
		if p.mayTake(s, s.held, free) {
			return s
		}
		g.shares.MoveToBack(&s.inWait)
	}
	if s := g.fresh.Front(); s != nil && (p.beside(g) > 0 || p.mayTry(s)) {
		return s
	}
	return behind
}

// wakeHost wakes the site that has waited longest for a host which may have one
// more connection for it, or has one that the site could take over.
func (p *Pool) wakeHost(h *host) {
	for range min(h.waiting.Len(), looks) {
		sp := h.waiting.Front()
		if h.takes(sp.limits.Connections, p.now) || p.idleFor(sp.site, sp, h) != nil {
			p.wakeFor(sp.site, causeHost, h)
			return
		}
		h.waiting.MoveToBack(&sp.inHost)
	}
}

// wakeAll wakes all that wait for a host.
func (p *Pool) wakeAll(h *host) {
	for sp := h.waiting.Front(); sp != nil; sp = h.waiting.Front() {
		p.wakeSite(sp.site)
	}
}

// Woken returns a site whose wait may be over, nil if there is none.
func (p *Pool) Woken() *Site {
	return p.woken.PopFront()
}

// PassOn tells that a site that was woken has been asked again. If it has not used
// up what it was woken for, that is offered to the next one. It does nothing for
// other sites.
func (p *Pool) PassOn(s *Site) {
	why, at, message := s.cause, s.at, s.eased
	s.cause, s.at, s.eased = causeNone, nil, 0
	switch why {
	case causeSlot:
		p.wakeSlot()
	case causeHost:
		if p.hosts[at.key] == at {
			p.wakeHost(at)
		}
	case causeShare:
		if s.waits != WaitShare {
			p.Eased(message)
		}
	case causeOutage:
		if next := p.outaged.Front(); next != nil && s.waits != WaitOutage {
			p.wakeFor(next, causeOutage, nil)
		}
	}
}
