package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A host is an address to which there are connections, or were a moment ago. What
// outlives them is in destdb.
type host struct {
	mail.Host
	key     destdb.Key
	at      *address
	count   int // all connections, also those that end
	inquiry inquiry
	proving bool             // one of them is to show whether the host handles LevelStream
	idle    ilist.List[Conn] // of all sites, the one used last at the end
	timer   timer            // end of refused.full while there are connections, else of the memory of the host

	// At most connecting, ready and carrying of count: the rest is draining and carries
	// nothing.
	connecting, ready int
	carrying          int // draining, with something under way

	refusals
	trouble
	odds
}

// Refusals are what a host has said about how many connections it takes. One that refuses
// a connection while others to it work takes no more of them: until full is over it gets
// none, and then a single one to show whether that has changed. If it has fewer than it
// had then, that does not hold.
type refusals struct {
	refused  refusal
	since    mail.Instant // when it refused
	full     mail.Instant // 0 if nothing is refused
	fullAt   int          // connections that it had when it refused
	patience time.Duration
	reset    uint64 // the last retry reset that there was when it refused
}

// A host that takes no more connections is asked for one more after a second,
// then after twice as long each time.
const (
	firstPatience = time.Second
	lastPatience  = time.Minute
)

// hostOf returns the host that a plan names, and makes it if need be.
func (p *Pool) hostOf(sh *siteHost) *host {
	key := sh.key()
	if there, ok := p.hosts[key]; ok {
		there.Host = sh.host
		if there.count == 0 && p.now >= there.until() {
			there.trouble = trouble{}
		}
		return there
	}
	made := &host{Host: sh.host, key: key}
	p.hosts[key] = made
	p.join(sh, made)
	return made
}

// provingMessages is the number of messages a connection carries before it shows whether
// its host handles LevelStream: a probe of a server with which simple things fail would
// prove nothing, and waiting for the connection to end by itself takes minutes.
const provingMessages = 3

// isSocket reports whether it is a unix socket, which our network has nothing to do with.
func (h *host) isSocket() bool {
	_, is := mail.SocketPath(h.Addr)
	return is
}

// levelFor returns the level at which a new connection to a host begins, at most as
// given, and whether it is to show that the host handles LevelStream. A server that takes
// refused content for commands lets the author of a message send others, so that no
// server's word is enough for that level, but a passed probe.
func (h *host) levelFor(most mail.Level, known *destdb.View, now mail.Instant) (level mail.Level, prove bool) {
	level = min(most, known.Level)
	if level < mail.LevelStream || known.Streams {
		return level, false
	}
	return mail.LevelOverlap, !h.proving && now >= known.ProbeAt
}

// working reports whether the host has connections, or is about to have some.
func (h *host) working() bool { return h.connecting+h.ready > 0 }

// busy reports whether the host has said that it takes no more connections than it has.
func (h *host) busy(now mail.Instant) bool { return now < h.full && h.count >= h.fullAt }

// retrying reports whether a connection is being opened that shows whether the host still
// takes no more.
func (h *host) retrying() bool { return h.patience > 0 && h.connecting > 0 && h.count >= h.fullAt }

// shut reports whether a host without connections is left alone for a moment.
func (h *host) shut(now mail.Instant) bool {
	return h.refused == refusedAll && now < h.full && !h.working()
}

// takes reports whether the host may have one connection more, as far as is known, but for
// the limit.
func (h *host) takes(now mail.Instant) bool {
	unclear := h.ready == 0 && h.connecting > 0 && h.inquiry != inquiryNone
	if h.failing && (h.working() || h.carrying > 0) {
		return false // these show whether anything works
	}
	return !unclear && !h.busy(now) && !h.retrying()
}

// refuses notes that the host did not take one more connection, which began to be made
// at some instant, beside those that it has. That one still counts.
func (p *Pool) refuses(h *host, made, now mail.Instant) {
	if h.refused == refusedMore && made <= h.since { // part of the same misfortune
		h.fullAt = min(h.fullAt, h.count-1)
		return
	}
	h.since = now
	p.setRefused(h, refusedMore, h.count-1, min(max(2*h.patience, firstPatience), lastPatience), now)
}

// setRefused has the host get no more connections than fullAt for a while.
func (p *Pool) setRefused(h *host, what refusal, fullAt int, patience time.Duration, now mail.Instant) {
	if h.refused != what {
		change(p, &h.refused, what, refusalTransitions)
	}
	h.full, h.fullAt, h.patience, h.reset = now.Add(patience), fullAt, patience, p.lastReset
	h.timer.Of.host = h
	p.timers.Set(&h.timer, h.full)
}

// clearRefusal notes that the host may take more connections than it has.
func (p *Pool) clearRefusal(h *host) {
	if h.refused != refusedNothing {
		change(p, &h.refused, refusedNothing, refusalTransitions)
	}
	h.full, h.patience = 0, 0
	if h.count > 0 {
		p.timers.Stop(&h.timer)
	}
}

func (p *Pool) inquire(h *host, what inquiry) {
	if h.inquiry != what {
		change(p, &h.inquiry, what, inquiryTransitions)
	}
}

// stopProbe notes that the connection that was to show whether the host is back has shown
// nothing.
func (p *Pool) stopProbe(h *host) {
	if h.inquiry == inquiryProbe {
		p.inquire(h, inquiryNone)
	}
}

// hostEmptied deals with a host whose last connection is gone. What went wrong there is
// remembered for a while.
func (p *Pool) hostEmptied(h *host, now mail.Instant) {
	p.wakeAll(h)
	if now >= h.until() {
		p.timers.Stop(&h.timer)
		delete(p.hosts, h.key)
		p.leave(h)
		return
	}
	h.timer.Of.host = h
	if p.timers.Set(&h.timer, h.until()); h.shut(now) {
		p.timers.Set(&h.timer, h.full)
	}
}
