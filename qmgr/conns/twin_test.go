package conns

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// A twins run does to a pool whatever may happen, and asks the naive one at each
// step what the answer must be. It is a host as simple as possible: sites want
// entries carried, those that are woken ask again.
type twins struct {
	fail func(format string, args ...any)
	r    dice
	p    *Pool
	n    *naive
	s    []*wanting
	g    []*Group
	last uint64 // entry
}

// A wanting is a site for which so many entries of a message wait.
type wanting struct {
	*Site
	entries int
	message mail.QueueID
	window  int
	// suspended are the hosts that were to be left alone when it began to wait. It is
	// woken when they may be tried, not before, although they may turn out to be well.
	suspended []destdb.Key
}

// asks reports whether what waits are call-outs.
func (s *wanting) asks() bool { return s.message == 3 }

func (s *wanting) later(key destdb.Key) bool { return slices.Contains(s.suspended, key) }

// dice is where decisions come from: a generator, or the input of a fuzz test.
type dice interface{ IntN(n int) int }

func newTwins(r dice, fail func(string, ...any)) *twins {
	w := &twins{fail: fail, r: r}
	most := 12
	if r.IntN(3) == 0 {
		most = 40
	}
	cfg := Config{Limit: 3 + r.IntN(most), MessageLimit: 1 + r.IntN(most/3), Scale: r.IntN(4)}
	db := destdb.New(destdb.Config{}, uint64(r.IntN(1000)))
	w.p = New(cfg, db, uint64(r.IntN(1000)))
	w.n = &naive{cfg: cfg, db: db, now: epoch, hosts: make(map[destdb.Key]*naiveHost), tired: make(map[*Site]naiveTired), proved: make(map[*Site]bool), late: make(map[*Site]int), gave: make(map[*Site]bool), ended: make(map[*Site]naiveEnded)}
	for i := range 2 {
		w.g = append(w.g, NewGroup(fmt.Sprint("g", i), GroupConfig{Limit: 2 + r.IntN(most-2), HostLimit: 1 + r.IntN(most/3), Initial: 1 + r.IntN(4),
			CountLimit: 3 * r.IntN(2), Level: mail.Level(r.IntN(4)), InFlight: 1 + r.IntN(4), NoProbe: r.IntN(4) == 0}))
	}
	secured := demands(r)
	for i := range 6 {
		site := NewSite(w.g[min(i/2, 1)], fmt.Sprint("s", i), Way{Security: secured[r.IntN(len(secured))]})
		site.Configure(i == 5, rate.Limits{}, epoch)
		w.s = append(w.s, &wanting{Site: site, window: 1 + r.IntN(most-4)})
		w.plan(w.s[i])
	}
	return w
}

func (w *twins) sites() iter.Seq[*Site] {
	return func(yield func(*Site) bool) {
		for _, s := range w.s {
			if !yield(s.Site) {
				return
			}
		}
	}
}

// demands draws what the mail of sites may demand of connections: in half of the worlds
// everything demands the same.
func demands(r dice) []string {
	if r.IntN(2) == 0 {
		return []string{""}
	}
	return []string{"", "", "encrypt", "verify"}
}

func (w *twins) limits(s *wanting) func(mail.Host) HostLimits {
	return func(mail.Host) HostLimits {
		g := s.group.cfg
		return HostLimits{Connections: g.HostLimit, Level: g.Level, ActiveTime: g.ActiveTime, Count: g.CountLimit}
	}
}

// plan gives a site hosts, some of which serve others, too.
func (w *twins) plan(s *wanting) {
	var set mail.HostSet
	host := 0
	for range 1 + w.r.IntN(3) {
		var tier []mail.Host
		for range 1 + w.r.IntN(3) {
			host += 1 + w.r.IntN(2)
			tier = append(tier, mail.Host{Addr: addr(host)})
		}
		set.Tiers = append(set.Tiers, tier)
	}
	w.hungUp(w.p.SetHosts(s.Site, set, w.limits(s)))
	w.n.proved[s.Site] = s.trust == trustProven
	for _, tier := range s.tiers {
		for _, sh := range tier {
			w.n.proved[s.Site] = w.n.proved[s.Site] || w.n.db.Works(sh.key())
		}
	}
}

// hungUp takes in that connections are about to end.
func (w *twins) hungUp(list []*Conn) {
	for _, c := range list {
		w.n.conn(c.ID).state = Draining
	}
}

func (w *twins) pick(is func(*naiveConn) bool) *naiveConn {
	var list []*naiveConn
	for _, c := range w.n.conns {
		if is(c) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[w.r.IntN(len(list))]
}

// step does one thing, has all asked again that were woken, and compares.
func (w *twins) step() {
	w.n.now++ // nothing happens at the same time
	w.n.forget()
	uses := make(map[mail.QueueID]int)
	for m := mail.QueueID(1); m <= 3; m++ {
		uses[m] = w.n.uses(m)
	}
	w.happen()
	for m := mail.QueueID(1); m <= 3; m++ {
		for range uses[m] - w.n.uses(m) {
			w.p.Eased(m)
		}
	}
	w.surplus()
	w.settle()
	w.compare()
}

func (w *twins) happen() {
	switch n := w.r.IntN(100); {
	case n < 20:
		s := w.s[w.r.IntN(len(w.s))]
		s.entries += 1 + w.r.IntN(w.n.cfg.MessageLimit)
		s.message = mail.QueueID(1 + w.r.IntN(3))
	case n < 45:
		w.dialed()
	case n < 75:
		w.finish()
	case n < 85:
		w.close()
	case n < 97:
		w.n.now = w.n.now.Add(time.Duration(1+w.r.IntN(40_000)) * time.Millisecond)
	case n < 98:
		w.plan(w.s[w.r.IntN(len(w.s))])
	case n < 99:
		s := w.s[w.r.IntN(len(w.s))]
		s.window = 1 + w.r.IntN(8)
		w.p.Reconsider(s.Site)
	default:
		w.n.cfg.Limit = 3 + w.r.IntN(12)
		w.p.Configure(w.n.cfg)
		for _, s := range w.s {
			w.p.Reconsider(s.Site)
		}
	}
}

// surplus hangs up what is due to be, and checks that it was.
func (w *twins) surplus() {
	w.n.stall()
	for _, c := range w.p.Surplus(w.n.now) {
		t := w.n.conn(c.ID)
		age := w.n.now.Sub(t.ready)
		if t.state != Ready || !(len(t.loads) == 0 && w.n.now >= t.used.Add(15*time.Second)) && age < 270*time.Second && !t.givesWay {
			w.fail("connection %d is %v and is hung up after %v", t.id, t.state, age)
		}
		t.state = Draining
	}
	for _, t := range w.n.conns {
		if t.state == Ready && (len(t.loads) == 0 && w.n.now >= t.used.Add(15*time.Second) || w.n.now >= t.ready.Add(330*time.Second) || t.givesWay) {
			w.fail("connection %d has been ready since %v and was not hung up", t.id, t.ready)
		}
	}
}

func (w *twins) dialed() {
	t := w.pick(func(c *naiveConn) bool { return c.state == Connecting })
	if t == nil {
		return
	}
	c := w.p.conns[t.id]
	proving := c.Opening().Probe
	o := mail.OpenedConnection{Level: mail.Level(w.r.IntN(4)), RTT: time.Duration(w.r.IntN(50)) * time.Millisecond}
	o.Probes = proving && o.Level == mail.LevelStream
	o.Extensions = mail.Extensions(1 + w.r.IntN(255))
	want := feedbackNone
	switch w.r.IntN(10) {
	case 0, 1, 2:
		o.Reply.Code = 450
	case 3:
		o.Reply.Code = 421
	case 4:
		o.Mails = 1 + w.r.IntN(3)
	case 5:
		o.Reply.Code, o.Unavailable = 451, w.r.IntN(4) == 0
	}
	if o.Reply.Code != 0 && !o.Unavailable {
		want = w.n.failed(t, o.Reply.Code, c.planned)
	}
	got, surplus, f := w.p.Dialed(t.id, o, w.n.now)
	if got != nil && got.state == Ready {
		want = FeedbackPositive
		if w.n.db.View(t.host, w.n.now).Slow {
			want = FeedbackAlive
		}
	}
	if (got != nil) != o.Reply.IsZero() || f != want {
		w.fail("connection %d with reply %v: ready %t, feedback %d, want %d", t.id, o.Reply, got != nil, f, want)
	}
	if got == nil {
		if h := w.n.hosts[t.host]; o.Unavailable {
			h.probing = false
		}
		w.n.gone(t)
		return
	}
	if offered := w.n.db.View(t.host, w.n.now).Caps.Extensions; offered != o.Extensions {
		w.fail("host %v offers %#x, and is remembered to offer %#x", t.host, o.Extensions, offered)
	}
	w.n.isReady(t, o, proving)
	w.hungUp(surplus)
}

func (w *twins) finish() {
	t := w.pick(func(c *naiveConn) bool { return len(c.loads) > 0 })
	if t == nil {
		return
	}
	took, untried := time.Duration(1+w.r.IntN(80))*time.Millisecond, w.r.IntN(20) == 0
	entry, callout := t.loads[0].Entry, t.loads[0].Callout
	w.n.finished(t, took, endFor(untried))
	yields := !untried && t.state == Ready && w.n.yields(t)
	f := w.p.finished(w.p.conns[t.id], entry, took, endFor(untried), w.n.now)
	if f.Hangup != yields {
		w.fail("connection %d is hung up for the sake of others: %t, want %t", t.id, f.Hangup, yields)
	}
	if f.Hangup {
		w.n.gave[t.site] = true
		t.state = Draining
	}
	if due := t.mails == 1 || w.n.now >= t.positiveAt.Add(max(time.Second, t.rtt)); !untried && !callout && due {
		t.positiveAt = w.n.now
	} else if f.Feedback == FeedbackPositive {
		w.fail("connection %d gives positive feedback again after %v", t.id, w.n.now.Sub(t.positiveAt))
	}
}

func (w *twins) close() {
	t := w.pick(func(c *naiveConn) bool { return c.state == Draining || c.state == Ready && c.site.name > "s1" })
	if t == nil {
		return
	}
	for end := end(w.r.IntN(2)); len(t.loads) > 0; end = endUntried { // it may have broken under the first
		entry := t.loads[0].Entry
		w.n.finished(t, 0, end)
		w.p.finished(w.p.conns[t.id], entry, 0, end, w.n.now)
	}
	cl := mail.Closing{Why: mail.CloseReason(w.r.IntN(4)), Reply: mail.Reply{Code: 421}}
	if w.r.IntN(2) == 0 {
		cl.Reply.Code = 451
	}
	if t.state == Draining && w.r.IntN(4) > 0 {
		cl.Why = mail.CloseAsked
	}
	if c := w.p.conns[t.id]; c.Opening().Probe && cl.Why == mail.CloseAsked {
		cl.Proof = mail.Proof(w.r.IntN(4))
	}
	lost := (cl.Why == mail.CloseBusy || cl.Why == mail.CloseLost) && (t.limit == 0 || t.finished < t.limit)
	refused := lost && t.finished == 0 && !t.begun || cl.Why == mail.CloseIdle && t.finished == 0 && w.n.now < t.ready.Add(5*time.Second)
	want := feedbackNone
	if t.state == Ready {
		w.n.doneWith(t)
	}
	switch t.state = Draining; {
	case refused:
		want = w.n.failed(t, cl.Reply.Code, w.p.conns[t.id].planned)
	case lost:
		want = w.n.cut(t, cl.Reply.Code, w.p.conns[t.id].planned)
	}
	if got := w.p.Closed(t.id, cl, w.n.now); got != want {
		w.fail("connection %d ends, %v: feedback %d, want %d", t.id, cl.Why, got, want)
	}
	w.n.gone(t)
	if cl.Proof == mail.ProofPassed {
		w.n.proven(t.host)
	}
}

// settle is what a core does: entries are assigned where there is room, then those
// that were woken ask for connections.
func (w *twins) settle() {
	for turns := 0; turns < 1000; turns++ {
		for _, s := range w.s {
			w.assign(s)
		}
		for _, s := range w.s {
			if s.waits == WaitNone || turns == 0 && (s.waits == WaitWindow || s.waits == WaitShare || s.waits == WaitCallout) {
				w.reach(s)
			}
		}
		site := w.p.Woken()
		if site == nil {
			return
		}
		w.reach(w.s[slices.IndexFunc(w.s, func(s *wanting) bool { return s.Site == site })])
		w.p.PassOn(site)
	}
	w.fail("sites wake each other for ever")
}

func (w *twins) reach(s *wanting) {
	for s.entries > 0 && (s.Room() == 0 && s.connecting < s.entries || s.upgrades) {
		ask := Ask{Message: s.message, Used: w.n.uses(s.message), Window: s.window, Callout: s.asks()}
		want, upgrades, probes := w.n.open(s.Site, ask), s.upgrades, w.n.probes(s.Site)
		d := w.p.Open(s.Site, ask, w.n.now)
		delete(w.n.gave, s.Site)
		if upgrades && d.Kind == Waiting && d.wait == WaitNone && s.Room() > 0 {
			return // no better connection can be had
		}
		w.agree(s, d, want)
		switch d.Kind {
		case Waiting:
			if d.Evict != nil {
				w.n.conn(d.Evict.ID).state = Draining
			}
			s.suspended = w.n.suspended(s.Site)
			return
		case Exhausted:
			s.entries = 0
			return
		case Adopted:
			t := w.n.conn(d.Conn.ID)
			t.site, t.since, t.adopted, t.late, t.stalled = s.Site, w.n.now, true, false, false
			w.n.turn++
			t.turn = w.n.turn // it is used last here, too
			w.assign(s)       // before another site takes it
		case Dialing:
			if d.Evict != nil {
				w.n.conn(d.Evict.ID).state = Draining
			}
			w.n.dialed(d.Conn, s.message, slices.Contains(probes, d.Conn.host.key))
		}
	}
}

func (w *twins) agree(s *wanting, d Decision, want verdict) {
	right := d.Kind == want.kind
	switch {
	case !right:
	case d.Kind == Waiting:
		right = d.wait == want.wait && (d.Evict == nil) == (want.evict == 0) && (d.Evict == nil || d.Evict.ID == want.evict)
	case d.Kind == Adopted:
		right = d.Conn.ID == want.adopt
	case d.Kind == Exhausted:
		right = d.Until == want.until
	default:
		right = slices.Contains(want.hosts, d.Conn.host.key) && (d.Evict == nil) == (want.evict == 0) && (d.Evict == nil || d.Evict.ID == want.evict)
	}
	if !right {
		w.fail("%s is answered %+v, want %+v", s.name, d, want)
	}
}

func (w *twins) assign(s *wanting) {
	for ; s.entries > 0; s.entries-- {
		want, c := w.n.find(s.Site), w.p.find(s.Site)
		if want == nil || c == nil {
			if want != nil || c != nil {
				w.fail("%s: found %v, want %v", s.name, c, want)
			}
			return
		}
		if c.ID != want.id {
			w.fail("%s: found connection %d, want %d", s.name, c.ID, want.id)
			return
		}
		w.last++
		l := Load{Entry: w.last, Message: s.message, Cost: Cost(int64(w.r.IntN(100_000)), 1), Callout: s.asks()}
		if len(want.loads) == 0 {
			want.moved = w.n.now
		}
		first := len(want.loads) == 0
		want.loads = append(slices.Clone(want.loads), l)
		if first {
			w.n.begins(want)
		}
		if _, _, last := w.p.Assign(s.Site, l); last != (want.limit > 0 && want.finished+len(want.loads) >= want.limit) {
			w.fail("connection %d has carried %d of %d, told to be over: %t", c.ID, want.finished, want.limit, last)
		} else if last {
			want.state = Draining
		}
	}
}

// compare checks that both know the same, and that no site waits for what it could have.
func (w *twins) compare() {
	w.p.Check(w.sites())
	if len(w.n.conns) != len(w.p.conns) {
		w.fail("%d connections, want %d", len(w.p.conns), len(w.n.conns))
	}
	for _, c := range w.n.conns {
		if got := w.p.conns[c.id].doubt != doubtNone; got != c.doubtful() {
			w.fail("connection %d, %v with %d entries, is doubtful: %t, want %t", c.id, c.state, len(c.loads), got, c.doubtful())
		}
	}
	for _, s := range w.s {
		if got, want := s.Room(), w.n.room(s.Site); got != want {
			w.fail("%s has room for %d, want %d", s.name, got, want)
		}
		if s.entries == 0 || s.Room() > 0 || s.connecting >= s.entries {
			continue
		}
		v := w.n.open(s.Site, Ask{Message: s.message, Used: w.n.uses(s.message), Window: s.window, Callout: s.asks()})
		soon := s.waits == WaitStart                                                    // one of its own is about to be ready
		above := (s.waits == WaitSlot || s.waits == WaitPart) && w.n.free(s.group) == 0 // the limit was lowered
		switch {
		case v.kind == Dialing && !slices.ContainsFunc(v.hosts, s.later),
			v.kind == Adopted && !soon && !above && !s.later(w.n.conn(v.adopt).host),
			v.kind == Waiting && v.evict != 0 && !soon && !above && !slices.ContainsFunc(v.hosts, s.later):
			w.fail("%s waits for %v and could have: %+v", s.name, s.waits, v)
		}
	}
}

// Every answer of the pool is the one that the specification, written down without
// any cleverness, gives; and no site waits for what it could have.
func TestTwins(t *testing.T) {
	for seed := uint64(1); seed <= uint64(golden.Runs(1)); seed++ {
		r := prng.New(seed)
		w := newTwins(&r, nil)
		step := 0
		w.fail = func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, step %d: %s", seed, step, fmt.Sprintf(format, args...))
		}
		for ; step < 2000; step++ {
			w.step()
		}
	}
}

// FuzzTwins does the same with decisions from the input, as far as two hundred octets
// go: what is longer takes the longer, and shows hardly more.
func FuzzTwins(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("connections, hosts and sites of any kind"))
	for seed := range uint64(8) {
		r := prng.New(seed)
		input := make([]byte, 200)
		for i := range input {
			input[i] = byte(r.IntN(256))
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		d := bytesDice(input[:min(len(input), 200)])
		w := newTwins(&d, t.Fatalf)
		for len(d) > 0 {
			w.step()
		}
	})
}

// bytesDice is an input that is used up.
type bytesDice []byte

func (d *bytesDice) IntN(n int) int {
	v := 0
	for range 2 {
		if len(*d) > 0 {
			v = v<<8 | int((*d)[0])
			*d = (*d)[1:]
		}
		if n <= 256 {
			break
		}
	}
	return v % n
}

func endFor(untried bool) end {
	if untried {
		return endUntried
	}
	return endJudged
}
