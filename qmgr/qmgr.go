package qmgr

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/callout"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/debts"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
	"github.com/posthaste-mta/posthaste/qmgr/texts"
	"github.com/posthaste-mta/posthaste/qmgr/timers"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A Qmgr is the queue manager: it decides what is delivered next and where,
// and what becomes of it. It belongs to one goroutine. See the package comment
// for the contract between it and its host.
type Qmgr struct {
	cfg    Config
	now    mail.Instant
	rng    prng.Source
	halt   bool
	counts Counts
	timers timers.Timers[timed]
	stocks stocks
	step

	incoming
	core
	delivering
	constraints
	connecting
}

// step is what a Step has come to so far.
type step struct {
	actions  []Action
	started  int        // of what Config.ActionsPerStep counts
	leftover bool       // something is left to do at once
	attended []*message // something has happened to them, and advance has not looked; nil where one has left
}

// incoming is how mail comes into core (package intake), and what clients ask about
// recipients (package callout).
type incoming struct {
	admission *intake.Admission
	room      intake.Room
	lookups   intake.Lookups
	desk      *callout.Desk
	warmups   warmup.Scan
}

// core is the messages in core, and what will be done with some that are not.
type core struct {
	messages map[mail.QueueID]*message
	flows    *flows.Registry
	serial   uint64 // of the message admitted last
	orders   *orders.Book
	debts    *debts.Book
	texts    texts.Store

	deadlines minheap.Heap[message, byDeadline] // messages in core whose deadlines have not passed
}

// constraints is what operators, receivers and the configuration demand of deliveries.
type constraints struct {
	shapes    *shape.Table
	shares    *fair.Rules
	sources   source.Fleet
	warmup    *warmup.Table
	spent     []warmup.Key // allowances that were used up and from which mail has to leave
	measured  *measure.Table
	suspended *suspend.Book
	rules     measure.Rules
	fed       bool // there is a HostFeed
}

// delivering is what is selected next (package sched), and what is under way.
type delivering struct {
	transports map[string]*transport
	ring       ilist.List[transport] // the one to serve next in front
	queues     int                   // destinations, all transports
	stale      sched.Stale
	selecting  sched.Selection
	paused     sched.Pause
	busy       map[EntryID]*delivery
	lastEntry  EntryID
	rerouted   rerouting
}

// connecting is the connections on which the core decides (package conns).
type connecting struct {
	conns    *conns.Pool
	db       *destdb.DB
	sites    map[*conns.Site]*queue
	dialling map[ConnID]dialling
	wanting  ilist.List[queue] // have entries and no connection with room
	detoured ilist.List[queue] // main queues for which, or for whose detours, something has changed
	offline  mail.Instant      // since when our own network is held to be down; 0: it is not
	recovery intake.Recovery
}

// New returns a queue manager that knows nothing yet: its first Step asks the
// spool for its mail. The seed decides the jitter of retries; the same
// configuration, seed and events give the same actions.
//
// cfg is completed WithDefaults and validated.
func New(cfg Config, seed uint64) (*Qmgr, error) {
	cfg, shapes, err := cfg.completed()
	if err != nil {
		return nil, fmt.Errorf("queue manager: %w", err)
	}
	db := destdb.New(cfg.Hosts, seed)
	q := &Qmgr{cfg: cfg, rng: prng.New(seed)}
	q.incoming = incoming{admission: intake.NewAdmission(), lookups: intake.NewLookups(), desk: callout.New(cfg.desk())}
	q.core = core{messages: make(map[mail.QueueID]*message),
		orders: orders.New(), debts: debts.New()}
	q.delivering = delivering{transports: make(map[string]*transport), busy: make(map[EntryID]*delivery)}
	q.constraints = constraints{shapes: shapes, shares: &cfg.Shares}
	q.connecting = connecting{conns: conns.New(cfg.pool(), db, seed), db: db, sites: make(map[*conns.Site]*queue), dialling: make(map[ConnID]dialling)}
	q.warmup, q.measured, q.suspended = warmup.New(cfg.Warmup, 0), measure.New(), suspend.New(TransportRetry, TransportError)
	q.flows = flows.NewRegistry(cfg.TenantFlows, sched.Options{Spares: &q.stocks.Spares, Stale: &q.stale, Exact: cfg.AsPostfix})
	q.lookups.Configure(cfg.lookups())
	q.admission.Configure(q.shares)
	q.configureSources(&q.cfg.Sources)
	if len(q.cfg.Sources.Pools) > 0 { // an allowance may have been raised since the last stop
		q.warmups.Want(warmup.Key{})
	}
	q.boundRecipients()
	return q, nil
}

// Step takes one event and returns what the host must do about it. The slice is
// valid until the next Step. now must not decrease from one Step to the next.
func (q *Qmgr) Step(now mail.Instant, ev Event) []Action {
	assert.That(now >= q.now, "time went back from %v to %v", q.now, now)
	q.now = now
	clear(q.actions)
	q.actions, q.started, q.leftover = q.actions[:0], 0, false
	q.runDeadlines(false)
	q.runTimers()
	if !q.desk.Idle() {
		q.endVerifications()
		q.endCallouts()
	}
	q.advanceAll()
	q.handle(ev)
	q.advanceAll()
	q.noticeNetwork()
	q.scanWarmups()
	q.scanResumed()
	q.settleDebts()
	if q.lookups.Parked() > 0 {
		q.unpark()
	}
	q.admit()
	q.lapse()
	if !q.lookups.Idle() {
		q.startLookups()
		q.advanceAll()
	}
	if !q.desk.Idle() {
		q.startCallouts()
	}
	q.schedule()
	q.stale.Refresh()
	q.flows.Reuse()
	if !q.desk.Idle() && !q.halt && q.desk.Next() != nil {
		q.leftover = true // for others failed at once
	}
	return q.actions
}

func (q *Qmgr) handle(ev Event) {
	switch ev := ev.(type) {
	case Arrived:
		q.arrived(ev.Arrival)
	case Found:
		q.found(ev)
	case Opened:
		q.opened(ev)
	case Broken:
		q.broken(ev)
	case Recipients:
		q.recipientsRead(ev)
	case Routed:
		q.routed(ev)
	case LookedUp:
		q.lookedUp(ev)
	case Verify:
		q.verify(ev)
	case Delivered:
		q.delivered(ev)
	case Hosts:
		q.hosts(ev)
	case Dialed:
		q.dialed(ev)
	case Learned:
		q.learned(ev)
	case Heard:
		q.heard(ev)
	case Closed:
		q.closed(ev)
	case Changed:
		q.changed(ev.Changed)
	case Reported:
		q.reported(ev)
	case Hold:
		q.orderAll(ev.IDs, orders.Hold, ev.Reason)
	case Release:
		q.orderAll(ev.IDs, orders.Release, "")
	case Drop:
		q.orderAll(ev.IDs, orders.Drop, "")
	case Settle:
		if len(ev.Outcomes) == 0 {
			q.reportOn(ev.ID)
		} else {
			q.settleOne(ev.ID, orders.Settling{Outcomes: ev.Outcomes, Last: ev.Last})
		}
	case Split:
		q.splitOne(ev)
	case SetRoute:
		q.setRoute(ev)
	case Retry:
		q.orderAll(ev.IDs, orders.Retry, "")
	case RetryAll:
		q.retryTriedSince(0)
	case AgentReady:
		q.agentReady(ev.Transport)
	case AgentUnavailable:
		q.agentUnavailable(ev)
	case SelectTransport:
		q.selectTransport(ev.Pending)
	case AdjustWarmup:
		q.adjustWarmup(ev.Order)
	case Suspend:
		q.suspend(ev)
	case Resume:
		q.tellSuspensions(q.suspended.Revoke(suspend.Key(ev.Scope, ev.Value), measure.Order{By: ev.By, Reason: ev.Reason}, q.now))
	case Configure:
		q.configure(ev.Config)
	case Rules:
		q.ruled(ev.Names)
	case Reroute:
		q.reroute()
	case Halt:
		q.halt = true
		q.hangupAll(q.conns.Halt()) // each ends as soon as what is under way there has ended
		q.abandonVerifications()
	case Kept:
		q.admission.AwaitHeld(ev.Due)
	case Wake:
	default:
		assert.Unreachable("unknown event")
	}
}

// NextWake returns the instant at which the host must send a Wake, unless it
// sends another event before. False means that nothing waits for time to pass.
func (q *Qmgr) NextWake() (mail.Instant, bool) {
	if q.leftover {
		return q.now, true
	}
	wake := q.timers.Next()
	if at, ok := q.conns.NextDue(); ok {
		wake = min(wake, at)
	}
	wake = min(wake, q.measured.Next(), q.suspended.Next(), q.sources.Next(), q.desk.Deadline(), q.desk.Wake(), q.recoveryWake())
	if !q.halt {
		wake = min(wake, q.deadlineWake(), q.warmupWake(), q.resumeWake(), q.lookups.Wake(q.room.Scarce()), q.debtsWake(), q.admission.Wake(q.room.For(ScanDeferred, q.admission.Shared())))
	}
	return wake, wake != mail.Never
}

func (q *Qmgr) emit(a Action) { q.actions = append(q.actions, a) }

// mayStart counts something that the core starts by itself, and reports
// whether this Step may still do it.
func (q *Qmgr) mayStart() bool {
	if q.started >= q.cfg.ActionsPerStep {
		q.leftover = true
		return false
	}
	q.started++
	return true
}

// transport returns the transport of a name, and makes it if need be. A new
// one comes to the front of the turn, as in Postfix.
func (q *Qmgr) transport(name string) *transport {
	if t, ok := q.transports[name]; ok {
		return t
	}
	t := newTransport(name, q.cfg.transport(name), q)
	q.transports[name] = t
	q.ring.PushFront(&t.inRing, t)
	q.boundRecipients()
	return t
}

func (q *Qmgr) configure(cfg Config) {
	cfg, shapes, err := cfg.completed()
	if err != nil {
		return // the host has validated it; a bad one must not end the run
	}
	reshaped := len(cfg.Destinations) > 0 || len(q.cfg.Destinations) > 0
	if !cfg.Warmup.Equal(q.cfg.Warmup) || !cfg.Sources.Equal(q.cfg.Sources) {
		q.warmups.Want(warmup.Key{})
	}
	q.reconsiderSuspended(&cfg)
	q.cfg, q.shapes, q.shares = cfg, shapes, &cfg.Shares
	q.flows.TenantFlows = cfg.TenantFlows
	q.db.Configure(cfg.Hosts)
	q.conns.Configure(cfg.pool())
	q.desk.Configure(cfg.desk())
	q.warmup.Configure(cfg.Warmup, q.now)
	q.lookups.Configure(cfg.lookups())
	q.admission.Configure(q.shares)
	q.configureSources(&q.cfg.Sources)
	for t := range q.ring.All() {
		if now := cfg.transport(t.Name); now != t.cfg || reshaped {
			q.configureTransport(t, now)
			if t.cfg.TransportRateDelay <= 0 {
				q.stopDelay(t)
			}
		}
		if t.group != nil {
			q.reconsider(t)
		}
		t.setShares(q.shares)
		q.restore(t) // what made it dead may have been its configuration, and to find out takes one attempt
	}
	q.fit()
	q.boundRecipients()
	for _, k := range q.measured.All() { // of transports and sources that were not configured
		if q.measuredQueue(k.Key) == nil {
			q.recallKey(k.Key)
		}
	}
}

// configureTransport puts new limits in force.
func (q *Qmgr) configureTransport(t *transport, cfg TransportConfig) {
	cfg.Scheduler = t.cfg.Scheduler
	if (cfg.Agents == AgentsConnections) != (t.group != nil) {
		cfg.Agents = t.cfg.Agents // deliveries are under way in the one way or the other
	}
	t.cfg, t.limits = cfg, cfg.limits()
	t.Configure()
	t.rate.Configure(cfg.TransportRate, q.now)
	q.paceTransport(t)
	if t.group != nil {
		t.group.Configure(cfg.group())
	}
	for d := range t.destinations() {
		q.reshape(d, d.site.Best())
		if d.site != nil {
			q.conns.SetLimits(d.site, q.hostLimits(d))
		}
		q.freeIfIdle(d) // what went to it may count against no limit any more
	}
}

// forgotten is the text of a note about a destination that is not dead any more
// because there are so many that this had to be forgotten.
const forgotten = "forgotten, for there are too many dead destinations"

// freeIfIdle removes a queue that has nothing left to remember.
func (q *Qmgr) freeIfIdle(d *queue) {
	if d.Waiting > 0 || d.Busy > 0 || d.inUse() || q.remembers(d) || q.remembersMeasures(d) {
		return
	}
	switch d.window.State() {
	case window.Suspended:
		return
	case window.Dead:
		// The list of dead destinations is bounded, too.
		if q.queues <= 2*q.cfg.RecipientLimit {
			return
		}
		q.timers.Stop(&d.timer)
		if !d.resting(q.now) { // the table of measures has that
			q.emit(Note{Kind: NoteAlive, Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.String(), Security: d.security, Text: forgotten})
		}
	}
	if d.site != nil {
		q.closeSite(d)
	}
	if d.main != nil {
		q.leaveTurns(d)
	}
	q.timers.Stop(&d.spreading.pause)
	if d.measures != nil {
		q.timers.Stop(&d.measures.timer)
	}
	d.Free()
	d.transport.queues.Drop(d.key(), &d.inOrder, d)
	q.queues--
	q.stocks.giveQueue(d)
}
