package sched_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A lane decides as its twin does, which walks wherever the lane has an index
// (Options.ByDefinition). Every invariant holds after each step; whoever can be served is;
// and all recipients are delivered to once. The worlds are small, so that jobs overtake and
// block each other all the time.
func TestDecisionsAreThoseOfTheDefinition(t *testing.T) {
	preempted, worlds := 0, 3*golden.Runs(3)
	for seed := range uint64(worlds) {
		quick, twin := run(t, seed, false), run(t, seed, true)
		for i, line := range quick.log {
			if i >= len(twin.log) || line != twin.log[i] {
				t.Fatalf("seed %d, step %d: the lane does\n%s\nand its twin\n%s", seed, i, line, strings.Join(twin.log[min(i, len(twin.log)):min(i+1, len(twin.log))], ""))
			}
		}
		preempted += quick.preempted
	}
	if preempted < 3*worlds {
		t.Errorf("only %d jobs have overtaken another", preempted)
	}
}

// A world is two lanes, a few destinations of each, and their mail.
type world struct {
	t         *testing.T
	seed      uint64
	r         *rand.Rand
	now       mail.Instant
	exact     bool
	own       int // recipients that a message may have in core whatever its jobs hold
	lanes     [2]*sched.Lane
	sums      [2]sched.Load // of one lane each
	dests     []*outlet
	messages  []*letter // those that have not ended
	busy      []*sched.Entry
	last      mail.QueueID
	steps     int
	preempted int
	log       []string
}

// An outlet is a destination with a window.
type outlet struct {
	sched.Destination
	sum    sched.Load
	window int
	dead   bool
	limit  int // recipients of an entry
}

func (o *outlet) Refresh() int { return o.Room() }
func (o *outlet) Room() int {
	if o.dead {
		return 0
	}
	return o.window - o.Busy
}
func (o *outlet) Dead() bool { return o.dead }
func (o *outlet) Starved()   {}

// A letter is a message, and for each of its recipients where it goes.
type letter struct {
	sched.Message
	to        []*outlet
	read      int // recipients that have been read
	underWay  int
	withdrawn int // recipients that were taken back
	ended     bool
	delivered []bool
}

func run(t *testing.T, seed uint64, byDefinition bool) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0)), now: 1e18}
	w.exact, w.own = w.often(300), 1+w.r.IntN(4)
	o := sched.Options{Spares: &sched.Spares{}, Stale: &sched.Stale{}, Exact: w.exact, ByDefinition: byDefinition}
	if w.often(500) {
		o.LabelGap = 2 // hardly anything can be put between two others
	}
	scheduler := sched.Preemptive
	if w.often(200) {
		scheduler = sched.RoundRobin
	} else if w.often(150) {
		scheduler = sched.Runner
	}
	for i := range w.lanes {
		w.lanes[i] = &sched.Lane{}
		w.lanes[i].SetUp(fmt.Sprint("lane", i), noOwner{}, &w.sums[i], w.rules(), scheduler, o)
		for n := range 1 + w.r.IntN(12) {
			d := &outlet{window: 1 + w.r.IntN(3), limit: w.r.IntN(4)}
			d.Lane, d.Name, d.Outlet, d.Sum = w.lanes[i], fmt.Sprint("d", n), d, &d.sum
			d.Join()
			w.dests = append(w.dests, d)
		}
	}
	for range 120 {
		w.step()
	}
	w.drain()
	return w
}

func (w *world) rules() sched.Rules {
	r := w.r
	return sched.Rules{SlotCost: 1 + r.IntN(4), SlotLoan: r.IntN(5) - 1, SlotDiscount: 1 + r.IntN(99), MinimumSlots: r.IntN(3) - 1,
		RecipientPool: 1 + r.IntN(30), ExtraRecipients: 1 + r.IntN(20),
		Refill: sched.Refill{Limit: 1 + r.IntN(4), Delay: time.Duration(r.IntN(5)) * time.Second}}
}

// often draws something that is true so many times in a thousand.
func (w *world) often(permille int) bool { return w.r.IntN(1000) < permille }

// step does one thing that may happen, and what follows from it.
func (w *world) step() {
	if w.often(700) { // else two things happen at one instant
		w.now = w.now.Add(time.Duration(w.r.Int64N(int64(2 * time.Second))))
	}
	switch n := w.r.IntN(100); {
	case n < 30:
		w.admit()
	case n < 60:
		w.end()
	case n < 68:
		w.withWaiting(func(m *letter, e *sched.Entry) { w.moveTo(e, w.anyAlive()) })
	case n < 72:
		w.withWaiting(func(m *letter, e *sched.Entry) { w.withdraw(m) })
	case n < 76:
		w.withWaiting(func(m *letter, e *sched.Entry) {
			if len(e.Recipients) > 1 {
				e.Cut(1 + w.r.IntN(len(e.Recipients)-1))
			}
		})
	case n < 90:
		w.change(w.dests[w.r.IntN(len(w.dests))])
	case n < 93:
		w.lanes[w.r.IntN(2)].Configure(w.rules())
	}
	w.settle(1 + w.r.IntN(6))
}

// change gives a destination another window. Nothing may wait for one that is dead.
func (w *world) change(d *outlet) {
	d.window, d.dead = w.r.IntN(5), d != w.dests[0] && w.often(200)
	d.Touch()
	for e := d.Todo.Front(); d.dead && e != nil; e = d.Todo.Front() {
		w.moveTo(e, w.anyAlive())
	}
}

func (w *world) anyAlive() *outlet {
	if d := w.dests[w.r.IntN(len(w.dests))]; !d.dead {
		return d
	}
	return w.dests[0]
}

// settle reads what has been asked for, starts up to some deliveries and checks.
func (w *world) settle(most int) {
	for _, m := range slices.Clone(w.messages) {
		switch {
		case m.Reading && w.often(600):
			w.arrive(m)
		case !m.Reading && m.More && m.InCore == 0:
			w.ReadFor(&m.Message)
		}
	}
	for _, l := range w.lanes {
		for range most {
			if !w.start(l) {
				break
			}
		}
	}
	for _, l := range w.lanes {
		l.Refresh()
		if w.steps++; w.steps%9 == 0 {
			w.note("%s", dump(l))
		}
	}
	w.check()
}

// start starts one delivery of a lane, if there is one that may.
func (w *world) start(l *sched.Lane) bool {
	if !l.Ready() {
		return false
	}
	s := &sched.Selection{Lane: l, Now: w.now, Host: w}
	e := s.Next()
	for s.Paused.Pending() {
		at := s.Paused
		for _, m := range w.messages {
			if at.Of(&m.Message) {
				w.arrive(m)
			}
		}
		s = &sched.Selection{Lane: l, Now: w.now, Host: w}
		e = s.Resume(at)
	}
	if e == nil {
		w.t.Fatalf("seed %d: %s says that something may start, and nothing is selected", w.seed, l.Name)
	}
	d := e.Destination()
	if d.Outlet.Room() <= 0 {
		w.t.Fatalf("seed %d: %s:%s has no room for what is selected", w.seed, l.Name, d.Name)
	}
	l.Start(e)
	w.busy = append(w.busy, e)
	w.letter(e).underWay += len(e.Recipients)
	w.note("start %d %s:%s %v", e.Message.ID, l.Name, d.Name, indexes(e))
	return true
}

func indexes(e *sched.Entry) (list []uint32) {
	for _, r := range e.Recipients {
		list = append(list, r.Index)
	}
	return list
}

func (w *world) letter(e *sched.Entry) *letter { return e.Message.Owner.(*letter) }

// admit lets a message come in: mostly a small one.
func (w *world) admit() {
	w.last++
	m := &letter{}
	m.ID, m.Owner, m.Queued, m.Refilled, m.Own, m.Limit = w.last, m, w.now, w.now, w.own, w.own
	n := 1 + w.r.IntN(3)
	if w.often(300) {
		n = 1 + w.r.IntN(40)
	}
	for range n {
		m.to = append(m.to, w.dests[w.r.IntN(len(w.dests))])
	}
	m.delivered = make([]bool, n)
	w.messages = append(w.messages, m)
	w.take(m, min(n, 1+w.r.IntN(20)))
}

// take puts some of the recipients of a message into entries.
func (w *world) take(m *letter, n int) {
	m.SetMore(m.read+n < len(m.to), len(m.to)-m.read-n)
	m.Refilled = w.now
	w.hold(m, n)
	from := m.read
	m.read += n
	a := sched.Assignment{Message: &m.Message}
	for _, d := range []bool{true, false} { // those of one lane first
		for i := from; i < m.read; i++ {
			if to := m.to[i]; to.dead {
				m.to[i] = w.dests[0]
			}
			if to := m.to[i]; (to.Lane == w.lanes[0]) == d {
				a.Add(&to.Destination, mail.Recipient{Index: uint32(i)}, "", to.limit)
			}
		}
	}
	a.Done()
	m.AllRead()
}

func (w *world) hold(m *letter, n int) {
	m.Touch()
	m.InCore += n
}

// ReadFor asks for recipients of a message.
func (w *world) ReadFor(of *sched.Message) bool {
	m := of.Owner.(*letter)
	n := min(m.Limit-m.InCore, len(m.to)-m.read)
	if !m.More || n < 1 || m.Reading || m.ended {
		return false
	}
	m.Reading = true
	if !w.exact {
		m.Reserved = n
	}
	w.note("read %d %d", m.ID, n)
	return true
}

// arrive has them come.
func (w *world) arrive(m *letter) {
	n := m.Reserved
	if w.exact {
		n = max(min(m.Limit-m.InCore, len(m.to)-m.read), 1)
	}
	m.Reading, m.Reserved = false, 0
	if m.More && !m.ended {
		w.take(m, n)
	}
	w.conclude(m)
}

// Preempted is called when a message has overtaken another.
func (w *world) Preempted(l *sched.Lane, current, by mail.QueueID, level int) {
	w.preempted++
	w.note("%s: %d goes before %d on level %d", l.Name, by, current, level)
}

// end ends a delivery. At times the turn of some recipients has not come.
func (w *world) end() {
	if len(w.busy) == 0 {
		return
	}
	i := w.r.IntN(len(w.busy))
	e := w.busy[i]
	w.busy = slices.Delete(w.busy, i, i+1)
	m, served := w.letter(e), len(e.Recipients)
	if w.often(200) && !w.exact { // Postfix never does
		served = w.r.IntN(served + 1)
	}
	for _, r := range e.Recipients[:served] {
		if m.delivered[r.Index] {
			w.t.Fatalf("seed %d: recipient %d of %d is delivered to twice", w.seed, r.Index, m.ID)
		}
		m.delivered[r.Index] = true
	}
	m.underWay -= len(e.Recipients)
	switch untried := slices.Clone(e.Recipients[served:]); {
	case len(untried) == 0:
	case m.ended:
		m.withdrawn += len(untried)
	default:
		back := e.PutBack(untried)
		w.hold(m, len(untried))
		if e.Destination().Outlet.Dead() {
			w.moveTo(back, w.dests[0])
		}
	}
	w.finish(e)
	w.conclude(m)
}

func (w *world) finish(e *sched.Entry) {
	d := e.Destination()
	e.Leave()
	w.hold(w.letter(e), -len(e.Recipients))
	e.Release()
	d.Ended()
	e.Free()
}

// conclude ends a message of which nothing is left.
func (w *world) conclude(m *letter) {
	if m.Entries > 0 || m.More && !m.ended || m.Reading {
		return
	}
	delivered := 0
	for _, ok := range m.delivered {
		if ok {
			delivered++
		}
	}
	if delivered+m.withdrawn != len(m.to) {
		w.t.Fatalf("seed %d: message %d ends with %d of %d delivered to, and %d taken back", w.seed, m.ID, delivered, len(m.to), m.withdrawn)
	}
	w.messages = slices.DeleteFunc(w.messages, func(k *letter) bool { return k == m })
	m.Free()
}

// withWaiting does something with an entry that waits.
func (w *world) withWaiting(do func(*letter, *sched.Entry)) {
	var waiting []*sched.Entry
	for _, m := range w.messages {
		waiting = slices.AppendSeq(waiting, m.Waiting())
	}
	if len(waiting) > 0 {
		e := waiting[w.r.IntN(len(waiting))]
		do(w.letter(e), e)
	}
}

func (w *world) moveTo(e *sched.Entry, d *outlet) {
	if e.Destination() != &d.Destination {
		e.MoveTo(&d.Destination)
		w.finish(e)
	}
}

// withdraw takes back what of a message has not been started.
func (w *world) withdraw(m *letter) {
	if w.often(500) { // others leave with recipients unread, as held mail does
		m.EndRead()
	}
	m.ended = true
	m.withdrawn += len(m.to) - m.read
	for e := range m.Waiting() {
		m.withdrawn += len(e.Recipients)
		w.finish(e)
	}
	m.RetireIdle()
	w.conclude(m)
}

// drain delivers everything that is left.
func (w *world) drain() {
	for _, d := range w.dests {
		d.window, d.dead = 3, false
		d.Touch()
	}
	for n := 0; len(w.messages) > 0; n++ {
		if n == 10_000 {
			w.t.Fatalf("seed %d: %d messages never end", w.seed, len(w.messages))
		}
		w.end()
		w.settle(4)
		w.now = w.now.Add(time.Second)
	}
	for _, l := range w.lanes {
		if l.Listed() > 0 || l.Busy > 0 || l.Startable > 0 {
			w.t.Fatalf("seed %d: %s has %d jobs, %d busy and %d startable when all has ended", w.seed, l.Name, l.Listed(), l.Busy, l.Startable)
		}
	}
	for _, d := range w.dests {
		d.Part()
	}
}

func (w *world) check() {
	slots := make(map[*sched.Lane]int)
	for _, m := range w.messages {
		m.Check(m.underWay, slots)
	}
	for i, l := range w.lanes {
		l.Check()
		l.CheckSlots(slots[l])
		if w.sums[i] != l.Load {
			w.t.Fatalf("seed %d: %s has %+v, its transport %+v", w.seed, l.Name, l.Load, w.sums[i])
		}
	}
	for _, d := range w.dests {
		if d.sum != d.Load {
			w.t.Fatalf("seed %d: %s has %+v, its outlet %+v", w.seed, d.Name, d.Load, d.sum)
		}
	}
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func dump(l *sched.Lane) string {
	var b strings.Builder
	l.Dump(&b, sched.Dump{Name: func(id mail.QueueID) string { return fmt.Sprint(uint64(id)) }, Window: func(d *sched.Destination) string { return fmt.Sprint(d.Outlet.Room()) }})
	return b.String()
}
