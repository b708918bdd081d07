package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/internal/stock"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A world is one run of a scenario: the core, the model around it, and what is
// measured. It belongs to one goroutine.
type world struct {
	scenario *Scenario
	run      *Run
	core     *qmgr.Qmgr
	spool    spool
	sources  []*source
	nexthops map[string]*destination
	clients  map[string]*Client
	entered  uint64 // messages that the core was shown
	underway int    // deliveries, those of the core's own transports not counted

	receivers []*receiver
	sessions  map[qmgr.ConnID]*session
	listed    []*session // the same, in no order: for those who look at all
	// offline is since when the core holds our network to be down, 0 if it does
	// not; online when it came to believe that it is back.
	offline, online mail.Instant
	ordered         mail.Instant // when an operator gave the last order about a warm-up; 0: none yet

	start, now mail.Instant
	calendar   calendar
	answers    []todo // to be done at once, in order
	answering  int    // the next of them
	commit     commit

	watch    watchers
	trace    recording
	measure  measure
	sabotage sabotage

	// Memory that is used again: what a Step is given is the host's again when
	// it returns.
	putOff             mail.Delivery // being looked at
	requested, durable mail.Change   // being asked for, being answered
	noted              qmgr.Note
	recipients         []mail.Recipient
	routes             []mail.Route
	outcomes           []mail.Outcome
	cursors            []mail.Cursor
	spareAttempts      stock.Of[attempt]
	spareConnections   stock.Of[connection]
	spareReads         stock.Of[read]
	spareSearches      stock.Of[search]
	spareSessions      stock.Of[session]
	letter             letter // being sent, or answered
}

// epoch is when every run begins: some Thursday.
const epoch mail.Instant = 1767225600 * mail.Instant(time.Second)

func newWorld(s *Scenario, run *Run, seed uint64) (*world, error) {
	seeds := prng.New(seed)
	coreSeed := seeds.Uint64()
	core, err := qmgr.New(run.Core, coreSeed)
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", run.Name, err)
	}
	w := &world{
		scenario: s, run: run, core: core, start: epoch, now: epoch,
		spool:    spool{messages: make(map[mail.QueueID]*message)},
		nexthops: make(map[string]*destination), clients: make(map[string]*Client), sessions: make(map[qmgr.ConnID]*session),
	}
	w.trace.seed = coreSeed
	w.commit.rng, w.commit.reads = prng.New(seeds.Uint64()), prng.New(seeds.Uint64())
	w.sabotage = sabotage{kind: s.Sabotage}
	destinations := w.populate(w.sabotage.seed(seeds.Uint64()))
	for name, c := range run.Clients {
		w.clients[name] = &c
	}
	classes := make([]string, len(s.Arrivals))
	arrivals := prng.New(seeds.Uint64())
	for i := range s.Arrivals {
		classes[i] = s.Arrivals[i].Class
		from := newSource(&s.Arrivals[i], i, arrivals.Uint64(), destinations)
		from.unclassified = run.Unclassified
		w.sources = append(w.sources, from)
	}
	w.measure = newMeasure(classes, w.receivers, w.hasSessions(), s.hasFlows())
	if n := len(run.Core.Sources.Sources); n > 1 && n <= hostsDrawn {
		w.measure.series.from = n
	}
	w.watch = newWatchers(w)
	return w, nil
}

// client returns how a transport's connections behave.
func (w *world) client(transport string) *Client {
	c := w.clients[transport]
	if c == nil {
		standard := DefaultClient()
		c = &standard
		w.clients[transport] = c
	}
	return c
}

// play runs the world to its end.
func (w *world) play() {
	for _, s := range w.sources {
		if !slices.Contains(w.run.Without, s.cfg.Class) {
			s.begin(w)
		}
	}
	w.orders()
	step(w, qmgr.Wake{})
	limit := w.scenario.Duration
	if limit == 0 {
		limit = horizon
	}
	end := w.start.Add(limit)
	for !w.isOver() {
		switch {
		case w.answering < len(w.answers):
			w.answerNext()
		case !w.advance(end):
			w.watch.end(w)
			return
		}
	}
	w.watch.end(w)
}

// advance goes to what is due next, and reports whether there is anything before
// the end.
func (w *world) advance(end mail.Instant) bool {
	wake, waits := w.core.NextWake()
	at, scheduled := w.calendar.next()
	if scheduled && (!waits || at < wake) {
		if at > end {
			w.now = end
			return false
		}
		w.pass(at)
		w.calendar.pop().owner.happen(w)
		return true
	}
	if !waits || wake > end {
		if waits {
			w.now = end
		}
		return false
	}
	w.pass(max(wake, w.now))
	step(w, qmgr.Wake{})
	return true
}

// pass moves the clock.
func (w *world) pass(now mail.Instant) {
	if now > w.now {
		w.now = now
	}
}

// isOver reports whether the run has ended.
func (w *world) isOver() bool {
	left := w.spool.unsettled
	if w.scenario.Until == UntilFirstRound {
		left = w.spool.untried
	}
	if left > 0 || w.underway > 0 {
		return false
	}
	for _, s := range w.sources {
		if !s.exhausted() {
			return false
		}
	}
	return true
}

// step gives the core an event and takes its actions. It never calls itself: what
// must be begun or answered without delay waits until the event is dealt with.
//
// It is generic so that an event need not be allocated: the core does not keep
// it, and only a recording, which makes an Event of its own, lets it escape.
func step[E qmgr.Event](w *world, ev E) {
	takeEvent(&w.watch.print, w.now, ev)
	if w.trace.writer != nil {
		w.trace.writer.Event(w.now, ev)
	}
	actions := w.core.Step(w.now, ev)
	w.trace.actions(w.now, actions)
	if since := w.core.Offline(); since != w.offline {
		if since == 0 {
			w.online = w.now
		} else {
			for _, c := range w.watch.networks {
				c.offline(w.now)
			}
		}
		w.offline = since
	}
	for _, action := range actions {
		w.act(action)
	}
	w.watch.stepped(w)
}

// act begins to do what the core asks for.
func (w *world) act(action qmgr.Action) {
	w.watch.print.action(action)
	switch a := action.(type) {
	case qmgr.Route:
		w.soon(action)
	case qmgr.Deliver:
		w.deliver(action, &a)
	case qmgr.Change:
		w.requested = a.Change
		w.change(action, &w.requested)
	case qmgr.Report:
		m := w.spool.message(a.ID)
		for _, c := range w.watch.reports {
			c.report(w.now, m)
		}
		w.read(action)
	case qmgr.Fetch, qmgr.Open, qmgr.Read:
		w.read(action)
	case qmgr.Lookup:
		w.search(a)
	case qmgr.Resolve:
		w.findHosts(action, a)
	case qmgr.Dial:
		w.dial(&a)
	case qmgr.Send:
		w.send(&a)
	case qmgr.Hangup:
		w.hangup(&a)
	case qmgr.Note:
		w.noted = a
		for _, c := range w.watch.notes {
			c.note(w.now, &w.noted)
		}
	case qmgr.Selected:
	default:
		panic(fmt.Sprintf("an action that the simulator does not know: %T", action))
	}
}

// A todo is an action that must be answered, or something that must begin, without
// delay.
type todo struct {
	action qmgr.Action
	begin  beginner
}

// A beginner begins to do something without delay.
type beginner interface{ begin(w *world) }

// soon answers an action when what is happening now is dealt with.
func (w *world) soon(action qmgr.Action) { w.answers = append(w.answers, todo{action: action}) }

// answerNext handles the next todo.
func (w *world) answerNext() {
	next := w.answers[w.answering]
	w.answers[w.answering] = todo{}
	if w.answering++; w.answering == len(w.answers) {
		w.answers, w.answering = w.answers[:0], 0
	}
	if next.begin != nil {
		next.begin.begin(w)
		return
	}
	w.answer(next.action)
}

func (w *world) answer(action qmgr.Action) {
	switch a := action.(type) {
	case qmgr.Route:
		w.route(&a)
	case qmgr.Deliver:
		w.relay(&a)
	case qmgr.Resolve:
		w.resolve(&a)
	case qmgr.Change:
		w.durable = a.Change
		w.changed(&w.durable)
	case qmgr.Fetch:
		latest := mail.Never
		if a.Scan.Timed() {
			latest = w.now
		}
		found := w.spool.areas[a.Scan.Area()].find(a.From, latest, a.Max, w.cursors[:0])
		w.cursors = found.Cursors
		step(w, qmgr.Found{Scan: a.Scan, Found: found})
	case qmgr.Open:
		w.open(&a)
	case qmgr.Read:
		m := w.spool.message(a.ID)
		if m == nil {
			step(w, qmgr.Broken{ID: a.ID, Why: qmgr.TroubleGone})
			return
		}
		batch := m.batch(a.From, a.Max, w.recipients[:0])
		w.recipients = batch.Recipients
		step(w, qmgr.Recipients{ID: a.ID, Batch: batch})
	case qmgr.Report:
		if m := w.spool.message(a.ID); m != nil {
			w.spool.report(m)
		}
		step(w, qmgr.Reported(a))
	}
}

func (w *world) open(a *qmgr.Open) {
	m := w.spool.message(a.ID)
	if m == nil {
		step(w, qmgr.Broken{ID: a.ID, Why: qmgr.TroubleGone})
		return
	}
	batch := m.batch(0, a.Max, w.recipients[:0])
	w.recipients = batch.Recipients
	place := m.place
	place.Owes = m.owing > 0
	w.enter(m)
	step(w, qmgr.Opened{Envelope: m.envelope(), Place: place, Batch: batch})
}

func (w *world) route(a *qmgr.Route) {
	w.routes = w.routes[:0]
	m := w.spool.message(a.ID)
	for i := range a.Recipients {
		if m == nil { // it was lost; where it would have gone does not matter
			w.routes = append(w.routes, mail.Route{Reply: replySoft})
			continue
		}
		r := m.recipient(int(a.Recipients[i].Index))
		w.routes = append(w.routes, r.route)
		w.routes[i].NeedsLookup = w.needsLookup(r.to)
		for _, c := range w.watch.routeds {
			c.routed(w, m, a.Recipients[i].Index, r.to)
		}
	}
	step(w, qmgr.Routed{ID: a.ID, Routes: w.routes})
}

// enter notes that a message is shown to the core.
func (w *world) enter(m *message) {
	w.entered++
	m.entered, m.sent = w.entered, false
}

// accept takes a message in.
func (w *world) accept(s *source, first, recipients int) *message {
	m := w.spool.accept(s, first, recipients, w.now)
	m.number, m.ofSource = w.measure.arrived(m), s.made-1
	flow := m.flow()
	m.place.Bucket = flow.Bucket()
	for _, c := range w.watch.accepts {
		c.accepted(m)
	}
	w.sabotage.lose(w, m)
	return m
}

// connected counts the client's connections to a receiver, established or trying
// to be.
func (w *world) connected(r *receiver, more int) { w.measure.connected(w, r, more) }
