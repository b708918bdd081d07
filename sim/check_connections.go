package sim

import (
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// hasSessions reports whether the core decides on connections somewhere.
func (w *world) hasSessions() bool {
	if w.run.Core.DefaultTransport.Agents == qmgr.AgentsConnections {
		return true
	}
	for _, t := range w.run.Core.Transports { //archtest:anyorder whether there is one
		if t.Agents == qmgr.AgentsConnections {
			return true
		}
	}
	return false
}

// holding reports whether a session counts for its destination's window and for the
// limits on all connections: it is being opened, may get something to carry, or
// carries something.
func (s *session) holding() bool { return !s.hung || s.pending() > 0 }

// pending is the number of entries that were sent over it and are not answered.
func (s *session) pending() int {
	n := len(s.letters)
	for n > 0 && s.letters[len(s.letters)-n].answered {
		n--
	}
	return n
}

// sharesHosts reports whether destinations have hosts in common. Then connections
// change hands, and nothing shows it before something is sent.
func (w *world) sharesHosts() bool {
	for i := range w.scenario.Sites {
		if w.scenario.Sites[i].SharedHosts {
			return true
		}
	}
	for _, names := range w.run.Fallbacks { //archtest:anyorder whether there is one
		if len(names) > 0 {
			return true
		}
	}
	return false
}

// connecting: no destination is given more connections than its window and its
// limit allow, no host, no transport and the whole no more than theirs; nothing is
// sent over a connection that is not ready, was hung up, leads elsewhere or has
// its hands full.
type connecting struct {
	safety
	cfg    qmgr.Config
	limits *limits
	shared bool // sharesHosts
}

func newConnecting(w *world) *connecting {
	return &connecting{cfg: w.run.Core.WithDefaults(), limits: newLimits(w), shared: w.sharesHosts()}
}

func (*connecting) name() string { return "connections" }

func (c *connecting) dialling(w *world, s *session) {
	transport := s.opening.Transport
	cfg := c.limits.usage(transport).cfg
	var all, group, site, host int
	for _, o := range w.listed {
		if o.holding() {
			all++
			if o.opening.Transport == transport {
				group++
			}
		}
		if o.opening.Transport != transport || o.opening.Source != s.opening.Source {
			continue
		}
		if o.holding() && o.serves == s.serves && o.opening.Security == s.opening.Security {
			site++
		}
		if o.host == s.host {
			host++
		}
	}
	c.atMost(w, "in all", all, c.cfg.ConnectionLimit)
	c.atMost(w, "over "+transport, group, cfg.ProcessLimit)
	c.atMost(w, "to host "+s.host.name, host, cfg.Connections.HostLimit)
	if !c.shared {
		c.atMost(w, "to "+s.serves.name, site, cfg.Window.Limit)
		if q, ok := w.core.Peek(transport, s.serves.name, s.opening.Source, s.opening.Security); ok && q.State == window.Ready && site > q.Window {
			c.found(w.now, "%d connections to %s; the window is %d", site, s.serves.name, q.Window)
		}
	}
}

func (c *connecting) atMost(w *world, where string, n, limit int) {
	if limit > 0 && n > limit {
		c.found(w.now, "%d connections %s; the limit is %d", n, where, limit)
	}
}

func (c *connecting) sending(w *world, s *session, l *letter) {
	switch {
	case s.host.sessions.Empty() && s.carried == 0 && len(s.letters) == 0 && s.ended == 0:
		c.found(w.now, "entry %d is sent over connection %d, which is not ready", l.entry, s.id)
	case s.hung:
		c.found(w.now, "entry %d is sent over connection %d, which was hung up", l.entry, s.id)
	case !w.leads(s, l.to):
		c.found(w.now, "entry %d for %s is sent to host %s, which is not one of its", l.entry, l.to.name, s.host.name)
	case s.pending() >= s.depth():
		c.found(w.now, "entry %d is sent over connection %d, which has %d, at level %v", l.entry, s.id, s.pending(), s.level)
	}
}

// depth is the number of entries that may be sent over a session and not answered: those
// under way, and one more.
func (s *session) depth() int {
	switch s.level {
	case mail.LevelOverlap:
		return 2
	case mail.LevelStream:
		return s.inFlight + 1
	}
	return 1
}

// leads reports whether a session's host takes mail for a destination.
func (w *world) leads(s *session, to *destination) bool {
	if to.has(s.host) {
		return true
	}
	for _, name := range w.run.Fallbacks[s.opening.Transport] {
		if w.nexthops[name].has(s.host) {
			return true
		}
	}
	return false
}

func (d *destination) has(r *receiver) bool {
	for _, tier := range d.tiers {
		for _, h := range tier {
			if h == r {
				return true
			}
		}
	}
	return false
}

func (c *connecting) hangingUp(w *world, s *session) {
	if s.hung {
		c.found(w.now, "connection %d is hung up twice", s.id)
	}
}

func (c *connecting) astray(w *world, id qmgr.ConnID) {
	c.found(w.now, "something is asked of connection %d, which has ended", id)
}

func (*connecting) dialled(*world, *session, *mail.OpenedConnection) {}
func (*connecting) closed(*world, *session)                          {}

// probing: a host that could not be reached is left alone for a time that doubles
// with each failure, and then tried by one connection alone until it is back, or
// until that was long ago. It does not count failures beside connections that work,
// nor those of times when hardly any host could be reached: the host need not be
// the cause.
type probing struct {
	safety
	cfg    qmgr.Config
	hosts  map[link]*health
	recent []failure // of the last minute
}

// A link is one transport's way to a host: transports learn for themselves.
type link struct {
	host      int
	transport string
}

func (p *probing) health(s *session) *health {
	l := link{s.host.index, s.opening.Transport}
	h := p.hosts[l]
	if h == nil {
		h = new(health)
		p.hosts[l] = h
	}
	return h
}

type health struct {
	failures int          // in a row
	at       mail.Instant // of the last
	turned   int          // sessions in a row that it refused although it is there, with none beside them, since the last failure
	doubtful bool         // there were some since it took a session last: the core may have counted from another one on
	well     bool         // it has taken a session
	turnedAt mail.Instant // the last
	trying   int          // sessions being made
	open     int          // sessions that are established
}

type failure struct {
	at   mail.Instant
	host *receiver
}

func newProbing(w *world) *probing {
	return &probing{cfg: w.run.Core.WithDefaults(), hosts: make(map[link]*health)}
}

func (*probing) name() string { return "probes" }

// wait is the time for which a host is left alone at least, and how long it is tried by one
// connection alone at least.
func (p *probing) wait(h *health) (least, alone time.Duration) {
	d := p.cfg.Hosts.RetryMin
	for range min(h.failures-1, 40) {
		d = min(2*d, p.cfg.Hosts.RetryMax)
	}
	return d - d/5, d - d/5 + p.cfg.Hosts.RetryGrace
}

func (p *probing) dialling(w *world, s *session) {
	h := p.health(s)
	if h.failures > 0 && h.at > w.online { // when our network is back hosts are forgiven, each when it is needed
		least, alone := p.wait(h)
		switch since := w.now.Sub(h.at); {
		case since < least && !h.doubtful:
			p.found(w.now, "%s is tried %v after failure %d in a row; it should be left alone for %v", s.host.name, since, h.failures, least)
		case since < alone && h.trying > 0:
			p.found(w.now, "%s is tried by a second connection before the first has shown that it is back", s.host.name)
		}
	}
	h.trying++
}

func (p *probing) dialled(w *world, s *session, o *mail.OpenedConnection) {
	h := p.health(s)
	h.trying--
	switch {
	case o.Reply.IsZero():
		h.open++
		h.failures, h.turned, h.doubtful, h.well = 0, 0, false, true
	case s.made < h.at: // part of the same misfortune
	case o.Unavailable || h.trying+h.open > 0 || p.turnedAway(w, s, h, o) || p.widespread(w, s.host) || w.core.Offline() != 0:
	default:
		if h.at <= w.online {
			h.failures = 0 // forgiven
		}
		h.failures++
		h.turned, h.at = 0, w.now
	}
}

// turnedAway reports whether a refusal is one of those after which a host is asked
// again soon, as it is there: it said so itself, or it did its work before and the
// refusal came soon.
func (p *probing) turnedAway(w *world, s *session, h *health, o *mail.OpenedConnection) bool {
	if o.Reply.Code != replyBusy.Code && (!h.well || w.now.Sub(s.made) > turnedSoon) {
		return false
	}
	if w.now.Sub(h.turnedAt) > turnedForget {
		h.turned = 0
	}
	h.turned, h.turnedAt, h.doubtful = h.turned+1, w.now, true
	return h.turned < turnedMany && (h.turned < turnedAgain || h.failures == 0)
}

// A host is asked again so often before it counts as one that cannot be reached, unless
// it has been left alone for so long meanwhile.
const (
	turnedMany   = 4
	turnedAgain  = 2 // if it has failed before
	turnedForget = time.Minute
	turnedSoon   = 5 * time.Second
)

// offline takes back what has just been noted: it was taken for our network's
// failure.
func (p *probing) offline(now mail.Instant) {
	for _, h := range p.hosts { //archtest:anyorder all
		if h.at == now {
			h.failures = 0
		}
	}
}

// widespread notes a failure and reports whether so many hosts have failed lately that
// it may not be theirs.
func (p *probing) widespread(w *world, r *receiver) bool {
	keep := p.recent[:0]
	for _, f := range p.recent {
		if f.host != r && w.now.Sub(f.at) <= time.Minute {
			keep = append(keep, f)
		}
	}
	p.recent = append(keep, failure{w.now, r})
	return len(p.recent) >= widespread
}

// widespread is below the number of hosts whose failures the core takes for one of
// our own network.
const widespread = 10

func (p *probing) closed(_ *world, s *session) { p.health(s).open-- }

func (*probing) sending(*world, *session, *letter) {}
func (*probing) hangingUp(*world, *session)        {}
func (*probing) astray(w *world, id qmgr.ConnID)   {}

// reaching: no mail is put off because its destination cannot be reached while a
// connection to it is ready to take it.
type reaching struct {
	safety
	shared  bool // sharesHosts
	warming bool // a source may have used up its allowance
}

func newReaching(w *world) *reaching {
	return &reaching{shared: w.sharesHosts(), warming: len(w.run.Core.Warmup.Sources) > 0}
}

func (*reaching) name() string { return "reaching" }

func (r *reaching) putOff(w *world, d *mail.Delivery) {
	if d.Transport != qmgr.TransportRetry || r.shared || r.warming || !strings.Contains(d.Nexthop, qmgr.SuspendedPrefix) {
		return
	}
	for _, s := range w.listed {
		if s.up && !s.hung && s.loss.at == 0 && s.host.frozen <= w.now && s.carried > 0 &&
			s.opening.Transport == d.Origin.Transport && s.serves.name == d.Origin.Nexthop {
			r.found(w.now, "mail for %s is put off (%s) although connection %d to %s is there", d.Origin.Nexthop, d.Nexthop, s.id, s.host.name)
			return
		}
	}
}
