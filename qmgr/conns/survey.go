package conns

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A survey is what was found in one tier (step 1 of the procedure).
type survey struct {
	adopt  *Conn       // idle, of another site of the transport, used last
	unused []*siteHost // nothing is known of them
	closed *siteHost   // the one whose last connection was made longest ago
	made   mail.Instant
	retry  []*siteHost // failed, may be tried again, and is not being tried
	more   []*siteHost // have connections, fewest of all, and may have more
	fewest int
	alive  bool        // some host has a connection, or is being connected to
	busy   bool        // some have said that they take no more
	full   []*siteHost // busy, at the limit of connections for one host, or not known to work

	dead  bool         // no host of the tier can be used
	until mail.Instant // dead: when the first may be
	shut  mail.Instant // when the first is asked again that refused a session a moment ago; mail.Never if none did
	reply mail.Reply   // dead: why it failed
}

func (p *Pool) survey(s *Site, tier []*siteHost, now mail.Instant) *survey {
	v := &p.scratch
	*v = survey{unused: v.unused[:0], retry: v.retry[:0], more: v.more[:0], full: v.full[:0], until: mail.Never, shut: mail.Never}
	for _, sh := range tier {
		if h := p.hosts[sh.key()]; h != nil && h.working() {
			p.addOpen(v, s, sh, h, now)
		} else {
			p.addClosed(v, sh, h, now)
		}
	}
	v.dead = !v.alive && v.adopt == nil && len(v.unused) == 0 && v.closed == nil && len(v.retry) == 0
	return v
}

// addOpen takes in a host that has connections.
func (p *Pool) addOpen(v *survey, s *Site, sh *siteHost, h *host, now mail.Instant) {
	v.alive = true
	if c := p.idleFor(s, sh, h); c != nil && (v.adopt == nil || v.adopt.used < c.used) {
		v.adopt = c
	}
	if p.takes(sh, h, now) {
		v.addMore(sh, h.connecting+h.ready)
		return
	}
	v.full = append(v.full, sh)
	v.busy = v.busy || h.busy(now)
}

// addMore takes in a host that has n connections and may have one more.
func (v *survey) addMore(sh *siteHost, n int) {
	switch {
	case len(v.more) == 0 || n < v.fewest:
		v.more, v.fewest = append(v.more[:0], sh), n
	case n == v.fewest:
		v.more = append(v.more, sh)
	}
}

// addClosed takes in a host that has none; h is not nil if one is ending.
func (p *Pool) addClosed(v *survey, sh *siteHost, h *host, now mail.Instant) {
	if h != nil && h.shut(now) {
		v.shut, v.until = min(v.shut, h.full), min(v.until, h.full)
		return
	}
	state, at := p.db.State(sh.key(), now)
	if state == destdb.InUse { // by connections that end
		if at = p.db.RetryAt(sh.key(), now); at != 0 {
			state = destdb.RetryLater
		}
	}
	if state != destdb.RetryLater && !p.takes(sh, h, now) {
		v.alive, v.busy = true, v.busy || h != nil && h.busy(now)
		v.full = append(v.full, sh)
		return
	}
	switch state {
	case destdb.Unused:
		v.unused = append(v.unused, sh)
	case destdb.Closed:
		if v.closed == nil || at < v.made {
			v.closed, v.made = sh, at
		}
	case destdb.RetryDue:
		v.retry = append(v.retry, sh)
	case destdb.InUse:
		v.alive = true
		v.addMore(sh, 0)
	case destdb.RetryLater:
		if at < v.until {
			v.until, v.reply = at, p.db.View(sh.key(), now).Reason
		}
	}
}

// idleFor returns the connection to a host that fell idle last and may serve the
// site: one of the same transport, nil if there is none. It is made for another
// site, for the site's own ones have room.
func (p *Pool) idleFor(s *Site, sh *siteHost, h *host) *Conn {
	for c := range h.idle.Backward() {
		if c.site != s && c.site.group == s.group && c.fits(&sh.limits) {
			return c
		}
	}
	return nil
}

// choose returns the host to dial (steps 6 and 7), nil if none may be dialed now.
func (p *Pool) choose(s *Site, v *survey) *siteHost {
	switch {
	case len(v.unused) > 0:
		return p.any(v.unused)
	case v.closed != nil:
		return v.closed
	case len(v.retry) > 0 && !(s.group.cfg.NoProbe && v.alive):
		return p.any(v.retry)
	case len(v.more) > 0:
		return p.any(v.more)
	}
	return nil
}

func (p *Pool) any(hosts []*siteHost) *siteHost {
	if len(hosts) == 1 {
		return hosts[0]
	}
	return hosts[p.rng.IntN(len(hosts))]
}
