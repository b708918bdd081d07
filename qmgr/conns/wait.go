package conns

import "github.com/posthaste-mta/posthaste/mail"

// wait puts a site where it is found when what it waits for has happened. What
// happens to the site itself (a dial ends, the window grows) wakes it anyway.
func (p *Pool) wait(s *Site, why Wait, until mail.Instant) Decision {
	s.waits = why
	switch why {
	case WaitShare, WaitSlot:
		p.slots.PushBack(&s.inWait, s)
	}
	if until != mail.Never {
		s.timer.site = s
		p.setTimer(&s.timer, until)
	}
	return Decision{Kind: Waiting, Wait: why}
}

// waitForHost waits until some host of the tier takes one more connection.
func (p *Pool) waitForHost(s *Site, v *survey) Decision {
	for _, sp := range v.full {
		h := p.hosts[keyOf(sp.host)]
		h.waiting.PushBack(&sp.inHost, sp)
	}
	if v.busy != mail.Never {
		return p.wait(s, WaitBusy, v.busy)
	}
	return p.wait(s, WaitHost, mail.Never)
}

// stopWaiting takes a site off all lists of those that wait.
func (p *Pool) stopWaiting(s *Site) {
	if s.waits == WaitHost || s.waits == WaitBusy {
		for _, tier := range s.tiers {
			for _, sp := range tier {
				if sp.inHost.Listed() {
					p.hosts[keyOf(sp.host)].waiting.Remove(&sp.inHost)
				}
			}
		}
	}
	if s.inWait.Listed() {
		p.slots.Remove(&s.inWait)
	}
	p.stopTimer(&s.timer)
	s.waits = WaitNone
}

// wakeSite has a site asked again, if it waits.
func (p *Pool) wakeSite(s *Site) { p.wakeFor(s, causeNone, nil) }

func (p *Pool) wakeFor(s *Site, why cause, at *host) {
	if s.waits == WaitNone {
		return
	}
	p.stopWaiting(s)
	s.cause, s.at = why, at
	p.wake(s)
}

func (p *Pool) wake(s *Site) {
	if !s.inWake.Listed() {
		p.woken.PushBack(&s.inWake, s)
	}
}

// wakeSlot wakes the site that has waited for a connection for longest.
func (p *Pool) wakeSlot() {
	if s := p.slots.Front(); s != nil {
		p.wakeFor(s, causeSlot, nil)
	}
}

// wakeHost wakes the site that has waited for a host for longest.
func (p *Pool) wakeHost(h *host) {
	if sp := h.waiting.Front(); sp != nil {
		p.wakeFor(sp.site, causeHost, h)
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

// PassOn tells that a site that was woken has got nothing, or wanted nothing: what
// it was woken for is there for the next one. It does nothing for other sites.
func (p *Pool) PassOn(s *Site) {
	why, at := s.cause, s.at
	s.cause, s.at = causeNone, nil
	switch {
	case why == causeSlot:
		p.wakeSlot()
	case why == causeHost && p.hosts[at.key] == at:
		p.wakeHost(at)
	}
}
