package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A host is an address to which there are connections. What outlives them is in
// destdb.
type host struct {
	mail.Host
	key               destdb.Key
	connecting, ready int
	count             int              // all connections, also those that end
	carrying          int              // of those that end, the ones with something under way
	probing           bool             // it had failed, and a single connection is to show whether it is back
	proving           bool             // one of them is to show whether it bears LevelStream
	doubted           bool             // one was refused and none is ready: those being opened show what is true
	idles             ilist.List[Conn] // of all sites, the one used last at the end
	waiting           ilist.List[spot]

	// A host that refuses a connection while others to it work takes no more of
	// them: until full is over it gets none, and then a single one to show whether
	// that has changed. If it has fewer than it had then, that does not hold.
	refused  refusal
	since    mail.Instant // when it refused
	full     mail.Instant
	fullAt   int // connections that it had when it refused
	patience time.Duration
	amnesty  uint64 // of those that there were when it refused, the last
	timer    timer  // end of full, or of the memory of a host without connections

	trouble
	odds
}

// A refusal is what a host has refused, until host.full.
type refusal uint8

const (
	refusedNothing refusal = iota
	refusedMore            // one connection beside others that do their work
	refusedAll             // the only ones
)

// A host that takes no more connections is asked for one more after a second,
// then after twice as long each time.
const (
	firstPatience = time.Second
	lastPatience  = time.Minute
)

// keyOf returns what a host is known by. Transports have names, addresses and
// timeouts of their own, so that what one learns of a host, and how many connections
// it has to it, is no business of another.
func keyOf(g *Group, h mail.Host) destdb.Key { return destdb.Key{Addr: h.Addr, Security: g.name} }

func (sp *spot) key() destdb.Key { return keyOf(sp.site.group, sp.host) }

// host returns the host at a place of a plan, and makes it if need be.
func (p *Pool) host(sp *spot) *host {
	key := sp.key()
	if known, ok := p.hosts[key]; ok {
		known.Host = sp.host
		if known.count == 0 && p.now >= known.until() {
			known.trouble = trouble{}
		}
		return known
	}
	made := &host{Host: sp.host, key: key}
	p.hosts[key] = made
	return made
}

// provingMessages is how many messages a connection carries before it shows whether
// its host bears LevelStream: a probe of a server with which simple things fail would
// prove nothing, and waiting for the connection to end by itself takes minutes.
const provingMessages = 3

// speak returns the level at which a new connection to a host begins, at most as given,
// and whether it is to show that the host bears LevelStream. A server that takes
// refused content for commands lets the author of a message send others, so that
// nobody's word is enough for that level, but a passed probe.
func (h *host) speak(most mail.Level, known *destdb.View, now mail.Instant) (level mail.Level, prove bool) {
	level = min(most, known.Level)
	if level < mail.LevelStream || known.Streams {
		return level, false
	}
	return mail.LevelOverlap, !h.proving && now >= known.ProbeAt
}

// prove makes a connection the one that shows whether its host bears LevelStream, or
// no longer.
func (c *Conn) prove(it bool) {
	if c.proving || it {
		c.proving, c.host.proving = it, it
	}
}

// working tells whether the host has connections, or is about to have some.
func (h *host) working() bool { return h.connecting+h.ready > 0 }

// busy tells whether the host has said that it takes no more connections than it
// has.
func (h *host) busy(now mail.Instant) bool { return now < h.full && h.count >= h.fullAt }

// asked tells whether a connection is being opened that shows whether this still
// holds.
func (h *host) asked() bool { return h.patience > 0 && h.connecting > 0 && h.count >= h.fullAt }

// takes tells whether the host may have one connection more, as far as is known.
func (h *host) takes(limit int, now mail.Instant) bool {
	unclear := h.ready == 0 && h.connecting > 0 && (h.probing || h.doubted)
	if h.failing && (h.working() || h.carrying > 0) {
		return false // these show whether anything works
	}
	return !unclear && !h.busy(now) && !h.asked() && (limit <= 0 || h.count < limit)
}

// refuses notes that the host did not take one more connection, which began to be made
// at some instant, beside those that it has. That one still counts.
func (p *Pool) refuses(h *host, made, now mail.Instant) {
	if h.refused == refusedMore && made <= h.since { // part of the same misfortune
		h.fullAt = min(h.fullAt, h.count-1)
		return
	}
	h.patience = min(max(2*h.patience, firstPatience), lastPatience)
	h.refused, h.since, h.full, h.fullAt, h.amnesty = refusedMore, now, now.Add(h.patience), h.count-1, p.amnesty
	h.timer.host = h
	p.setTimer(&h.timer, h.full)
}

// forgive notes that the host may take more connections than it has.
func (p *Pool) forgive(h *host) {
	h.refused, h.full, h.patience = refusedNothing, 0, 0
	if h.count > 0 {
		p.stopTimer(&h.timer)
	}
}
