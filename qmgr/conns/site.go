package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// A Group is the connections of one transport.
type Group struct {
	name string
	cfg  GroupConfig
	open int // connecting, ready, and draining with something under way
	// leaving is how many of these are draining: their places will soon be free.
	leaving int
	// doubtful is how many of these have not shown that they get on, and untested how
	// many of those are to sites that are not known to take mail; trials are the
	// untested ones that began when there were enough doubtful ones.
	doubtful, untested, trials int
	idle                       ilist.List[Conn] // the one unused for longest first
	// slots are the sites without a connection that wait for one of any kind, shares
	// those that have some, or whose message holds enough, fresh and behind
	// those, new or slow, that do because doubtful connections hold enough.
	slots, shares, fresh, behind ilist.List[Site]
	slowTurn                     bool              // it is the turn of behind, unless slow sites hold enough
	inPool                       ilist.Link[Group] // on pool.groups, if there are any
}

// NewGroup returns a transport without connections.
func NewGroup(name string, cfg GroupConfig) *Group {
	return &Group{name: name, cfg: cfg.WithDefaults()}
}

// Configure puts new limits in force. Connections that exist are kept.
func (g *Group) Configure(cfg GroupConfig) { g.cfg = cfg.WithDefaults() }

// Open returns how many connections the transport has.
func (g *Group) Open() int { return g.open }

// wanted reports whether sites wait for connections of the transport to end.
func (g *Group) wanted() bool {
	return !(g.slots.Empty() && g.shares.Empty() && g.fresh.Empty() && g.behind.Empty())
}

// A Site is one queue's hosts and connections.
type Site struct {
	group *Group
	name  string
	tiers [][]*spot
	until mail.Instant // when the hosts should be looked up again; 0: they were never

	conns      ilist.List[Conn] // all, the oldest first
	idle       ilist.List[Conn] // the one used last at the end
	spare      ilist.List[Conn] // active, with room: the newest at the end
	room       int              // of all connections
	connecting int
	ready      int
	carrying   int // draining, with something under way
	fresh      int // of those that are being opened, the ones that are not in place of another
	// owed is how many connections ended lately that did their work, and have not been
	// replaced; owedAt is when the last did.
	owed     int
	owedAt   mail.Instant
	single   bool // one entry at a time on each connection
	doubtful int  // connections that have not shown that they get on
	took     bool // one of its hosts has said what becomes of an entry
	known    bool // one of its hosts took mail before, and has not failed since
	stalled  int  // of these, the ones that have made no progress for stallTime
	late     int  // it is slow until so many messages have been prompt
	yielded  bool // it has given up a place for the sake of others, and has not asked since
	stuck    bool // nothing of it gets on
	silent   timer
	inStuck  ilist.Link[Site] // on pool.stuck
	dials    rate.Bucket

	waits   Wait
	inWait  ilist.Link[Site] // on group.slots, group.shares, group.fresh, group.behind or pool.outaged
	sharer  mail.QueueID     // WaitShare: the message that holds as many as it may; 0 for none
	held    int              // WaitShare, WaitPart: how many the message holds
	inShare ilist.Link[Site] // WaitShare: on the list that pool.sharers has for that message
	inWake  ilist.Link[Site] // on pool.woken
	cause   cause            // why it was woken
	at      *host            // cause is causeHost: which one
	eased   mail.QueueID     // cause is causeShare: which message
	timer   timer
	// upgrade is when a host of a better tier than those in use may be tried;
	// upgrades says that the time has come.
	upgrade  timer
	upgrades bool
	last     mail.Reply   // of the last failure of one of its hosts
	lastAt   mail.Instant // and when that was
	// vain is when it last made an attempt in vain while our network was down, and
	// has had no mail put off because of it since; 0 for never.
	vain mail.Instant
	// tired is until when no connection is opened for call-outs, because a host has
	// ended one over them; tiredFor is how long that was. A call-out that is answered
	// ends it.
	tired    mail.Instant
	tiredFor time.Duration
}

// A spot is a host's place in a site's plan.
type spot struct {
	host   mail.Host
	site   *Site
	tier   int
	limits HostLimits
	inHost ilist.Link[spot] // on host.waiting
}

// HostLimits are what holds for connections to one host.
type HostLimits struct {
	Connections int // at once; 0 or less for no limit
	Level       mail.Level
	ActiveTime  time.Duration // as GroupConfig
	Count       int           // as GroupConfig.CountLimit
}

// NewSite returns a site of which no hosts are known yet. Name is its nexthop.
func NewSite(g *Group, name string) *Site { return &Site{group: g, name: name} }

// Configure puts limits in force. Single says that no connection may have more
// than one entry at a time, as is right where there has to be a pause after each;
// dials bounds by time how many connections are opened.
func (s *Site) Configure(single bool, dials rate.Limits, now mail.Instant) {
	s.single = single
	s.dials.Configure(dials, now)
}

// Dials returns the bucket of connections that were opened.
func (s *Site) Dials() *rate.Bucket { return &s.dials }

// Best returns the hosts of the best tier, as far as they are known: those that the
// site's mail is meant for. A site that is nil has none.
func (s *Site) Best() (hosts []mail.Host) {
	if s == nil || !s.Known() {
		return nil
	}
	for _, sp := range s.tiers[0] {
		hosts = append(hosts, sp.host)
	}
	return hosts
}

// Room returns how many entries its connections take now.
func (s *Site) Room() int { return s.room }

// Count returns how many connections serve the site: those that are being opened,
// those that are ready, and those that are about to end and carry something. It is what
// the queue's window limits.
func (s *Site) Count() int { return s.connecting + s.ready + s.carrying }

// owedTTL is for how long a connection that has ended may be replaced without being
// counted among those with which a site begins.
const owedTTL = 5 * time.Second

// replaceable returns how many connections may be opened in place of others.
func (s *Site) replaceable(now mail.Instant) int {
	if now >= s.owedAt.Add(owedTTL) {
		return 0
	}
	return s.owed
}

// owe notes that a connection has ended that did its work. The receiver may close it
// after each message, so that this tells nothing against as many as there were.
func (s *Site) owe(now mail.Instant) {
	s.owed, s.owedAt = s.replaceable(now)+1, now
}

// begins is how many connections may be opened at once that replace no other.
func (s *Site) begins() int { return max(s.group.cfg.Initial, s.ready+s.carrying) }

// Connecting returns how many connections are being opened.
func (s *Site) Connecting() int { return s.connecting }

// Empty tells whether the site has no connection at all, not even one that ends.
func (s *Site) Empty() bool { return s.conns.Empty() }

// Known tells whether hosts are known, however old that knowledge is.
func (s *Site) Known() bool { return len(s.tiers) > 0 }

// Stale tells whether the hosts should be looked up (again).
func (s *Site) Stale(now mail.Instant) bool { return now >= s.until }

// Upgrades tells that one more connection is worth asking for although there is
// room: a host of a better tier than those in use may be tried again.
func (s *Site) Upgrades() bool { return s.upgrades }

// Waits returns what the site waits for, WaitNone if it does not.
func (s *Site) Waits() Wait { return s.waits }

// A cause is what woke a site, if it is something that only one site can make use
// of.
type cause uint8

const (
	causeNone   cause = iota
	causeSlot         // a connection has ended or fallen idle
	causeHost         // one to a certain host has
	causeOutage       // our network may be tried
	causeShare        // the message on whose account it waits holds a connection fewer
)

// A Wait is the reason why a site gets no connection now.
type Wait uint8

const (
	WaitNone    Wait = iota
	WaitWindow       // as many connections as the window allows serve the site
	WaitShare        // the message at its head holds as many as it may while others need them
	WaitPart         // it holds as many itself as it may while others may need them
	WaitSlot         // as many connections as there may be are open and busy
	WaitStart        // enough are being opened
	WaitRate         // enough were opened lately
	WaitHost         // every host has as many as it may
	WaitBusy         // every host has said lately that it takes no more
	WaitCallout      // a host has lately ended a connection over a call-out, and only call-outs wait
	WaitOutage       // nothing can be reached; one site at a time is tried
)

// String returns the reason as commands show it.
func (w Wait) String() string {
	return [...]string{"none", "window", "message-share", "destination-share", "connection-limit", "slow-start", "connection-rate",
		"host-limit", "host-busy", "call-out-pause", "local-outage"}[w]
}
