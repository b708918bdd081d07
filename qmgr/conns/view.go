package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// A SiteView is a site's part in one sentence.
type SiteView struct {
	Connecting, Ready int
	Waits             Wait // why it gets no further connection
}

// View returns how the site stands. A site that is nil has no connections.
func (s *Site) View() SiteView {
	if s == nil {
		return SiteView{}
	}
	return SiteView{Connecting: s.connecting, Ready: s.ready, Waits: s.waits}
}

// A HostView is the state of one host of a site.
type HostView struct {
	Host        mail.Host
	Way                      // for connections that are made so
	Tier        int          // from 0, the best
	Connections int          // of all sites, those included that are about to end
	Connecting  int          // of these, being opened
	Idle        int          // of these, with nothing to carry
	Limit       int          // of connections; 0 for none
	Probing     bool         // it had failed, and a connection is being opened that shows whether it is back
	BusyUntil   mail.Instant // it has said that it takes no more connections until then; 0 if it has not
	Level       mail.Level   // at which it may be spoken to; Configured is what is wanted
	Configured  mail.Level
	Unproven    bool // LevelStream is configured, and it has not shown that it supports it
	Known       destdb.View
	// Fell is the connection since which it is spoken to more simply, if that is
	// remembered; of Conn 0 otherwise.
	Fell Ending
}

// A ConnView is one connection.
type ConnView struct {
	ID   ID
	Host mail.Host
	Way
	Negotiated mail.Security // zero until it is ready, and in plaintext
	State      State
	Level      mail.Level
	Made       mail.Instant // when dialing began
	Entries    int          // under way
	Room       int          // for so many more
	Carried    int          // transactions
	Limit      int          // of transactions; 0 for none
	RTT        time.Duration
	Service    time.Duration // of one transaction, smoothed
	IdleFrom   mail.Instant  // 0 while it carries something
}

// Hosts returns the hosts of a site, the best first, at most most.
func (p *Pool) Hosts(s *Site, now mail.Instant, most int) (views []HostView) {
	for tier, hosts := range s.tiers {
		for _, sh := range hosts {
			if len(views) == most {
				return views
			}
			v := HostView{Host: sh.host, Way: s.way, Tier: tier, Limit: max(sh.limits.Connections, 0), Configured: sh.limits.Level, Known: p.db.View(sh.key(), now)}
			if v.Level = min(v.Configured, v.Known.Level); v.Level == mail.LevelStream && !v.Known.Streams {
				v.Level, v.Unproven = mail.LevelOverlap, true
			} else if v.Level < v.Configured {
				v.Fell = p.fell(sh)
			}
			if h := p.hosts[sh.key()]; h != nil {
				v.Connections, v.Connecting, v.Idle, v.Probing = h.count, h.connecting, h.idle.Len(), h.inquiry == inquiryProbe
				if h.busy(now) {
					v.BusyUntil = h.full
				}
			}
			views = append(views, v)
		}
	}
	return views
}

// Remembered returns what is known of a host to which a transport has no site at all in
// a way; false if that is nothing.
func (p *Pool) Remembered(g *Group, way Way, host mail.Host, now mail.Instant) (HostView, bool) {
	key := keyOf(g, way, host)
	if _, ok := p.db.Record(key); !ok {
		return HostView{}, false
	}
	known := p.db.View(key, now)
	v := HostView{Host: host, Way: way, Limit: max(g.cfg.HostLimit, 0), Configured: g.cfg.Level, Known: known, Level: min(g.cfg.Level, known.Level)}
	if v.Level == mail.LevelStream && !known.Streams {
		v.Level, v.Unproven = mail.LevelOverlap, true
	}
	return v, true
}

// Connections returns the connections of a site, the oldest first, at most most.
func (p *Pool) Connections(s *Site, most int) (views []ConnView) {
	for c := range s.conns.All() {
		if len(views) == most {
			break
		}
		v := ConnView{ID: c.ID, Host: c.host.Host, Way: c.site.way, Negotiated: c.security, State: c.state, Level: c.level, Made: c.made,
			Entries: len(c.loads), Room: c.room, Carried: c.finished, Limit: c.limit, RTT: c.rtt, Service: c.service}
		if c.state == Ready && len(c.loads) == 0 {
			v.IdleFrom = c.used
		}
		views = append(views, v)
	}
	return views
}

// A WaitView is what a site waits for, in full.
type WaitView struct {
	Why   Wait
	Until mail.Instant // when that is over at the latest; 0 if it depends on what others do
	Limit int          // how many there may be, where a number is what is reached; else 0
	// Shared, with WaitSlot, means that it is the limit of all transports together,
	// and not the transport's own.
	Shared bool
	Rate   rate.Limit // WaitRate: the limit that is used up
	Hosts  TierView   // WaitHost, WaitBusy: where one of the hosts is waited for
}

// A TierView is the hosts of the tier that a site uses, as those see it who wait for
// them. Later tiers are used when no host of an earlier one answers, and never because
// these have enough to do.
type TierView struct {
	Tier  int       // from 0, the best
	Hosts int       // in the tier
	Full  int       // of these: usable, and waited for; the others cannot be used now
	First mail.Host // of those that are waited for
	Count int       // connections that it has
	Next  mail.Host // the first of the next tier
	More  int       // further hosts of that tier
	Later int       // tiers after this one
}

// Waits returns what a site waits for.
func (p *Pool) Waits(s *Site, now mail.Instant) WaitView {
	w := WaitView{Why: s.waits}
	if s.timer.Running() {
		w.Until = s.timer.At()
	}
	switch s.waits {
	case WaitShare:
		w.Limit = p.cfg.MessageLimit
	case WaitPart:
		w.Limit = p.slotLimit(s.group)
	case WaitSlot:
		g := s.group
		if w.Limit = g.cfg.Limit; g.open-g.idle.Len() < g.cfg.Limit {
			w.Limit, w.Shared = p.cfg.Limit, true
		}
	case WaitStart:
		w.Limit = s.initial()
	case WaitRate:
		w.Rate, w.Until = s.dials.Binding(now)
	case WaitHost, WaitBusy:
		p.waitingForHost(s, &w, now)
	}
	return w
}

// waitingForHost says which limit the first of the hosts has reached, or when the
// first takes more again.
func (p *Pool) waitingForHost(s *Site, w *WaitView, now mail.Instant) {
	for i, tier := range s.tiers {
		for _, sh := range tier {
			if !sh.inWaiting.Listed() {
				continue
			}
			h, a := p.hosts[sh.key()], p.addresses[sh.addressKey()]
			if w.Hosts.Full++; w.Hosts.Full == 1 {
				w.Hosts.inTier(s.tiers, i)
				w.Hosts.First, w.Hosts.Count = sh.host, a.count
			}
			if w.Why == WaitHost && w.Limit == 0 && a.full(sh.limits.Connections) {
				w.Limit = sh.limits.Connections
			}
			if w.Why == WaitBusy && h != nil && h.busy(now) && (w.Until == 0 || h.full < w.Until) {
				w.Until = h.full
			}
		}
	}
}

// inTier sets which tier it is, and what comes after it.
func (v *TierView) inTier(tiers [][]*siteHost, i int) {
	v.Tier, v.Hosts, v.Later = i, len(tiers[i]), len(tiers)-i-1
	if v.Later > 0 {
		v.Next, v.More = tiers[i+1][0].host, len(tiers[i+1])-1
	}
}

// A Health is the number of a site's hosts in each state.
type Health struct {
	Up    int // have connections, or are not known to have failed
	Busy  int // of these: have said that they take no more connections
	Retry int // have failed, and are left alone or about to be tried again
	// Failure is why a connection to one of its hosts failed last, and FailedAt
	// when; zero if none did, or if that was before the site came into core.
	Failure  mail.Reply
	FailedAt mail.Instant
}

// Health returns the health of a site's hosts. A nil site has no hosts.
func (p *Pool) Health(s *Site, now mail.Instant) (v Health) {
	if s == nil {
		return v
	}
	v.Failure, v.FailedAt = s.failure.reply, s.failure.at
	for _, tier := range s.tiers {
		for _, sh := range tier {
			h := p.hosts[sh.key()]
			state, _ := p.db.State(sh.key(), now)
			switch working := h != nil && h.working() && h.inquiry != inquiryProbe; {
			case !working && (state == destdb.RetryLater || state == destdb.RetryDue || p.db.RetryAt(sh.key(), now) != 0):
				v.Retry++
			case h != nil && h.busy(now):
				v.Busy++
				v.Up++
			default:
				v.Up++
			}
		}
	}
	return v
}
