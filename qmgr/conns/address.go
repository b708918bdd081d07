package conns

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// An address is what the hosts have in common that differ only in what is demanded of the
// security of connections: one receiver, which counts the connections from one of our
// addresses whatever is spoken over them. So the limit on connections holds for all of them
// together, and who waits for one of them waits here.
type address struct {
	key     destdb.Key // without Security
	hosts   []*host    // those that are known, in the order in which they became so
	count   int        // their connections, also those that end
	waiting ilist.List[siteHost]
}

func (sh *siteHost) addressKey() destdb.Key {
	key := sh.key()
	key.Security = ""
	return key
}

// join puts a new host at its address.
func (p *Pool) join(sh *siteHost, h *host) {
	key := sh.addressKey()
	if h.at = p.addresses[key]; h.at == nil {
		h.at = &address{key: key}
		p.addresses[key] = h.at
	}
	h.at.hosts = append(h.at.hosts, h)
	if h.key.Security != "" {
		p.demanding++
	}
}

// leave takes a host that is forgotten off its address.
func (p *Pool) leave(h *host) {
	a := h.at
	if h.key.Security != "" {
		p.demanding--
	}
	a.hosts = slices.DeleteFunc(a.hosts, func(other *host) bool { return other == h })
	if len(a.hosts) == 0 {
		assert.That(a.waiting.Empty(), "%v is forgotten, and %d sites wait there", a.key, a.waiting.Len())
		delete(p.addresses, a.key)
	}
}

// full reports whether it has as many connections as it may have.
func (a *address) full(limit int) bool { return limit > 0 && a.count >= limit }

// takes reports whether a planned host may have one connection more, as far as is known. H is
// nil if nothing is known of it, but perhaps of others at its address.
func (p *Pool) takes(sh *siteHost, h *host, now mail.Instant) bool {
	if h != nil {
		return h.takes(now) && !h.at.full(sh.limits.Connections)
	}
	if p.demanding == 0 && sh.site.way.Security == "" {
		return true // no other host is at its address: this is nearly all mail
	}
	a := p.addresses[sh.addressKey()]
	return a == nil || !a.full(sh.limits.Connections)
}

// ending reports whether a connection is about to leave its place to another: one that drains
// and carries nothing.
func (a *address) ending() bool {
	left := a.count
	for _, h := range a.hosts {
		left -= h.connecting + h.ready + h.carrying
	}
	return left > 0
}

// otherIdle returns the connection of another demand than the host's that has been idle for
// longest; nil if there is none.
func (a *address) otherIdle(key destdb.Key) *Conn {
	var longest *Conn
	for _, h := range a.hosts {
		if h.key == key {
			continue
		}
		if c := h.idle.Front(); c != nil && (longest == nil || c.used < longest.used) {
			longest = c
		}
	}
	return longest
}

// placeFor returns the idle connection that takes up the place of one more to one of a site's
// hosts, which take no more: one of another demand, which the site cannot adopt. It returns nil
// if there is none, or if a place at one of them is about to be left anyway: places are made one
// after the other.
func (p *Pool) placeFor(full []*siteHost) (idle *Conn) {
	for _, sh := range full {
		if p.demanding == 0 && sh.site.way.Security == "" {
			return nil // there is no other demand: this is nearly all mail
		}
		a, h := p.addresses[sh.addressKey()], p.hosts[sh.key()]
		if !a.full(sh.limits.Connections) || h != nil && !h.takes(p.now) {
			continue
		}
		if a.ending() {
			return nil
		}
		if idle == nil {
			idle = a.otherIdle(sh.key())
		}
	}
	return idle
}

// makePlace drains a connection so that one of these hosts, which take no more, has a place. It
// returns nil if there is none.
func (p *Pool) makePlace(full []*siteHost) *Conn {
	c := p.placeFor(full)
	if c != nil {
		p.drainFor(c, DrainSlot)
	}
	return c
}

// waitsAt returns the hosts that a site waits for together with this one. What is returned
// is valid until the next call.
func (p *Pool) waitsAt(sh *siteHost) []*siteHost {
	hosts := p.waited[:0]
	for _, other := range sh.site.tiers[sh.tier] {
		if other.inWaiting.Listed() {
			hosts = append(hosts, other)
		}
	}
	p.waited = hosts
	return hosts
}

// wakeAddress wakes the site that has waited longest for a host that may have one more
// connection for it, or has one that the site could take over. It also wakes a site that could
// have a connection closed, at this host or at another one for which it waits: the room that
// was made for it here may have gone to another site, and nothing else would wake it then.
func (p *Pool) wakeAddress(a *address) {
	for range min(a.waiting.Len(), looks) {
		sh := a.waiting.Front()
		h := p.hosts[sh.key()]
		if p.takes(sh, h, p.now) || h != nil && p.idleFor(sh.site, sh, h) != nil || p.placeFor(p.waitsAt(sh)) != nil {
			p.wakeFor(sh.site, causeHost, a)
			return
		}
		a.waiting.MoveToBack(&sh.inWaiting)
	}
}

// wakeAll wakes all that wait for a host, and those that wait for another at its address if
// nothing is left there to wait for.
func (p *Pool) wakeAll(h *host) {
	sites := p.waking[:0]
	for sh := range h.at.waiting.All() {
		if h.at.count == 0 || sh.key() == h.key {
			sites = append(sites, sh.site)
		}
	}
	for _, s := range sites {
		p.wakeSite(s)
	}
	clear(sites)
	p.waking = sites[:0]
}
