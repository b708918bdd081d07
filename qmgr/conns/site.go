package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// A Site is one queue's hosts and connections.
type Site struct {
	group  *Group
	name   string // the nexthop
	way    Way
	single bool // one entry at a time on each connection

	plan
	members
	owed  replacements
	dials rate.Bucket // connections that were opened
	health
	waiting
	wakeup
	failure      failure
	calloutPause pause
}

// Members are the connections of a site. Connecting, ready and carrying add up to Count;
// what conns has beyond these is draining and carries nothing.
type members struct {
	conns      ilist.List[Conn] // all, the oldest first
	idle       ilist.List[Conn] // the one used last at the end
	spare      ilist.List[Conn] // active, with room: the newest at the end
	room       int              // sum of the room of all connections
	connecting int
	ready      int
	carrying   int // draining, with something under way
	fresh      int // of those connecting, the ones that replace no other; at most connecting
}

// Replacements are the connections that may be opened in place of others that did their
// work and have ended.
type replacements struct {
	n  int
	at mail.Instant // when the last of these ended; n counts for replaceTTL from then on
}

// replaceTTL is for how long a connection that has ended may be replaced without being
// counted among those with which a site begins.
const replaceTTL = 5 * time.Second

// left returns how many connections may still be opened.
func (r *replacements) left(now mail.Instant) int {
	if now >= r.at.Add(replaceTTL) {
		return 0
	}
	return r.n
}

// add notes that a connection has ended that did its work. The receiver may close one
// after each message, so that this is no evidence against as many as there were.
func (r *replacements) add(now mail.Instant) { r.n, r.at = r.left(now)+1, now }

// Health is how a site is known to take mail, and whether its mail gets on.
type health struct {
	trust trust
	pace  pace
	// late is the number of messages that have to be taken promptly until the site is no longer
	// slow: 1 to paceVerdicts while it is slow, else 0.
	late     int
	doubtful int // connections in doubt
	stalled  int // of these, the ones that have made no progress for stallTime
	answer   timer
	inStuck  ilist.Link[Site] // on pool.stuck
}

// proven reports whether the site is known to take mail.
func (h *health) proven() bool { return h.trust != trustNone }

// slow reports whether the site lately took longer than stallTime over a message.
func (h *health) slow() bool { return h.pace == paceSlow || h.pace == paceSlowStuck }

// Stuck reports whether mail for the site gets nowhere for now, as far as is known:
// none of its hosts has answered for some time, all its connections have stalled, or
// our network is down.
func (h *health) Stuck() bool { return h.pace >= paceStuck }

// Waiting is what a site waits for.
type waiting struct {
	waits    Wait
	timer    timer             // the end of the wait; set if that is known
	line     *ilist.List[Site] // one of its group's, or pool.offline; nil if it is in none
	inLine   ilist.Link[Site]  // on line
	flow     fair.Path         // on behalf of which it asked last
	waitsFor *slotFlow         // in group.slots: that of flow
	inFlow   ilist.Link[Site]  // on waitsFor.sites
	sharing  mail.QueueID      // WaitShare: the message that has reached its share; else 0
	inShare  ilist.Link[Site]  // WaitShare: on the list that pool.sharers has for that message
	used     int               // WaitShare, WaitPart: how many the message uses
	yielded  bool              // it has given up a slot for others, and has not asked since
}

// A wakeup is why a site is asked again. What only one site can use goes to the next one
// in line if this one has no use for it (Pool.PassOn).
type wakeup struct {
	inWake ilist.Link[Site] // on pool.woken
	cause  cause
	at     *address     // causeHost: which one; else nil
	eased  mail.QueueID // causeShare: which message; else 0
}

// A failure is what went wrong at a site last.
type failure struct {
	reply mail.Reply   // of one of its hosts; zero if none has failed
	at    mail.Instant // when that was
	// vain is when the site last made a failed attempt while our network was down, and
	// has had no mail put off because of it since; 0 for never.
	vain mail.Instant
}

// A pause is for how long no connections are opened for call-outs, because a host has
// ended one over them. Each is twice as long as the one before; a call-out that is
// answered ends them.
type pause struct {
	until mail.Instant
	last  time.Duration // 0 for none
}

func (p *pause) extend(now mail.Instant) {
	p.last = min(max(2*p.last, firstPatience), lastPatience)
	p.until = now.Add(p.last)
}

// HostLimits are the limits of connections to one host.
type HostLimits struct {
	Connections int // at once; 0 or less for no limit
	Level       mail.Level
	ActiveTime  time.Duration // as GroupConfig
	Count       int           // as GroupConfig.CountLimit
}

// A Way is how connections are made.
type Way struct {
	Source   string // from which of our addresses they come; "" where that is not decided
	Security string // what is demanded of them (mail.Route.Security)
}

// NewSite returns a site of which no hosts are known yet. Name is its nexthop. Sites that
// differ in their way share no connection and nothing that is known of a host, but the limit of
// connections to it.
func NewSite(g *Group, name string, way Way) *Site {
	return &Site{group: g, name: name, way: way}
}

// Configure puts limits in force. Single means that no connection may have more than one
// entry at a time, as is right where there has to be a pause after each; dials bounds by
// time how many connections are opened.
func (s *Site) Configure(single bool, dials rate.Limits, now mail.Instant) {
	s.single = single
	s.dials.Configure(dials, now)
}

// Dials returns the bucket of connections that were opened.
func (s *Site) Dials() *rate.Bucket { return &s.dials }

// Room returns how many entries its connections take now.
func (s *Site) Room() int { return s.room }

// Count returns how many connections serve the site: those that are being opened,
// those that are ready, and those that are about to end and carry something. It is what
// the queue's window limits.
func (s *Site) Count() int { return s.connecting + s.ready + s.carrying }

// Empty reports whether the site has no connection at all, not even one that ends.
func (s *Site) Empty() bool { return s.conns.Empty() }

// Wants reports whether one more connection is worth asking for on behalf of so many
// entries: none of those that there are, or are being opened, takes them; or a host of a
// better tier than those in use may be tried again.
func (s *Site) Wants(entries int) bool {
	return s.room == 0 && s.connecting < entries || s.upgrades
}

// MayAsk reports whether asking for a connection may help: the site waits for nothing,
// or for what may be different for another message or window. Otherwise it is woken.
func (s *Site) MayAsk() bool {
	switch s.waits {
	case WaitNone, WaitWindow, WaitShare, WaitCallout:
		return true
	}
	return false
}

// Waits reports whether the site waits for something, after which it is woken.
func (s *Site) Waits() bool { return s.waits != WaitNone }

// LastFailure returns why a connection to one of the site's hosts failed last; zero if
// none has since it came into core.
func (s *Site) LastFailure() mail.Reply { return s.failure.reply }

// CalloutPause returns for how much longer it matters that hosts of the site have ended
// connections over call-outs: until a further time would count as the first again.
func (s *Site) CalloutPause(now mail.Instant) time.Duration {
	return max(s.calloutPause.until.Add(s.calloutPause.last).Sub(now), 0)
}

// initial is the number of connections that may be opened at once that replace no other.
func (s *Site) initial() int { return max(s.group.cfg.Initial, s.ready+s.carrying) }
