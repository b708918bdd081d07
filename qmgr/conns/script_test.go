package conns

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// The scripts are the manual of the package: read them before the code. This file
// is the manual of their language.
func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler {
		s := &script{}
		return s.handle
	})
}

// epoch is when scripts begin; they show times since then.
const epoch = mail.Instant(1_000_000 * time.Second)

// A script is a conversation with a pool. Sites that are woken are named after
// the command that woke them.
type script struct {
	cfg     Config
	group   GroupConfig
	hostDB  destdb.Config
	pool    *Pool
	db      *destdb.DB
	groups  map[string]*Group
	sites   []*Site
	now     mail.Instant
	reset   uint64
	entry   uint64
	out     strings.Builder
	observe func(from, to any) // sees each change of a state
}

func (s *script) handle(tb testing.TB, b *golden.Block) string {
	s.out.Reset()
	for _, l := range b.Lines {
		s.command(tb, l)
		s.settle()
	}
	if s.out.Len() == 0 {
		return "ok"
	}
	return s.out.String()
}

// settle checks everything and names the sites that were woken.
func (s *script) settle() {
	if s.pool == nil {
		return
	}
	s.pool.Check(slices.Values(s.sites))
	for site := s.pool.Woken(); site != nil; site = s.pool.Woken() {
		s.printf("%s is woken", site.name)
	}
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *script) command(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	case "new": // new [limit=N] [seed=N] …: no connections, nothing known of any host; options of config
		s.cfg = Config{Limit: 100, MessageLimit: 20, Scale: 10}
		s.group = GroupConfig{Limit: 100}
		s.configure(tb, l)
		s.db = destdb.New(s.hostDB, 1)
		s.pool = New(s.cfg, s.db, uint64(l.Int(tb, "seed", 1)))
		s.pool.observe = s.observe
		s.groups, s.sites, s.now, s.entry = make(map[string]*Group), nil, epoch, 0
	case "config": // config KEY=N…: new limits for the pool and all groups
		s.configure(tb, l)
		s.pool.Configure(s.cfg)
		for _, g := range s.groups {
			g.Configure(s.group)
		}
		for _, site := range s.sites {
			s.pool.Reconsider(site)
		}
	case "hosts": // hosts SITE TIER…: a tier is mx1,mx2; [single] [group=NAME] [rate=LIMITS] for a new site
		s.hosts(tb, l)
	case "open": // open SITE [message=N] [used=N] [window=N]; with times=N only their number is shown
		times := l.Int(tb, "times", 1)
		if times == 1 {
			s.open(tb, l)
			return
		}
		before, shown := s.pool.open, s.out.String()
		for range times {
			s.open(tb, l)
		}
		s.out.Reset()
		s.out.WriteString(shown)
		s.printf("%d connections are dialed", s.pool.open-before)
	case "ready": // ready CONN [level=NAME] [mails=N] [rtt=TIME] [probes]
		o := mail.OpenedConnection{Level: s.level(tb, l, mail.LevelLockStep), Mails: l.Int(tb, "mails", 0), RTT: l.Duration(tb, "rtt", 0), Probes: l.Has("probes")}
		s.dialed(tb, l, o)
	case "fail": // fail CONN [code=N] [by=HOST] [unavailable] [insecure]: by is who said so
		why := reply(l.Int(tb, "code", 450))
		why.By = l.Str("by", "")
		s.dialed(tb, l, mail.OpenedConnection{Reply: why, Unavailable: l.Has("unavailable"), Insecure: l.Has("insecure")})
	case "assign": // assign SITE [times=N] [message=N] [size=N] [recipients=N]
		s.assign(tb, l)
	case "finish": // finish CONN [took=TIME] [untried|broken|ours]: its oldest entry
		s.finish(tb, l)
	case "close": // close CONN WHY [broken] [code=N] [level=NAME] [proof=RESULT]: broken is during its oldest entry
		s.close(tb, l)
	case "advance": // advance TIME
		d, err := time.ParseDuration(l.Word(tb, 0))
		if err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		s.now = s.now.Add(d)
		s.hangup(s.pool.Surplus(s.now))
	case "waits": // waits SITE: for which hosts
		s.waits(s.site(tb, l))
	case "endings": // endings SITE
		s.endings(s.site(tb, l))
	case "pass": // pass SITE: it had no use for what it was woken for
		s.pool.PassOn(s.site(tb, l))
	case "eased": // eased N: that message uses a connection fewer
		s.pool.Eased(mail.QueueID(number(tb, l, 0)))
	case "reset": // for all that has failed until now
		s.reset = s.pool.ResetRetries()
	case "apply": // apply SITE: the last reset to it
		s.pool.ApplyReset(s.site(tb, l), s.reset, s.now)
	case "halt":
		s.hangup(s.pool.Halt())
	case "step-down", "proven", "executes", "slow", "worked": // HOST…: what destdb has learned of them
		s.learn(tb, l)
	default:
		s.look(tb, l)
	}
}

// look is the commands that only ask.
func (s *script) look(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	case "show": // show [SITE…]: the picture
		s.show(l.Words)
	case "stuck": // which sites have become stuck, and which are
		are := []string{"stuck:"}
		for site := s.pool.NextStuck(); site != nil; site = s.pool.NextStuck() {
			s.printf("%s becomes stuck", site.name)
		}
		for _, site := range s.sites {
			if site.Stuck() {
				are = append(are, site.name)
			}
		}
		s.printf("%s", strings.Join(are, " "))
	case "due": // when to call Surplus
		if at, ok := s.pool.NextDue(); ok {
			s.printf("%v", at-epoch)
		} else {
			s.printf("never")
		}
	default:
		tb.Fatalf("%s: no such command: %s", l.Pos, l.Name)
	}
}

func (s *script) configure(tb testing.TB, l *golden.Line) {
	tb.Helper()
	c, g := &s.cfg, &s.group
	c.Limit = l.Int(tb, "limit", c.Limit)
	c.MessageLimit = l.Int(tb, "message-limit", c.MessageLimit)
	c.Scale = l.Int(tb, "scale", c.Scale)
	g.Limit = l.Int(tb, "group-limit", g.Limit)
	g.HostLimit = l.Int(tb, "host-limit", g.HostLimit)
	g.Initial = l.Int(tb, "initial", g.Initial)
	g.IdleTime = l.Duration(tb, "idle", g.IdleTime)
	g.ActiveTime = l.Duration(tb, "active", g.ActiveTime)
	g.CountLimit = l.Int(tb, "count", g.CountLimit)
	g.InFlight = l.Int(tb, "in-flight", g.InFlight)
	g.Level = s.level(tb, l, g.Level)
	g.NoProbe = g.NoProbe || l.Has("no-probe")
	if err := s.groupComplaint(); err != nil {
		tb.Fatalf("%s: %v", l.Pos, err)
	}
}

func (s *script) groupComplaint() error { return s.group.WithDefaults().Validate() }

func (s *script) level(tb testing.TB, l *golden.Line, level mail.Level) mail.Level {
	tb.Helper()
	if text := l.Str("level", ""); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
	}
	return level
}

func reply(code int) mail.Reply {
	if code == 0 {
		return mail.Reply{}
	}
	return mail.Reply{Code: uint16(code), Text: "said so"}
}

func number(tb testing.TB, l *golden.Line, i int) int {
	tb.Helper()
	n, err := strconv.Atoi(strings.TrimLeft(l.Word(tb, i), "cm"))
	if err != nil {
		tb.Fatalf("%s: %s is not a number", l.Pos, l.Words[i])
	}
	return n
}

// hostNamed returns the host of a name such as mx7, which is at 192.0.2.7, or of one such as
// socket1, which is a unix socket.
func hostNamed(tb testing.TB, name string) mail.Host {
	tb.Helper()
	if strings.HasPrefix(name, "socket") {
		return mail.Host{Name: name, Addr: mail.SocketAddr("/" + name)}
	}
	n, err := strconv.ParseUint(strings.TrimLeft(name, "mx"), 10, 8)
	if err != nil {
		tb.Fatalf("%s is not the name of a host", name)
	}
	return mail.Host{Name: name, Addr: addr(int(n))}
}

// known returns the site of a name, nil if there is none.
func (s *script) known(name string) *Site {
	i := slices.IndexFunc(s.sites, func(site *Site) bool { return site.name == name })
	if i < 0 {
		return nil
	}
	return s.sites[i]
}

func (s *script) site(tb testing.TB, l *golden.Line) *Site {
	tb.Helper()
	site := s.known(l.Word(tb, 0))
	if site == nil {
		tb.Fatalf("%s: there is no site %s", l.Pos, l.Words[0])
	}
	return site
}

func (s *script) conn(tb testing.TB, l *golden.Line) *Conn {
	tb.Helper()
	c := s.pool.conns[ID(number(tb, l, 0))]
	if c == nil {
		tb.Fatalf("%s: there is no connection %s", l.Pos, l.Words[0])
	}
	return c
}

func (s *script) hosts(tb testing.TB, l *golden.Line) {
	tb.Helper()
	name, group := l.Word(tb, 0), l.Str("group", "smtp")
	if s.groups[group] == nil {
		s.groups[group] = NewGroup(group, s.group)
	}
	site := s.known(name)
	if site == nil {
		site = NewSite(s.groups[group], name, Way{Source: l.Str("source", ""), Security: l.Str("security", "")})
		var dials rate.Limits
		if err := dials.UnmarshalText([]byte(l.Str("rate", ""))); err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		site.Configure(l.Has("single"), dials, s.now)
		s.sites = append(s.sites, site)
	}
	set := mail.HostSet{Until: s.now.Add(time.Hour)}
	for _, word := range l.Words[1:] {
		if word == "single" {
			continue
		}
		var tier []mail.Host
		for _, host := range strings.Split(word, ",") {
			tier = append(tier, hostNamed(tb, host))
		}
		set.Tiers = append(set.Tiers, tier)
	}
	s.hangup(s.pool.SetHosts(site, set, s.limits))
}

// limits are the transport's for all hosts.
func (s *script) limits(mail.Host) HostLimits {
	g := s.group.WithDefaults()
	return HostLimits{Connections: g.HostLimit, Level: g.Level, ActiveTime: g.ActiveTime, Count: g.CountLimit}
}

func (s *script) open(tb testing.TB, l *golden.Line) {
	tb.Helper()
	site := s.site(tb, l)
	d := s.pool.Open(site, Ask{Message: mail.QueueID(l.Int(tb, "message", 1)), Used: l.Int(tb, "used", 0), Window: l.Int(tb, "window", 20),
		Flow: fair.Path{Class: "normal", Tenant: "t", Flow: l.Str("flow", "")}}, s.now)
	switch d.Kind {
	case Waiting:
		s.hangup(evicted(d))
		s.printf("wait: %v", d.wait)
	case Adopted:
		s.printf("take c%d of %s", d.Conn.ID, d.From.name)
	case Dialing:
		s.hangup(evicted(d))
		s.printf("dial c%d to %s", d.Conn.ID, d.Conn.Host().Name)
	case Exhausted:
		s.printf("exhausted until %v: %v", d.Until-epoch, d.Reply)
	}
}

// evicted are the connections that a decision has hung up.
func evicted(d Decision) []*Conn {
	if d.Evict == nil {
		return nil
	}
	return []*Conn{d.Evict}
}

func (s *script) hangup(surplus []*Conn) {
	for _, c := range surplus {
		s.printf("hang up c%d", c.ID)
	}
}

func (s *script) dialed(tb testing.TB, l *golden.Line, o mail.OpenedConnection) {
	tb.Helper()
	c := s.conn(tb, l)
	got, surplus, f := s.pool.Dialed(c.ID, o, s.now)
	if (got == nil) == o.Reply.IsZero() {
		tb.Errorf("%s: connection %v, reply %v", l.Pos, got, o.Reply)
	}
	s.hangup(surplus)
	if got == nil {
		s.feedback(f)
	}
}

func (s *script) feedback(f Feedback) {
	if f != feedbackNone {
		s.printf("feedback: %s", [...]string{"", "none, it is the host", "negative", "loop", "none, it is alive", "positive"}[f])
	}
}

func (s *script) assign(tb testing.TB, l *golden.Line) {
	tb.Helper()
	site := s.site(tb, l)
	for range l.Int(tb, "times", 1) {
		c := s.pool.find(site)
		if (c == nil) != (site.Room() == 0) {
			tb.Errorf("%s: room for %d, found %v", l.Pos, site.Room(), c)
		}
		if c == nil {
			s.printf("no room")
			return
		}
		s.entry++
		s.printf("e%d on c%d", s.entry, c.ID)
		cost := Cost(int64(l.Int(tb, "size", 0)), l.Int(tb, "recipients", 1))
		if _, _, last := s.pool.Assign(site, Load{Entry: s.entry, Message: mail.QueueID(l.Int(tb, "message", 1)), Cost: cost}); last {
			s.printf("hang up c%d", c.ID)
		}
	}
}

func (s *script) finish(tb testing.TB, l *golden.Line) {
	tb.Helper()
	c := s.conn(tb, l)
	if len(c.Loads()) == 0 {
		tb.Fatalf("%s: it carries nothing", l.Pos)
	}
	end := endJudged
	switch {
	case l.Has("untried"):
		end = endUntried
	case l.Has("broken"):
		end = endBroken
	case l.Has("ours"):
		end = endOurs
	}
	f := s.pool.finished(c, c.Loads()[0].Entry, l.Duration(tb, "took", time.Millisecond), end, s.now)
	if f.Feedback == FeedbackPositive {
		s.feedback(f.Feedback)
	}
	if f.Hangup {
		s.printf("hang up c%d", c.ID)
	}
}

func (s *script) close(tb testing.TB, l *golden.Line) {
	tb.Helper()
	c := s.conn(tb, l)
	end := endUntried
	if l.Has("broken") {
		end = endBroken
	}
	for ; len(c.Loads()) > 0; end = endUntried {
		s.pool.finished(c, c.Loads()[0].Entry, 0, end, s.now)
	}
	cl := mail.Closing{Level: s.level(tb, l, 0), Reply: reply(l.Int(tb, "code", 0))}
	for cl.Why.String() != l.Word(tb, 1) {
		if cl.Why++; cl.Why > mail.CloseWrong {
			tb.Fatalf("%s: %s is no reason", l.Pos, l.Words[1])
		}
	}
	for proof := l.Str("proof", "none"); cl.Proof.String() != proof; cl.Proof++ {
		if cl.Proof == mail.ProofExecutes {
			tb.Fatalf("%s: %s is no proof", l.Pos, proof)
		}
	}
	s.feedback(s.pool.Closed(c.ID, cl, s.now))
}

func (s *script) learn(tb testing.TB, l *golden.Line) {
	tb.Helper()
	for i := range l.Words {
		key := destdb.Key{Addr: hostNamed(tb, l.Word(tb, i)).Addr, Transport: l.Str("group", "smtp")}
		switch l.Name {
		case "step-down":
			s.db.StepDown(key, s.level(tb, l, mail.LevelOverlap), s.now)
		case "proven":
			s.db.Probed(key, mail.ProofPassed, s.now)
		case "executes":
			s.db.Probed(key, mail.ProofExecutes, s.now)
		case "worked":
			s.db.ObserveRTT(key, time.Millisecond, s.now)
		case "slow":
			s.db.ObserveService(key, 100*time.Millisecond, s.now)
			for range 100 {
				s.db.ObserveService(key, 10*time.Second, s.now)
			}
		}
	}
}

// waits draws what a site waits for where that is a host.
func (s *script) waits(site *Site) {
	w := s.pool.Waits(site, s.now)
	h := &w.Hosts
	s.printf("%v: %d of %d hosts of tier %d, %s with %d", w.Why, h.Full, h.Hosts, h.Tier, h.First.Name, h.Count)
	if h.Later > 0 {
		s.printf("then %s and %d more, tiers left %d", h.Next.Name, h.More, h.Later)
	}
}

// endings draws how the connections of a site have ended, the last one first.
func (s *script) endings(site *Site) {
	for _, e := range s.pool.Endings(site, 10) {
		s.printf("c%d %v %v %v", e.Conn, e.Closing.Why, e.Drained, e.Closing.Proof)
	}
}

// show draws sites with their connections, then the hosts.
func (s *script) show(names []string) {
	hosts := make(map[destdb.Key]mail.Host)
	for _, site := range s.sites {
		for _, tier := range site.tiers {
			for _, sh := range tier {
				hosts[sh.key()] = sh.host
			}
		}
		if len(names) > 0 && !slices.Contains(names, site.name) {
			continue
		}
		s.printf("%s: %d connecting, %d ready, room %d, waits for %v", site.name, site.connecting, site.ready, site.room, site.waits)
		for c := range site.conns.All() {
			proving := ""
			if c.proving {
				proving = ", to be proven"
			}
			s.printf("  c%d %s %v %v%s, %d entries, load %d, room %d, carried %d", c.ID, c.host.Name, c.state, c.level, proving, len(c.loads), c.cost, c.room, c.finished)
		}
	}
	if len(names) > 0 {
		return
	}
	var keys []destdb.Key
	for key := range hosts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b destdb.Key) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Security, b.Security)) })
	for _, key := range keys {
		demand := ""
		if key.Security != "" {
			demand = " (" + key.Security + ")"
		}
		s.printf("%s%s %s", hosts[key].Name, demand, s.describe(key))
	}
}

func (s *script) describe(key destdb.Key) string {
	v := s.db.View(key, s.now)
	text := v.State.String()
	switch v.State {
	case destdb.Closed:
		text += fmt.Sprintf(", last connection made at %v", v.At-epoch)
	case destdb.RetryLater:
		text += fmt.Sprintf(", until %v, failures %d", v.At-epoch, v.Failures)
	}
	if h := s.pool.hosts[key]; h != nil {
		if h.count > 0 {
			text += fmt.Sprintf(", connections %d", h.count)
		}
		if h.busy(s.now) {
			text += fmt.Sprintf(", takes no more until %v", h.full-epoch)
		}
		if h.inquiry == inquiryProbe {
			text += ", probing"
		}
		if h.inquiry == inquiryDoubt {
			text += ", doubted"
		}
		if n := len(h.cuts); n > 0 {
			text += fmt.Sprintf(", cut %d messages", n)
		}
		if h.failing {
			text += ", failing"
		}
		if h.turns > 0 {
			text += fmt.Sprintf(", turned away %d times", h.turns)
		}
	}
	return text
}

// addr is where the host of a number is.
func addr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 25)
}

// addr6 is where the host of a large number is.
func addr6(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}), 25)
}
