package conns

import (
	"math"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// naive is the decision written down as the specification has it: it keeps a list
// of connections and looks through all of it for every question. What is known of
// hosts without connections it asks the database, which has a twin of its own.
type naive struct {
	cfg   Config
	db    *destdb.DB
	now   mail.Instant
	turn  int // counts what changes, to show what was last
	conns []*naiveConn
	hosts map[destdb.Key]*naiveHost // those with connections
	tired map[*Site]naiveTired
	// proven are the sites that have taken mail, or of which that was known when their
	// hosts were.
	proved map[*Site]bool
	// late are those that have stalled, and how many messages they have yet to take
	// promptly.
	late map[*Site]int
	// gave are those that have given up a slot for others, and have not asked since.
	gave  map[*Site]bool
	ended map[*Site]naiveEnded
}

// A naiveEnded site has lately had so many connections that did their work, and have
// not been replaced.
type naiveEnded struct {
	n    int
	last mail.Instant
}

func (n *naive) owed(s *Site) int {
	if e := n.ended[s]; n.now < e.last.Add(5*time.Second) {
		return e.n
	}
	return 0
}

// doneWith notes that a connection of a site does not count any more.
func (n *naive) doneWith(c *naiveConn) {
	if c.mails > 0 {
		n.ended[c.site] = naiveEnded{n.owed(c.site) + 1, n.now}
	}
}

// A naiveTired site has lately had a connection ended over a call-out.
type naiveTired struct {
	until mail.Instant
	pause time.Duration
}

type naiveConn struct {
	id         ID
	host       destdb.Key
	site       *Site
	state      State
	made       mail.Instant
	ready      mail.Instant
	since      mail.Instant // when it was first ready for its site
	used       mail.Instant
	turn       int // when it fell idle
	message    mail.QueueID
	loads      []Load
	finished   int
	mails      int // of these
	limit      int
	level      mail.Level
	rtt        time.Duration
	service    time.Duration
	suspect    bool
	asked      bool
	begun      bool         // it has ended during a transaction
	charged    mail.QueueID // of this message
	proving    bool
	givesWay   bool // to one that streams
	replaces   bool // one that had ended
	positiveAt mail.Instant
	trusted    bool         // its site was proven when it was dialed
	moved      mail.Instant // when it last began something or made progress
	stalled    bool         // that was too long ago
	late       bool         // it began to carry something when its site was late
	adopted    bool         // it has begun nothing for its site
	trial      bool         // it began when there were enough doubtful ones
}

type naiveHost struct {
	full             mail.Instant
	fullAt           int
	patience         time.Duration
	probing, doubted bool
	shut             bool         // until full it is left alone, as nothing worked there
	since            mail.Instant // when it refused last, and began to be left alone

	accepted, noise, inRow, odd int
	oddAt                       mail.Instant
	most                        int // connections at once, and when
	mostAt                      mail.Instant

	// What has gone wrong since it gave a verdict, which is forgotten five minutes
	// after the last of it if there are no connections.
	trouble mail.Instant
	cuts    []mail.QueueID
	failing bool
	turns   int
}

func (h *naiveHost) well() { h.trouble, h.cuts, h.failing, h.turns = 0, nil, false, 0 }

func (n *naive) conn(id ID) *naiveConn {
	return n.conns[slices.IndexFunc(n.conns, func(c *naiveConn) bool { return c.id == id })]
}

func (n *naive) count(is func(*naiveConn) bool) int {
	sum := 0
	for _, c := range n.conns {
		if is(c) {
			sum++
		}
	}
	return sum
}

// most returns the connection for which what is greatest, of those that match.
func (n *naive) most(is func(*naiveConn) bool, what func(*naiveConn) int64) *naiveConn {
	var best *naiveConn
	for _, c := range n.conns {
		if is(c) && (best == nil || what(c) > what(best)) {
			best = c
		}
	}
	return best
}

func (c *naiveConn) idle() bool { return c.state == Ready && len(c.loads) == 0 && !c.suspect }

// slot reports whether the connection counts against limits.
func (c *naiveConn) slot() bool { return c.state != Draining || len(c.loads) > 0 }

// open reports whether the connection is there, and not about to end with nothing to do.
func (c *naiveConn) open() bool { return c.state != Connecting && c.slot() }

func (c *naiveConn) room() int {
	cost := 0
	for _, l := range c.loads {
		cost += l.Cost
	}
	if c.state != Ready || c.suspect {
		return 0
	}
	depth := 1
	if (c.mails > 0 || c.rtt >= 20*time.Millisecond) && !c.site.single && (c.service <= 20*time.Millisecond || 4*c.rtt >= c.service) {
		depth += map[mail.Level]int{mail.LevelOverlap: 1, mail.LevelStream: c.site.group.cfg.InFlight}[c.level]
	}
	if c.limit > 0 {
		depth = min(depth, c.limit-c.finished)
	}
	if len(c.loads) > 0 && cost >= max(4000, 1000*depth) {
		return 0
	}
	return max(depth-len(c.loads), 0)
}

func (n *naive) room(s *Site) (sum int) {
	for _, c := range n.conns {
		if c.site == s {
			sum += c.room()
		}
	}
	return sum
}

// find is: the newest active connection with room; else the idle one used last.
func (n *naive) find(s *Site) *naiveConn {
	newest := n.most(func(c *naiveConn) bool { return c.site == s && len(c.loads) > 0 && c.room() > 0 },
		func(c *naiveConn) int64 { return int64(c.ready) })
	if newest != nil {
		return newest
	}
	return n.most(func(c *naiveConn) bool { return c.site == s && c.idle() && c.room() > 0 }, func(c *naiveConn) int64 { return int64(c.turn) })
}

// doubtful reports whether the connection has a slot and has not shown that it gets on.
func (c *naiveConn) doubtful() bool {
	return c.slot() && (c.untested() || c.late && c.finished == 0 || !c.idle() && (c.stalled || c.late))
}

func (c *naiveConn) untested() bool { return c.slot() && c.finished == 0 && !c.trusted }

// stall takes in that time has passed.
func (n *naive) stall() {
	for _, c := range n.conns {
		if (c.state == Connecting || len(c.loads) > 0) && n.now >= c.moved.Add(10*time.Second) && !c.stalled {
			c.stalled = true
			n.late[c.site] = 5
		}
	}
}

// begins takes in that a connection is dialed, or carries something.
func (n *naive) begins(c *naiveConn) {
	c.late = c.late && c.finished == 0 || n.late[c.site] > 0
	if c.finished == 0 && c.state == Ready && !c.adopted {
		return // it is what it was when it was dialed
	}
	c.adopted, c.trial = false, false
	c.trial = c.untested() && n.beside(c.site.group, c) == 0
}

// mayHold is: fewer doubtful connections than there may still be, of all but two
// of 33 parts, unless none is doubtful and the site is neither late nor untested; or the
// first one of an untested site, as long as fewer than one in 33 are that beyond
// these; and of the last twentieth of the slots only one, or less than four times of what
// is left but for half of them.
func (n *naive) mayHold(s *Site, free int) bool {
	doubtful := n.count(func(c *naiveConn) bool { return c.site == s && c.doubtful() })
	has := n.count(func(c *naiveConn) bool { return c.site == s && c.slot() })
	trials := n.count(func(c *naiveConn) bool { return c.site.group == s.group && c.untested() && c.trial })
	mayTry := !n.proved[s] && n.late[s] == 0 && has == 0 && trials < n.limit(s.group)/33
	if (doubtful > 0 || n.late[s] > 0 || !n.proved[s]) && doubtful >= n.beside(s.group, nil) && !mayTry {
		return false
	}
	return has == 0 || free > n.limit(s.group)/20 || has < 4*(free-n.firsts(s.group))
}

func (n *naive) limit(g *Group) int { return min(n.cfg.Limit, g.cfg.Limit) }

// firsts is half of the last twentieth, rounded up.
func (n *naive) firsts(g *Group) int { return (n.limit(g)/20 + 1) / 2 }

// beside is the number of further connections that may be doubtful, but for trials; there is no limit
// if the transport may have fewer than 33 in all.
func (n *naive) beside(g *Group, but *naiveConn) int {
	if n.limit(g) < 33 {
		return 1 << 30
	}
	such := func(is func(*naiveConn) bool) int {
		return n.count(func(c *naiveConn) bool { return c != but && c.site.group == g && c.slot() && is(c) })
	}
	atWork := max(0, such(func(c *naiveConn) bool { return !c.idle() })-such((*naiveConn).doubtful))
	kept := min(2*(n.limit(g)/33)+atWork*3/2, n.limit(g)/2)
	return max(0, n.limit(g)-kept-such(func(c *naiveConn) bool { return c.doubtful() && !(c.untested() && c.trial) }))
}

// slowHave reports whether doubtful connections that are not untested have half of the
// slots, but is not counted.
func (n *naive) slowHave(g *Group, but *naiveConn) bool {
	return 2*n.count(func(c *naiveConn) bool { return c != but && c.site.group == g && c.doubtful() && !c.untested() }) >= n.limit(g)
}

// yields reports whether a connection that has just become idle must be hung up.
func (n *naive) yields(c *naiveConn) bool {
	g := c.site.group
	if n.late[c.site] == 0 || n.limit(g) < 33 {
		return n.shares(c)
	}
	return len(c.loads) == 0 && (n.beside(g, c) == 0 || n.slowHave(g, c) && g.wanted())
}

// shares reports whether a connection to a prompt site is hung up for others: half of the
// last twentieth is in use; one has none, and nothing ends for it; or one has two less.
// For its only connection a site has a second, or less if more wait than there are slots.
func (n *naive) shares(c *naiveConn) bool {
	g := c.site.group
	of := func(s *Site) int { return n.count(func(o *naiveConn) bool { return o.site == s && o.slot() }) }
	leaving := n.count(func(o *naiveConn) bool { return o.site.group == g && o.state == Draining && o.slot() })
	free := n.free(g) + leaving
	if c.idle() {
		free--
	}
	if of(c.site) > 1 && free < n.firsts(g) {
		return true
	}
	if g.slots.Len() > leaving {
		return of(c.site) > 1 || n.now.Sub(c.since) >= min(time.Second, time.Second*time.Duration(n.limit(g))/time.Duration(g.slots.Len()))
	}
	return leaving == 0 && slices.ContainsFunc(slices.Collect(g.shares.All()), func(w *Site) bool {
		free := max(free, n.limit(g)/20) + 1
		mayHave := w.used < n.cfg.MessageLimit || w.used < n.cfg.Scale*free
		return of(w)+2 <= of(c.site) && mayHave && n.mayHold(w, free)
	})
}

func (n *naive) uses(m mail.QueueID) int {
	return n.count(func(c *naiveConn) bool {
		return c.state == Connecting && c.message == m || slices.ContainsFunc(c.loads, func(l Load) bool { return l.Message == m })
	})
}

func (n *naive) free(g *Group) int {
	in := func(c *naiveConn) bool { return c.site.group == g }
	all := n.cfg.Limit - n.count((*naiveConn).slot) + n.count((*naiveConn).idle)
	own := g.cfg.Limit - n.count(func(c *naiveConn) bool { return in(c) && c.slot() }) + n.count(func(c *naiveConn) bool { return in(c) && c.idle() })
	return max(0, min(all, own))
}

// A hostState is the state of one host.
type hostState struct {
	state         destdb.State // InUse with connections that are not about to end
	at            mail.Instant
	opening, open int // connections being opened, and those and the ready ones
	more          bool
	busy          bool
	full          bool // the limit is reached, counting the connections of all demands
	takes         bool // it would take more but for that
	shut          bool // has turned a session away, and is asked again at that instant
}

func (n *naive) hostState(sp *siteHost) hostState {
	key := sp.key()
	var is hostState
	at := func(states ...State) int {
		return n.count(func(c *naiveConn) bool { return c.host == key && slices.Contains(states, c.state) })
	}
	is.opening = at(Connecting)
	is.open = at(Connecting, Ready)
	all := at(Connecting, Ready, Draining)
	is.state, is.at = n.db.State(key, n.now)
	if is.open == 0 && is.state == destdb.InUse {
		if is.at = n.db.RetryAt(key, n.now); is.at != 0 {
			is.state = destdb.RetryLater
		}
	}
	is.more = true
	if h := n.hosts[key]; h != nil {
		if n.now < h.full && all >= h.fullAt {
			is.busy, is.more = true, false
		}
		if h.patience > 0 && is.opening > 0 && all >= h.fullAt {
			is.more = false
		}
		if is.open > 0 && is.open == is.opening && (h.probing || h.doubted) {
			is.more = false
		}
		carrying := n.count(func(c *naiveConn) bool { return c.host == key && c.state == Draining && len(c.loads) > 0 })
		if h.failing && is.open+carrying > 0 {
			is.more = false
		}
		if h.shut && n.now < h.full && is.open == 0 {
			is.state, is.at, is.shut, is.more = destdb.RetryLater, h.full, true, false
		}
	}
	is.takes = is.more
	if limit := sp.limits.Connections; limit > 0 && n.count(atAddress(key)) >= limit {
		is.full, is.more = true, false
	}
	return is
}

// alive reports whether a tier with the host may still be used.
func (is hostState) alive() bool {
	return is.open > 0 || is.state != destdb.RetryLater && (is.state == destdb.InUse || !is.more)
}

// A verdict is what Open must answer.
type verdict struct {
	kind  DecisionKind
	wait  Wait
	hosts []destdb.Key // Dialing: one of these; Waiting, with evict: where there will be a place
	adopt ID
	evict ID
	until mail.Instant
}

func (n *naive) open(s *Site, ask Ask) verdict {
	own := func(c *naiveConn) bool { return c.site == s }
	if n.count(func(c *naiveConn) bool { return own(c) && c.slot() }) >= ask.Window {
		return verdict{wait: WaitWindow}
	}
	if ask.Callout && n.now < n.tired[s].until {
		return verdict{wait: WaitCallout}
	}
	until, shut := mail.Never, false
	for _, tier := range s.tiers {
		var all []hostState
		usable := false
		for _, sp := range tier {
			is := n.hostState(sp)
			shut = shut || is.shut
			all = append(all, is)
			usable = usable || is.alive() || is.state != destdb.RetryLater
			if is.state == destdb.RetryLater && is.open == 0 {
				until = min(until, is.at)
			}
		}
		if usable {
			return n.openIn(s, tier, all, ask)
		}
	}
	if shut {
		return verdict{wait: WaitBusy}
	}
	return verdict{kind: Exhausted, until: until}
}

func (n *naive) openIn(s *Site, tier []*siteHost, all []hostState, ask Ask) verdict {
	free := n.free(s.group)
	if ask.Used >= n.cfg.MessageLimit && ask.Used >= n.cfg.Scale*free {
		return verdict{wait: WaitShare}
	}
	if has := n.count(func(c *naiveConn) bool { return c.site == s && c.slot() }); n.gave[s] && n.late[s] == 0 && has == 0 {
		return verdict{wait: WaitSlot}
	}
	if n.gave[s] || n.late[s] > 0 && n.limit(s.group) >= 33 && (n.beside(s.group, nil) == 0 || free == 0 && n.slowHave(s.group, nil)) {
		return verdict{wait: WaitPart}
	}
	unknown := !n.proved[s] && n.late[s] == 0 && n.limit(s.group) >= 33 && n.beside(s.group, nil) == 0
	if has := n.count(func(c *naiveConn) bool { return c.site == s && c.slot() }); unknown && has == 0 && !n.mayHold(s, free) {
		return verdict{wait: WaitPart}
	}
	if free > 0 && !n.mayHold(s, free) {
		return verdict{wait: WaitPart}
	}
	adopt := n.most(func(c *naiveConn) bool {
		serves := slices.ContainsFunc(tier, func(sp *siteHost) bool { return sp.key() == c.host })
		return serves && c.idle() && c.site != s && c.site.group == s.group && c.level <= s.group.cfg.Level &&
			(s.group.cfg.CountLimit <= 0 || c.finished < s.group.cfg.CountLimit)
	}, func(c *naiveConn) int64 { return int64(c.turn) })
	if adopt != nil {
		return verdict{kind: Adopted, adopt: adopt.id}
	}
	if free == 0 {
		return verdict{wait: WaitSlot}
	}
	opening := n.count(func(c *naiveConn) bool { return c.site == s && c.state == Connecting && !c.replaces })
	ready := n.count(func(c *naiveConn) bool { return c.site == s && c.state != Connecting && c.slot() })
	if n.owed(s) == 0 && opening >= max(s.group.cfg.Initial, ready) {
		return verdict{wait: WaitStart}
	}
	v := verdict{kind: Dialing, hosts: n.choose(s, tier, all), evict: n.evict(s.group)}
	if len(v.hosts) > 0 {
		return v
	}
	v.wait, v.kind = WaitHost, Waiting
	v.evict, v.hosts = n.makePlace(tier, all)
	if slices.ContainsFunc(all, func(is hostState) bool { return is.busy && is.alive() }) {
		v.wait = WaitBusy
	}
	return v
}

// atAddress matches the connections to the address of a host, whatever they are secured by.
func atAddress(key destdb.Key) func(*naiveConn) bool {
	return func(c *naiveConn) bool {
		other := c.host
		other.Security = key.Security
		return other == key
	}
}

// makePlace returns the connection that makes a place at a host whose limit is reached: the one
// of another demand that is idle for longest, unless one is ending at one of them. It also returns
// the host.
func (n *naive) makePlace(tier []*siteHost, all []hostState) (idle ID, where []destdb.Key) {
	for i, sp := range tier {
		key, is := sp.key(), all[i]
		at := atAddress(key)
		if !is.full || !is.takes || !is.alive() {
			continue
		}
		if n.count(func(c *naiveConn) bool { return at(c) && c.state == Draining && len(c.loads) == 0 }) > 0 {
			return 0, nil
		}
		if c := n.most(func(c *naiveConn) bool { return at(c) && c.host != key && c.idle() }, func(c *naiveConn) int64 { return -int64(c.turn) }); c != nil && idle == 0 {
			idle, where = c.id, []destdb.Key{key}
		}
	}
	return idle, where
}

// choose returns the hosts of which one must be dialed (steps 6 and 7).
func (n *naive) choose(s *Site, tier []*siteHost, all []hostState) []destdb.Key {
	in := func(is func(hostState) bool) (keys []destdb.Key) {
		for i, sp := range tier {
			if all[i].more && is(all[i]) {
				keys = append(keys, sp.key())
			}
		}
		return keys
	}
	if keys := in(func(is hostState) bool { return is.state == destdb.Unused }); len(keys) > 0 {
		return keys
	}
	oldest := mail.Never
	for _, is := range all {
		if is.state == destdb.Closed && is.more {
			oldest = min(oldest, is.at)
		}
	}
	if keys := in(func(is hostState) bool { return is.state == destdb.Closed && is.at == oldest }); len(keys) > 0 {
		return keys
	}
	alive := slices.ContainsFunc(all, hostState.alive)
	if keys := in(func(is hostState) bool { return is.state == destdb.RetryDue }); len(keys) > 0 && !(alive && s.group.cfg.NoProbe) {
		return keys
	}
	fewest := 1 << 30
	for _, is := range all {
		if is.state == destdb.InUse && is.more {
			fewest = min(fewest, is.open)
		}
	}
	return in(func(is hostState) bool { return is.state == destdb.InUse && is.open == fewest })
}

// evict returns the connection that makes room, 0 if there is room.
func (n *naive) evict(g *Group) ID {
	oldest := func(is func(*naiveConn) bool) ID {
		return n.most(func(c *naiveConn) bool { return c.idle() && is(c) }, func(c *naiveConn) int64 { return -int64(c.turn) }).id
	}
	in := func(c *naiveConn) bool { return c.site.group == g }
	switch {
	case n.count(func(c *naiveConn) bool { return in(c) && c.slot() }) >= g.cfg.Limit:
		return oldest(in)
	case n.count((*naiveConn).slot) >= n.cfg.Limit:
		return oldest(func(*naiveConn) bool { return true })
	}
	return 0
}

// suspended returns the hosts that must be left alone for now.
func (n *naive) suspended(s *Site) (keys []destdb.Key) {
	for _, tier := range s.tiers {
		for _, sp := range tier {
			state := n.hostState(sp).state
			if state == destdb.RetryLater || state == destdb.RetryDue && s.group.cfg.NoProbe {
				keys = append(keys, sp.key())
			}
		}
	}
	return keys
}

// probes returns the hosts that failed and get a first connection if they get one.
func (n *naive) probes(s *Site) (keys []destdb.Key) {
	for _, tier := range s.tiers {
		for _, sp := range tier {
			is := n.hostState(sp)
			failures := n.db.View(sp.key(), n.now).Failures
			turned := n.hosts[sp.key()] != nil && n.hosts[sp.key()].turns > 0
			if turned || failures > 0 && (is.state == destdb.RetryDue || is.state == destdb.InUse) {
				keys = append(keys, sp.key())
			}
		}
	}
	return keys
}

// dialed takes in a connection that is being opened.
func (n *naive) dialed(c *Conn, message mail.QueueID, probe bool) {
	key := c.host.key
	n.forget()
	if n.hosts[key] == nil {
		n.hosts[key] = &naiveHost{}
	}
	if n.count(func(o *naiveConn) bool { return o.host == key && o.state != Draining }) == 0 {
		n.hosts[key].doubted, n.hosts[key].probing = false, probe
	}
	replaces := n.owed(c.site) > 0
	if replaces {
		n.ended[c.site] = naiveEnded{n.owed(c.site) - 1, n.ended[c.site].last}
	}
	n.conns = append(n.conns, &naiveConn{id: c.ID, replaces: replaces, host: key, site: c.site, made: n.now, message: message, level: c.level,
		trusted: n.proved[c.site], moved: n.now})
	n.begins(n.conns[len(n.conns)-1])
}

// isReady takes in that a connection is.
func (n *naive) isReady(c *naiveConn, o mail.OpenedConnection, proving bool) {
	asked := c.level
	n.turn++
	c.late = (c.late || c.stalled) && n.late[c.site] > 0
	c.state, c.message, c.ready, c.since, c.used, c.turn, c.stalled = Ready, 0, n.now, n.now, n.now, n.turn, false
	c.level, c.rtt = min(c.level, o.Level), o.RTT
	for _, limit := range []int{c.site.group.cfg.CountLimit, o.Mails, n.db.View(c.host, n.now).MessagesMax} {
		if limit > 0 && (c.limit == 0 || limit < c.limit) {
			c.limit = limit
		}
	}
	c.proving = proving && o.Probes
	if c.proving && (c.limit == 0 || c.limit > 3) {
		c.limit = 3
	}
	c.givesWay = asked == mail.LevelOverlap && n.outdated(c)
	h := n.hosts[c.host]
	if open := n.count(func(o *naiveConn) bool { return o.host == c.host && o.open() }); open >= h.most || n.now >= h.mostAt.Add(3*time.Second) {
		h.most, h.mostAt = open, n.now
	}
	if n.now < h.oddAt.Add(3*time.Second) {
		h.noise += h.odd
	}
	h.inRow, h.odd = 0, 0
	if h.accepted++; h.accepted+h.noise >= 64 {
		h.accepted, h.noise = h.accepted/2, h.noise/2
	}
	h.full, h.fullAt, h.patience, h.probing, h.doubted = 0, 0, 0, false, false
}

// outdated reports whether a connection would stream if it were made now.
func (n *naive) outdated(c *naiveConn) bool {
	return c.level == mail.LevelOverlap && !c.proving && c.site.group.cfg.Level == mail.LevelStream && n.db.View(c.host, n.now).Streams
}

// proven takes in that a host has passed a probe.
func (n *naive) proven(host destdb.Key) {
	for _, c := range n.conns {
		c.givesWay = c.givesWay || c.host == host && c.state == Ready && n.outdated(c)
	}
}

// refuses takes in that a host takes no more connections than it has.
func (h *naiveHost) refuses(now, made mail.Instant, has int) {
	if h.patience > 0 && !h.shut && made <= h.since {
		h.fullAt = min(h.fullAt, has)
		return
	}
	h.patience = min(max(2*h.patience, time.Second), time.Minute)
	h.full, h.fullAt, h.shut, h.since = now.Add(h.patience), has, false, now
}

// failed is whose fault it is that a connection could not be made, or that the host
// ended it before it had said anything to a transaction.
func (n *naive) failed(c *naiveConn, code uint16, at *siteHost) Feedback {
	h := n.hosts[c.host]
	has := n.count(func(o *naiveConn) bool { return o != c && o.host == c.host })
	if n.serves(c) {
		open := n.count(func(o *naiveConn) bool { return o != c && o.host == c.host && o.open() })
		if h.inRow++; open < h.most && n.now < h.mostAt.Add(3*time.Second) {
			h.odd++
			h.oddAt = n.now
		}
		share := float64(h.noise+1) / float64(h.noise+1+h.accepted)
		if h.noise+h.odd > 0 && h.inRow < 16 && math.Pow(share, float64(h.inRow)) > 1.0/4096 {
			if c.replaces {
				n.ended[c.site] = naiveEnded{n.owed(c.site) + 1, n.now}
			}
			return feedbackHost
		}
	}
	delete(n.ended, c.site)
	switch {
	case n.serves(c):
		h.refuses(n.now, c.made, has)
	case n.count(func(o *naiveConn) bool { return o != c && o.host == c.host && o.state == Connecting }) > 0:
		h.doubted = true
	case n.isThere(c, code) && (h.turns == 0 || h.turns < 3 && n.db.View(c.host, n.now).Failures == 0):
		h.trouble = n.now
		h.turns++
		h.patience = []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second}[h.turns]
		h.full, h.fullAt, h.shut = n.now.Add(h.patience), 0, true
	default:
		if n.isThere(c, code) {
			h.well()
			h.full, h.patience = 0, 0
		}
		return n.down(c, code, at)
	}
	return naiveBlame(code)
}

// isThere reports whether a host that refused a session is asked again.
func (n *naive) isThere(c *naiveConn, code uint16) bool {
	waited := n.now.Sub(c.made)
	if c.state != Connecting {
		waited = 0
	}
	return code == 421 || waited < 5*time.Second && n.db.TookLately(c.host, n.now)
}

func naiveBlame(code uint16) Feedback {
	if code == 421 {
		return FeedbackNegative
	}
	return feedbackHost
}

// serves reports whether other connections to the host of one do its work.
func (n *naive) serves(c *naiveConn) bool {
	return n.count(func(o *naiveConn) bool { return o != c && o.host == c.host && (o.state == Ready || len(o.loads) > 0) }) > 0
}

// down is whose fault it is that nothing works with a host.
func (n *naive) down(c *naiveConn, code uint16, at *siteHost) Feedback {
	if at != nil && !n.good(c, c.site.tiers[at.tier]) {
		return FeedbackNegative
	}
	return naiveBlame(code)
}

// cut is whose fault it is that a connection was lost in a transaction.
func (n *naive) cut(c *naiveConn, code uint16, at *siteHost) Feedback {
	h := n.hosts[c.host]
	if c.asked {
		pause := min(max(2*n.tired[c.site].pause, time.Second), time.Minute)
		n.tired[c.site] = naiveTired{n.now.Add(pause), pause}
		return feedbackHost
	}
	h.trouble = n.now
	if c.charged != 0 && !slices.Contains(h.cuts, c.charged) {
		h.cuts = append(h.cuts, c.charged)
	}
	switch failures := n.db.View(c.host, n.now).Failures; {
	case len(h.cuts) >= 5, len(h.cuts) >= 2 && failures > 0:
		h.failing = true
	}
	opening := n.count(func(o *naiveConn) bool { return o != c && o.host == c.host && o.state == Connecting })
	if !h.failing || n.serves(c) || opening > 0 {
		return feedbackNone
	}
	h.well()
	return n.down(c, code, at)
}

// good reports whether a tier has a host that can be used other than that of a
// connection which has failed.
func (n *naive) good(c *naiveConn, tier []*siteHost) bool {
	for _, sp := range tier {
		key := sp.key()
		working := n.count(func(o *naiveConn) bool { return o.host == key && o.state != Draining }) > 0
		if key != c.host && (working || n.db.RetryAt(key, n.now) == 0) {
			return true
		}
	}
	return false
}

// gone takes a connection out.
func (n *naive) gone(c *naiveConn) {
	n.conns = slices.DeleteFunc(n.conns, func(o *naiveConn) bool { return o == c })
	n.forget()
}

// forget takes out hosts of which there is nothing to remember any more.
func (n *naive) forget() {
	for key, h := range n.hosts {
		if n.count(func(o *naiveConn) bool { return o.host == key }) == 0 && (h.trouble == 0 || n.now >= h.trouble.Add(5*time.Minute)) {
			delete(n.hosts, key)
		}
	}
}

// finished takes in that an entry has ended.
func (n *naive) finished(c *naiveConn, took time.Duration, end end) {
	callout, untried := c.loads[0].Callout, end != endJudged
	if end == endBroken && !c.begun {
		c.begun = true
		if !callout {
			c.charged = c.loads[0].Message
		}
	}
	if end == endJudged {
		n.hosts[c.host].well()
	}
	if end != endUntried {
		c.asked = callout
	}
	c.loads = slices.Delete(slices.Clone(c.loads), 0, 1)
	c.suspect = untried
	if !untried {
		if n.late[c.site] > 0 && n.now < c.moved.Add(10*time.Second) {
			n.late[c.site]--
		}
		c.finished++
		c.moved, c.stalled, n.proved[c.site] = n.now, false, true
		n.begins(c)
	}
	if !untried && callout {
		delete(n.tired, c.site)
	}
	if !untried && !callout {
		c.mails++
		if c.service == 0 {
			c.service = took
		} else {
			c.service += (took - c.service) / 4
		}
	}
	if len(c.loads) == 0 && c.state == Draining {
		n.doneWith(c)
	}
	if len(c.loads) == 0 {
		n.turn++
		c.used, c.turn = n.now, n.turn
		c.stalled, c.late = c.stalled && c.suspect, c.late && c.suspect
	}
}
