package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A network is whether our own network is up.
type network struct {
	outage  destdb.Outage
	worked  mail.Instant     // when a connection last did its work, or a host answered
	offline ilist.List[Site] // wait for our network, promising ones in front
	probe   timer            // when the first of these may make an attempt; set if there are any
}

const (
	// quiet is for how long nothing may have worked before failures are taken for an
	// outage of our own network: many dead destinations that are tried at once look the
	// same, but for the connections that go on.
	quiet = 20 * time.Second
	// outagePatience is the time for which mail waits in core for our network to come back;
	// from then on it is deferred, so that senders are warned, what is too old is
	// given up, and mail that needs no network finds room.
	outagePatience = 5 * time.Minute
	// outageRest is for how long a site is left alone after that.
	outageRest = time.Minute
)

// Offline returns since when our own network is believed to be down, 0 if it is not.
func (p *Pool) Offline() mail.Instant { return p.outage.Since() }

// isOffline notes that nothing works with the host of a connection, and reports whether
// that is believed to be due to our network.
func (p *Pool) isOffline(c *Conn, now mail.Instant) bool {
	if c.host.isSocket() {
		return false
	}
	if p.isEvidence(c.host, now) {
		p.networkResult(c.host, c.made, now, false)
	}
	if p.outage.Since() == 0 {
		return false
	}
	c.site.failure.vain = now
	return true
}

// isEvidence reports whether it says something about our network that a host cannot be
// reached. It does only if the host took mail lately and has not failed since: hosts
// that never answered, or failed before, are dead, and any number of those may be tried
// at once. A message to a thousand dead domains made all other mail wait for six
// minutes as long as that was not asked. And it says nothing while something works.
func (p *Pool) isEvidence(h *host, now mail.Instant) bool {
	return now >= p.worked.Add(quiet) && p.db.WorksLately(h.key, now)
}

// hostAnswered notes that a host has answered, if only with a refusal: so the network
// works.
func (p *Pool) hostAnswered(h *host, now mail.Instant) {
	if h.isSocket() {
		return
	}
	p.worked = now
	p.networkResult(h, now, now, true)
}

// networkResult notes whether a host could be reached by an attempt that began at some
// instant.
func (p *Pool) networkResult(h *host, since, now mail.Instant, reached bool) {
	if p.outage.Result(h.key.Addr.Addr(), since, now, reached) && reached {
		p.timers.Stop(&p.probe)
		p.wakeOffline()
	}
}

// promising reports whether the attempt of a site is likely to succeed if our network
// is not down: one of its hosts took mail lately, and it has made no failed attempt
// since the network is believed to be down. So if that is a mistake it is found out by the
// first attempts, however many sites wait.
func (p *Pool) promising(s *Site) bool {
	if s.failure.vain >= p.outage.Since() {
		return false
	}
	for _, tier := range s.tiers {
		for _, sh := range tier {
			if p.db.WorksLately(sh.key(), p.now) {
				return true
			}
		}
	}
	return false
}

// longOffline reports whether our network has been down for longer than mail waits.
func (p *Pool) longOffline(now mail.Instant) bool {
	since := p.outage.Since()
	return since != 0 && now >= since.Add(outagePatience)
}

// inVain reports whether a site has made a failed attempt while our network was down,
// and that has been for longer than mail waits.
func (p *Pool) inVain(s *Site, now mail.Instant) bool {
	return s.ready == 0 && p.longOffline(now) && s.failure.vain >= p.outage.Since()
}

// giveUp has the site make no further attempt for the same mail. Where attempts take
// longer than the time between them sites never have to wait for their turn, and would
// make one after the other.
func (p *Pool) giveUp(s *Site, now mail.Instant) Decision {
	if s.connecting > 0 {
		return p.wait(s, WaitStart, mail.Never)
	}
	return p.putOff(s, now)
}

// putOff puts a site's mail off.
func (p *Pool) putOff(s *Site, now mail.Instant) Decision {
	s.failure.vain = 0
	return Decision{Kind: Exhausted, Until: now.Add(outageRest), Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4},
		Text: "our network is down, or hardly any host can be reached"}}
}

// waitForNetwork waits until one more attempt may begin although our network is
// down. Sites take turns, promising ones first.
func (p *Pool) waitForNetwork(s *Site, at, now mail.Instant) Decision {
	if s.ready == 0 && p.longOffline(now) {
		return p.putOff(s, now)
	}
	p.markStuck(s)
	s.line = &p.offline
	if p.promising(s) {
		p.offline.PushFront(&s.inLine, s)
	} else {
		p.offline.PushBack(&s.inLine, s)
	}
	if !p.probe.Running() {
		p.timers.Set(&p.probe, at)
	}
	return p.wait(s, WaitOutage, mail.Never)
}

// nextProbe sets the time of the next attempt, where some wait for it.
func (p *Pool) nextProbe() {
	if at := p.outage.ProbeAt(); at != 0 && !p.offline.Empty() {
		p.timers.Set(&p.probe, at)
	}
}

// probeNetwork lets the site make an attempt that has waited longest.
func (p *Pool) probeNetwork(now mail.Instant) {
	if now >= p.outage.Since().Add(outagePatience) {
		p.wakeOffline()
		return
	}
	if s := p.offline.Front(); s != nil {
		p.wakeFor(s, causeOutage, nil)
	}
	if !p.offline.Empty() { // should that one have no use for it
		p.timers.Set(&p.probe, now.Add(destdb.OutageProbe))
	}
}

func (p *Pool) wakeOffline() {
	for s := p.offline.Front(); s != nil; s = p.offline.Front() {
		p.wakeSite(s)
	}
}
