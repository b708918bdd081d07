package conns

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A plan is the hosts that a site's mail may go to.
type plan struct {
	tiers [][]*siteHost // hosts of equal preference, the best first; none if they are not known
	until mail.Instant  // when the hosts should be looked up again; 0: they were never
	// upgrade is when a host of a better tier than those in use may be tried;
	// upgrades means that the time has come.
	upgrade  timer
	upgrades bool
}

// A siteHost is a host in one site's plan. The host itself may be in many.
type siteHost struct {
	host      mail.Host
	site      *Site
	security  string // of key
	tier      int    // it is in site.tiers[tier]
	limits    HostLimits
	inWaiting ilist.Link[siteHost] // on address.waiting
}

// isSocket reports whether it is a unix socket, which our network has nothing to do with.
func (sh *siteHost) isSocket() bool {
	_, is := mail.SocketPath(sh.host.Addr)
	return is
}

// keyOf returns the key of a host. Transports have names, addresses and timeouts of their
// own, and receivers judge by the address that connects, so that what one transport or one
// source learns of a host, and how many connections it has to it, does not concern another. A
// host that cannot meet one demand of security may meet others.
func keyOf(g *Group, way Way, h mail.Host) destdb.Key {
	return destdb.Key{Addr: h.Addr, Transport: g.name, Source: way.Source, Security: identity(way, h)}
}

// identity is the Security of a host's key. A demand may be about the host's own name, as levels verify and dane
// are: hosts of several names at one address are several then, since a connection that was opened for one
// name has not been judged for another, whose mail would go to whoever has the first, and one that
// lacks a certificate must not keep mail from the other. Without a demand names do not matter.
func identity(way Way, h mail.Host) string {
	if way.Security == "" {
		return ""
	}
	return way.Security + " " + h.Name
}

func (sh *siteHost) key() destdb.Key {
	way := &sh.site.way
	return destdb.Key{Addr: sh.host.Addr, Transport: sh.site.group.name, Source: way.Source, Security: sh.security}
}

// Known reports whether hosts are known, however old that knowledge is.
func (l *plan) Known() bool { return len(l.tiers) > 0 }

// Stale reports whether the hosts should be looked up (again).
func (l *plan) Stale(now mail.Instant) bool { return now >= l.until }

// find returns the host of a key, nil if it is not in the plan.
func (l *plan) find(key destdb.Key) *siteHost {
	for _, tier := range l.tiers {
		for _, sh := range tier {
			if sh.key() == key {
				return sh
			}
		}
	}
	return nil
}

// Usable reports whether one of the site's hosts of some kind is not left alone because it failed.
func (p *Pool) Usable(s *Site, kind func(mail.Host) bool, now mail.Instant) bool {
	for _, tier := range s.tiers {
		for _, sh := range tier {
			if !kind(sh.host) {
				continue
			}
			if state, _ := p.db.State(sh.key(), now); state != destdb.RetryLater {
				return true
			}
		}
	}
	return false
}

// Uses reports whether a host is one of those of the plan.
func (l *plan) Uses(key destdb.Key) bool { return l.find(key) != nil }

// Best returns the hosts of the best tier, as far as they are known: those that the
// site's mail is meant for. A site that is nil has none.
func (s *Site) Best() (hosts []mail.Host) {
	if s == nil || !s.Known() {
		return nil
	}
	for _, sh := range s.tiers[0] {
		hosts = append(hosts, sh.host)
	}
	return hosts
}

// Set returns the hosts of the plan, and until when they need not be looked up again.
func (l *plan) Set() mail.HostSet {
	set := mail.HostSet{Until: l.until}
	for _, tier := range l.tiers {
		hosts := make([]mail.Host, 0, len(tier))
		for _, sh := range tier {
			hosts = append(hosts, sh.host)
		}
		set.Tiers = append(set.Tiers, hosts)
	}
	return set
}

// SetLimits sets the limits of connections to the site's hosts that are opened from now
// on.
func (p *Pool) SetLimits(s *Site, limits func(mail.Host) HostLimits) {
	for _, tier := range s.tiers {
		for _, sh := range tier {
			sh.limits = limits(sh.host)
		}
	}
}

// SetHosts sets which hosts serve the site and which limits they have. If the set is
// empty they are not known any more. It returns the connections to hosts that serve the
// site no longer: they have to be hung up.
func (p *Pool) SetHosts(s *Site, set mail.HostSet, limits func(mail.Host) HostLimits) []*Conn {
	p.wakeSite(s)
	p.forgetPlan(s)
	s.until = set.Until
	s.tiers = make([][]*siteHost, 0, len(set.Tiers))
	where := make(map[destdb.Key]*siteHost)
	trust := trustNone
	for i, hosts := range set.Tiers {
		tier := make([]*siteHost, 0, len(hosts))
		for _, h := range hosts {
			sh := &siteHost{host: h, site: s, security: identity(s.way, h), tier: i, limits: limits(h)}
			tier = append(tier, sh)
			key := sh.key()
			if p.db.Works(key) {
				trust = trustKnown
			}
			if s.trust != trustProven && p.db.View(key, p.now).Service >= stallTime {
				p.becomesSlow(s)
			}
			if where[key] == nil {
				where[key] = sh
			}
		}
		s.tiers = append(s.tiers, tier)
	}
	if s.trust != trustProven {
		p.setTrust(s, trust)
	}
	var surplus []*Conn
	for c := range s.conns.All() {
		if c.planned = where[c.host.key]; c.planned == nil && c.state == Ready {
			surplus = append(surplus, c)
		}
	}
	for _, c := range surplus {
		p.drainFor(c, DrainHostGone)
	}
	return surplus
}

// KeepOnly takes the hosts off the plan that are not wanted any more. It returns the
// connections to them, which have to be hung up. If none is left, hosts are not known any
// more.
func (p *Pool) KeepOnly(s *Site, wanted func(mail.Host) bool) []*Conn {
	set, dropped := mail.HostSet{Until: s.until}, false
	limits := make(map[netip.AddrPort]HostLimits)
	for _, tier := range s.tiers {
		var hosts []mail.Host
		for _, sh := range tier {
			if limits[sh.host.Addr] = sh.limits; wanted(sh.host) {
				hosts = append(hosts, sh.host)
			} else {
				dropped = true
			}
		}
		if len(hosts) > 0 {
			set.Tiers = append(set.Tiers, hosts)
		}
	}
	if !dropped {
		return nil
	}
	if len(set.Tiers) == 0 {
		set.Until = 0
	}
	return p.SetHosts(s, set, func(h mail.Host) HostLimits { return limits[h.Addr] })
}

// KeepHosts notes that the hosts could not be looked up, and when that should be tried
// again. What is known of them is better than nothing.
func (p *Pool) KeepHosts(s *Site, until mail.Instant) { s.until = until }

func (p *Pool) forgetPlan(s *Site) {
	p.stopWaiting(s)
	for c := range s.conns.All() {
		c.planned = nil
	}
	s.tiers = nil
}

// ResetRetries returns the number of a new retry reset, which is for all that hosts have
// failed until now: an operator wants them tried, or our network is back.
func (p *Pool) ResetRetries() uint64 {
	p.lastReset = p.db.NewRetryReset()
	return p.lastReset
}

// ApplyReset forgets that hosts of the site have failed, if that was before a retry
// reset. It reports whether there was anything to forget.
func (p *Pool) ApplyReset(s *Site, reset uint64, now mail.Instant) (forgotten bool) {
	for _, tier := range s.tiers {
		for _, sh := range tier {
			key := sh.key()
			forgotten = p.db.ResetRetry(key, reset, now) || forgotten
			if h := p.hosts[key]; h != nil && h.reset < reset {
				p.clearRefusal(h)
			}
		}
	}
	p.wakeSite(s)
	return forgotten
}
