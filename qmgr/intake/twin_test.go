package intake

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/share"
)

// Whatever is looked up for whom, and however long that takes, it is the turn of the same
// lookup as by the rules written down one by one, without lists and counters; every
// invariant holds after each step; whoever waits is served once, in the order in which he
// came to wait; and when all have been answered, nothing is left.
func TestTurnsAreThoseOfTheRules(t *testing.T) {
	worlds := 5 * uint64(golden.Runs(2))
	seen := make(map[string]int)
	for seed := range worlds {
		w := newLookupWorld(t, seed)
		for w.steps = range w.most {
			w.step()
			w.compare()
		}
		w.settle()
		for what, n := range w.seen {
			seen[what] += n
		}
	}
	for _, what := range []string{"turn of a silent name", "turn of a network", "turn of new mail", "turn of retries", "no turn", "slow", "abandoned", "quietened",
		"parked", "returned", "taken stalled", "withdrawn", "disowned", "answered late", "two jobs"} {
		if seen[what] < int(worlds)/10 {
			t.Errorf("%q was seen %d times only", what, seen[what])
		}
	}
}

// A lookupWorld is a Lookups, those who wait for it, and its twin.
type lookupWorld struct {
	t       *testing.T
	seed    uint64
	steps   int
	most    int // of them
	rng     *rand.Rand
	now     mail.Instant
	s       Lookups
	n       naiveLookups
	last    mail.QueueID
	inCore  []*asker
	asked   []*naiveQuestion
	absent  []*asker // parked
	late    []LookupID
	waiting int  // recipients that wait
	patient bool // name servers take their time
	seen    map[string]int
}

// An asker is a message.
type asker struct {
	sched.Message
	routing Routing
	from    Origin
	jobs    []*naiveJob // of the twin, in order
}

// naiveLookups is the twin: the lookups, and nothing that follows from them.
type naiveLookups struct {
	limits    Limits
	known     []*naiveLookup // not begun, in no order, and begun ones in that order
	silent    []*naiveLookup // quiet and not begun, in order
	lines     [lines][]*asker
	turn      Line
	networks  []string // with questions in line, in the order of their turn
	abandoned int
}

type naiveLookup struct {
	Key
	real      *Lookup // begun
	begun     mail.Instant
	slow      bool
	quiet     bool
	owner     *asker
	network   string
	retry     bool
	jobs      []*naiveJob
	questions []*naiveQuestion
	parked    int
}

type naiveJob struct {
	m      *asker
	l      *naiveLookup
	length int
}

type naiveQuestion struct {
	Question
	network string
	l       *naiveLookup
}

func newLookupWorld(t *testing.T, seed uint64) *lookupWorld {
	w := &lookupWorld{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 4)), now: 1_000_000_000, s: NewLookups(), seen: make(map[string]int)}
	if w.most, w.patient = 200, seed%3 == 0; w.patient {
		w.most = 400
	}
	w.configure()
	return w
}

func (w *lookupWorld) configure() {
	w.n.limits = Limits{Lookups: 1 + w.rng.IntN(3), Message: 1 + w.rng.IntN(2), Scale: w.rng.IntN(2), Clients: 1 + w.rng.IntN(2), Network: 1}
	if w.patient {
		w.n.limits.Lookups, w.n.limits.Message = 1, 9
	} else if w.rng.IntN(2) == 0 {
		w.n.limits.Lookups, w.n.limits.Network = 4+w.rng.IntN(6), 2
	}
	w.s.Configure(w.n.limits)
}

func (w *lookupWorld) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, step %d: %s", w.seed, w.steps, fmt.Sprintf(format, args...))
}

// Of the twin: what follows from its lookups.

func (n *naiveLookups) count(is func(*naiveLookup) bool) (c int) {
	for _, l := range n.known {
		if is(l) {
			c++
		}
	}
	return c
}

func (n *naiveLookups) young() int {
	return n.count(func(l *naiveLookup) bool { return l.real != nil && !l.slow })
}
func (n *naiveLookups) slow() int { return n.count(func(l *naiveLookup) bool { return l.slow }) }

func (n *naiveLookups) stalled() (c int) {
	for _, l := range n.known {
		if l.slow || l.quiet {
			c += len(l.jobs)
		}
	}
	return c
}

// firstWaiting returns the lookup that a message has waited for longest, in line; nil if
// there is none.
func (m *asker) firstWaiting() *naiveLookup {
	for _, j := range m.jobs {
		if j.l.real == nil && !j.l.quiet {
			return j.l
		}
	}
	return nil
}

func (w *lookupWorld) firstOf(network string) *naiveLookup {
	for _, q := range w.asked {
		if q.network == network && q.l.real == nil && !q.l.quiet {
			return q.l
		}
	}
	return nil
}

// refresh takes those out of line who wait for nothing there any more.
func (w *lookupWorld) refresh() {
	for i := range w.n.lines {
		w.n.lines[i] = slices.DeleteFunc(w.n.lines[i], func(m *asker) bool { return m.firstWaiting() == nil })
	}
	w.n.networks = slices.DeleteFunc(w.n.networks, func(c string) bool { return w.firstOf(c) == nil })
	w.n.known = slices.DeleteFunc(w.n.known, func(l *naiveLookup) bool {
		return l.real == nil && len(l.jobs)+len(l.questions)+l.parked == 0
	})
	w.n.silent = slices.DeleteFunc(w.n.silent, func(l *naiveLookup) bool { return !slices.Contains(w.n.known, l) })
}

// next returns the lookup whose turn it is, and on whose account.
func (w *lookupWorld) next() (l *naiveLookup, network string, m *asker) {
	n := &w.n
	most := n.limits.Lookups
	half, slowHalf := max(most/2, 1), 10*most/2
	if n.young() >= most {
		return nil, "", nil
	}
	busy := n.count(func(l *naiveLookup) bool { return l.real != nil })
	silent := n.count(func(l *naiveLookup) bool { return l.real != nil && l.quiet })
	silentYoung := n.count(func(l *naiveLookup) bool { return l.real != nil && l.quiet && !l.slow })
	if len(n.silent) > 0 && silentYoung < half && silent < slowHalf {
		return n.silent[0], "", nil
	}
	clients := n.count(func(l *naiveLookup) bool { return l.network != "" && !l.slow })
	if n.count(func(l *naiveLookup) bool { return l.network != "" && l.slow }) < slowHalf && clients < min(n.limits.Clients, half) {
		for _, c := range n.networks {
			has := n.count(func(l *naiveLookup) bool { return l.network == c && !l.slow })
			if slow := n.count(func(l *naiveLookup) bool { return l.network == c && l.slow }); has < n.limits.Network && slow < 10*n.limits.Network {
				return w.firstOf(c), c, nil
			}
		}
	}
	free := max(most-busy, 0)
	for i := range lines {
		line := (n.turn + i) % lines
		retrying := n.count(func(l *naiveLookup) bool { return l.retry && !l.slow })
		if line == LineRetries && !share.Allowed(retrying, n.limits.Message, n.limits.Scale, free) {
			continue
		}
		for _, m := range n.lines[line] {
			if share.Allowed(n.count(func(l *naiveLookup) bool { return l.owner == m }), n.limits.Message, n.limits.Scale, free) {
				return m.firstWaiting(), "", m
			}
		}
	}
	return nil, "", nil
}

// compare finds the turn both ways, and checks what is counted.
func (w *lookupWorld) compare() {
	w.t.Helper()
	w.s.Check(w.routings(), func(id mail.QueueID) bool {
		return slices.ContainsFunc(w.inCore, func(m *asker) bool { return m.ID == id })
	})
	got, ok := w.s.Next()
	l, network, m := w.next()
	switch {
	case ok != (l != nil):
		w.fatal("there is a turn: %t, want %t", ok, !ok)
	case ok && (got.lookup.Key != l.Key || (got.network != nil) != (network != "") || (got.routing != nil) != (m != nil) || m != nil && got.routing != &m.routing):
		w.fatal("it is the turn of %v (%+v), want %v of %q", got.lookup.Key, got, l.Key, network)
	}
	begun := w.n.count(func(l *naiveLookup) bool { return l.real != nil })
	busy, waiting, messages := w.s.Count()
	if busy != begun || waiting != len(w.n.known)-begun || messages != len(w.n.lines[0])+len(w.n.lines[1]) || w.s.Stalled() != w.n.stalled() || w.s.Parked() != len(w.absent) {
		w.fatal("%d lookups are under way, %d wait, of %d messages, %d jobs are stalled, %d parked; want %d, %d, %d, %d, %d", busy, waiting, messages,
			w.s.Stalled(), w.s.Parked(), begun, len(w.n.known)-begun, len(w.n.lines[0])+len(w.n.lines[1]), w.n.stalled(), len(w.absent))
	}
	sum := 0
	for _, m := range w.inCore {
		sum += m.Unbound
	}
	if sum != w.waiting {
		w.fatal("%d recipients wait, want %d", sum, w.waiting)
	}
}

func (w *lookupWorld) routings() iter.Seq2[*sched.Message, *Routing] {
	return func(yield func(*sched.Message, *Routing) bool) {
		for _, m := range w.inCore {
			if !yield(&m.Message, &m.routing) {
				return
			}
		}
	}
}

func (w *lookupWorld) step() {
	switch n := w.rng.IntN(40); {
	case n < 9:
		w.add()
	case n < 12:
		w.ask()
	case n < 24:
		w.begin()
	case n < 26:
		w.now = w.now.Add(time.Duration(w.rng.IntN(80)) * time.Millisecond)
	case n < 27 && w.patient && w.rng.IntN(6) > 0:
		w.now = w.now.Add(100 * time.Millisecond)
		w.age(1000)
	case n < 27:
		w.now = w.now.Add([]time.Duration{time.Second, 2 * time.Second, 2 * time.Second, time.Minute, time.Hour}[w.rng.IntN(5)])
	case n < 31:
		w.age(w.rng.IntN(100))
	case n < 34:
		if !w.patient || w.rng.IntN(8) == 0 {
			w.answer()
		}
	case n < 35 && len(w.inCore) > 0:
		w.leave(w.inCore[w.rng.IntN(len(w.inCore))])
	case n < 36 && len(w.asked) > 0:
		q := w.asked[w.rng.IntN(len(w.asked))]
		w.s.WithdrawQuestion(&q.Question)
		w.withdrawQuestion(q)
	case n < 38 && w.s.Stalled() > 0:
		w.makeWay()
	case n < 39:
		w.returned()
	case w.rng.IntN(5) == 0:
		w.configure()
	}
	w.refresh()
}

// key is what is looked up: one of a few names in two zones, some of them for two logins, or of many.
func (w *lookupWorld) key() Key {
	if w.rng.IntN(2) == 0 {
		k := Key{Transport: "smtp", Nexthop: fmt.Sprintf("%d.a%d.test", w.rng.IntN(4), w.rng.IntN(2))}
		if k.Nexthop[0] == '3' {
			k.Nexthop, k.Credential = "2"+k.Nexthop[1:], "mia"
		}
		return k
	}
	return Key{Transport: "smtp", Nexthop: fmt.Sprintf("x.%d.test", w.rng.IntN(100))}
}

// need returns the lookup of a key.
func (w *lookupWorld) need(key Key, quiet bool) *naiveLookup {
	for _, l := range w.n.known {
		if l.Key == key {
			return l
		}
	}
	l := &naiveLookup{Key: key, quiet: quiet}
	w.n.known = append(w.n.known, l)
	if quiet {
		w.n.silent = append(w.n.silent, l)
	}
	return l
}

func (w *lookupWorld) add() {
	if len(w.inCore) == 0 || w.rng.IntN(2) == 0 {
		w.last++
		m := &asker{from: []Origin{FromIncoming, FromDeferred, FromFlush, FromRetry}[w.rng.IntN(4)]}
		m.ID = w.last
		w.inCore = append(w.inCore, m)
	}
	m := w.inCore[len(w.inCore)-1-w.rng.IntN(min(len(w.inCore), 3))]
	for range 1 + w.rng.IntN(4) {
		key := w.key()
		l := w.need(key, m.from != FromRetry && w.s.silent.is(key.Nexthop, w.now))
		w.s.Add(&m.routing, &m.Message, m.from, mail.Recipient{}, key, w.now)
		w.waiting++
		if len(l.jobs) > 0 && l.jobs[len(l.jobs)-1].m == m {
			l.jobs[len(l.jobs)-1].length++
			continue
		}
		if slices.ContainsFunc(l.jobs, func(j *naiveJob) bool { return j.m == m }) {
			w.seen["two jobs"]++
		}
		inLine := m.firstWaiting() != nil
		j := &naiveJob{m: m, l: l, length: 1}
		l.jobs, m.jobs = append(l.jobs, j), append(m.jobs, j)
		if !inLine && m.firstWaiting() != nil {
			w.n.lines[m.from.Line()] = append(w.n.lines[m.from.Line()], m)
		}
	}
}

func (w *lookupWorld) ask() {
	q := &naiveQuestion{network: fmt.Sprintf("192.0.%d.1", w.rng.IntN(3))}
	key := w.key()
	q.l = w.need(key, w.s.silent.is(key.Nexthop, w.now))
	w.s.Ask(&q.Question, netip.MustParseAddr(q.network), key, w.now)
	q.l.questions = append(q.l.questions, q)
	w.asked = append(w.asked, q)
	if w.firstOf(q.network) != nil && !slices.Contains(w.n.networks, q.network) {
		w.n.networks = append(w.n.networks, q.network)
	}
}

func (w *lookupWorld) begin() {
	turn, ok := w.s.Next()
	l, network, m := w.next()
	if !ok {
		w.seen["no turn"]++
		return
	}
	switch {
	case network != "":
		w.seen["turn of a network"]++
		l.network = network
		w.n.networks = append(slices.DeleteFunc(w.n.networks, func(c string) bool { return c == network }), network)
	case m != nil:
		w.seen[[]string{"turn of new mail", "turn of retries"}[m.from.Line()]]++
		l.owner, l.retry = m, m.from.Line() == LineRetries
		w.n.turn = 1 - m.from.Line()
	default:
		w.seen["turn of a silent name"]++
		w.n.silent = w.n.silent[1:]
	}
	l.real, l.begun = w.s.Begin(turn, w.now), w.now
	forID := mail.QueueID(0)
	if m != nil {
		forID = m.ID
	}
	if l.real.Key != l.Key || l.real.For() != forID || l.real.ID() == 0 {
		w.fatal("lookup %d of %v begins for %v, want that of %v for %v", l.real.ID(), l.real.Key, l.real.For(), l.Key, forID)
	}
	w.n.known = append(slices.DeleteFunc(w.n.known, func(o *naiveLookup) bool { return o == l }), l)
}

// age ages both.
func (w *lookupWorld) age(scarce int) {
	w.refresh()
	for {
		want := w.naiveAge(scarce)
		w.refresh()
		got := w.s.Age(w.now, scarce)
		if want == nil && got == nil {
			return
		}
		if want == nil || got != want.real {
			w.fatal("%v would be given up, want %v", got, want)
		}
		w.seen["abandoned"]++
		w.late = append(w.late, got.ID())
		w.n.abandoned++
		w.end(want, w.s.Abandon(got).Reply)
		w.refresh()
	}
}

func (w *lookupWorld) naiveAge(scarce int) *naiveLookup {
	n := &w.n
	most := 10 * n.limits.Lookups
	for _, l := range n.known {
		if l.real == nil || l.slow || w.now < l.begun.Add(50*time.Millisecond) {
			continue
		}
		if n.slow() < most {
			l.slow = true
			w.seen["slow"]++
			continue
		}
		i := slices.IndexFunc(n.known, func(l *naiveLookup) bool { return l.slow })
		if oldest := n.known[i]; w.now >= oldest.begun.Add(2*time.Second) && n.abandoned < most {
			return oldest
		}
		for range 64 {
			if n.young() < n.limits.Lookups || scarce <= n.stalled() || len(n.lines[0])+len(n.lines[1]) == 0 {
				break
			}
			w.seen["quietened"]++
			l := append(slices.Clone(n.lines[LineNew]), n.lines[LineRetries]...)[0].firstWaiting()
			l.quiet = true
			n.silent = append(n.silent, l)
			w.refresh()
		}
		return nil
	}
	return nil
}

// answer answers some lookup, or one that was given up.
func (w *lookupWorld) answer() {
	reply := []mail.Reply{{}, {Code: 451}, {Code: 451}, {Code: 550}}[w.rng.IntN(4)]
	if len(w.late) > 0 && w.rng.IntN(2) == 0 {
		i := w.rng.IntN(len(w.late))
		if l, known := w.s.Answered(w.late[i], reply, w.now); l != nil || !known {
			w.fatal("the late answer is that to lookup %v, known %t", l, known)
		}
		w.late = slices.Delete(w.late, i, i+1)
		w.n.abandoned--
		w.seen["answered late"]++
		return
	}
	busy := slices.DeleteFunc(slices.Clone(w.n.known), func(l *naiveLookup) bool { return l.real == nil })
	if len(busy) == 0 {
		if _, known := w.s.Answered(LookupID(1e6), reply, w.now); known {
			w.fatal("what was not looked up is answered")
		}
		return
	}
	l := busy[w.rng.IntN(len(busy))]
	if got, known := w.s.Answered(l.real.ID(), reply, w.now); got != l.real || !known {
		w.fatal("the answer is that to lookup %v, known %t", got, known)
	}
	w.end(l, reply)
}

// end ends a lookup, and has all go on that waited for it, in order.
func (w *lookupWorld) end(l *naiveLookup, reply mail.Reply) {
	w.s.End(l.real, reply, w.now)
	w.n.known = slices.DeleteFunc(w.n.known, func(o *naiveLookup) bool { return o == l })
	for len(l.questions) > 0 {
		q := l.questions[0]
		if got := w.s.NextQuestion(l.real); got != &q.Question || got.Lookup() != nil {
			w.fatal("another question about %s goes on", l.Nexthop)
		}
		w.withdrawQuestion(q)
	}
	for len(l.jobs) > 0 {
		j := l.jobs[0]
		w.took(j, w.s.NextJob(l.real))
	}
	if w.s.NextQuestion(l.real) != nil || w.s.NextJob(l.real) != nil {
		w.fatal("a waiter goes on that has not waited for %s", l.Nexthop)
	}
}

// took takes a job out of the twin, which the real one has handed out.
func (w *lookupWorld) took(j *naiveJob, got *Job) {
	if got == nil || got.Message() != &j.m.Message || len(got.Recipients) != j.length || got.Lookup().Key != j.l.Key {
		w.fatal("a job of %v is taken, want %d recipients of %v", got, j.length, j.m.ID)
	}
	w.forget(j)
}

func (w *lookupWorld) forget(j *naiveJob) {
	w.waiting -= j.length
	same := func(o *naiveJob) bool { return o == j }
	j.l.jobs, j.m.jobs = slices.DeleteFunc(j.l.jobs, same), slices.DeleteFunc(j.m.jobs, same)
}

func (w *lookupWorld) withdrawQuestion(q *naiveQuestion) {
	same := func(o *naiveQuestion) bool { return o == q }
	q.l.questions, w.asked = slices.DeleteFunc(q.l.questions, same), slices.DeleteFunc(w.asked, same)
}

// leave takes a message out of core.
func (w *lookupWorld) leave(m *asker) {
	if len(m.jobs) > 0 {
		w.seen["withdrawn"]++
		n := 0
		for len(m.jobs) > 0 {
			n += m.jobs[0].length
			w.forget(m.jobs[0])
		}
		if got := w.s.Withdraw(&m.routing); got != n {
			w.fatal("%d recipients are withdrawn, want %d", got, n)
		}
	} else {
		w.seen["disowned"]++
		m.routing.Disown()
	}
	w.gone(m)
}

func (w *lookupWorld) gone(m *asker) {
	for _, l := range w.n.known {
		if l.owner == m {
			l.owner = nil
			if l.real.For() != 0 {
				w.fatal("the lookup of %s is for %v, which is gone", l.Nexthop, l.real.For())
			}
		}
	}
	w.inCore = slices.DeleteFunc(w.inCore, func(o *asker) bool { return o == m })
}

// makeWay parks a message that is stalled, or takes the stalled part of it.
func (w *lookupWorld) makeWay() {
	real := w.s.RotateStalled()
	i := slices.IndexFunc(w.inCore, func(m *asker) bool { return &m.Message == real.Message() })
	m := w.inCore[i]
	stalled := slices.DeleteFunc(slices.Clone(m.jobs), func(j *naiveJob) bool { return !j.l.slow && !j.l.quiet })
	if len(stalled) == 0 || m.routing.MayPark() != (len(stalled) == len(m.jobs)) {
		w.fatal("message %v may be parked: %t; %d of %d jobs are stalled", m.ID, m.routing.MayPark(), len(stalled), len(m.jobs))
	}
	if !m.routing.MayPark() || w.rng.IntN(3) == 0 {
		w.seen["taken stalled"]++
		for j := range w.s.TakeStalled(&m.routing) {
			w.took(stalled[0], j)
			stalled = stalled[1:]
		}
		if len(stalled) > 0 {
			w.fatal("%d jobs are stalled still", len(stalled))
		}
		return
	}
	n := 0
	for _, j := range stalled {
		n += j.length
		j.l.parked++
		w.forget(j)
	}
	w.seen["parked"]++
	if got := w.s.Park(&m.routing, m.from); got != n || !w.s.IsParked(m.ID) {
		w.fatal("%d recipients are parked, want %d", got, n)
	}
	m.routing.Disown()
	w.gone(m)
	w.absent = append(w.absent, m)
}

// returned has a parked message come back.
func (w *lookupWorld) returned() bool {
	for line := range lines {
		if !w.s.Returning(line) {
			continue
		}
		id, from := w.s.Return(line)
		i := slices.IndexFunc(w.absent, func(m *asker) bool { return m.ID == id })
		if i < 0 || from != w.absent[i].from || from.Line() != line || w.s.IsParked(id) {
			w.fatal("message %v of origin %d comes back in line %d", id, from, line)
		}
		w.absent = slices.Delete(w.absent, i, i+1)
		w.seen["returned"]++
		return true
	}
	return false
}

// settle answers everything.
func (w *lookupWorld) settle() {
	for range 10_000 {
		w.begin()
		w.refresh()
		w.answer()
		for w.returned() {
		}
		w.refresh()
		w.compare()
		if len(w.n.known)+len(w.late) == 0 {
			break
		}
	}
	s := &w.s
	if len(s.known)+len(s.busy)+len(s.abandoned)+s.young.Len()+s.slow.Len()+s.retrying+s.silent.busy+s.silent.young+s.Parked()+s.Stalled()+s.clients.Busy+s.clients.Slow != 0 || w.waiting != 0 {
		w.fatal("all have been answered, and left are %+v", s)
	}
	for _, m := range w.inCore {
		if m.routing.Len() != 0 || m.Unbound != 0 {
			w.fatal("message %v waits for %d recipients", m.ID, m.routing.Len())
		}
	}
}
