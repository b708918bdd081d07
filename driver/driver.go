package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/replies"
)

// Config configures the production host.
type Config struct {
	// Qmgr configures the core.
	Qmgr qmgr.Config
	// Seed is the core's random seed; 0 takes one from the clock.
	Seed uint64
	// Grace is the time for which a stop waits for deliveries that are under way before it
	// cuts them off; default 30 s. Negative means no wait.
	Grace time.Duration
	// FlowDelay is the delay before a new message is accepted while delivery has
	// fallen behind (in_flow_delay); default 1 s. Negative means no delay.
	FlowDelay time.Duration
	// Readers is the maximum number of concurrent reads of the spool; default 4.
	Readers int
	// Reporters bounds the messages about which reports are made at once; default
	// 8. What they commit at the same time, and what intake commits meanwhile,
	// shares a sync of the disk; the bound is what keeps a flood of reports from
	// taking the processors from other mail.
	Reporters int
	// Log gets one line for each recipient's outcome and one for each note; nil
	// discards them.
	Log *slog.Logger
	// Since is the last instant at which the program is known to have run before; 0
	// if none is.
	Since mail.Instant
	// Trace receives everything that passes between the core and the driver; nil
	// disables tracing.
	Trace Tracer
}

// WithDefaults returns the configuration with every zero field replaced by its
// default.
func (c Config) WithDefaults() Config {
	c.Qmgr = c.Qmgr.WithDefaults()
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.FlowDelay == 0 {
		c.FlowDelay = time.Second
	}
	if c.Readers == 0 {
		c.Readers = 4
	}
	if c.Reporters == 0 {
		c.Reporters = 8
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Trace == nil {
		c.Trace = noTracer{}
	}
	return c
}

// Validate returns all errors of a configuration that has its defaults.
func (c Config) Validate() error {
	var errs []error
	if c.Readers < 1 {
		errs = append(errs, fmt.Errorf("readers is %d, must be at least 1", c.Readers))
	}
	if c.Reporters < 1 {
		errs = append(errs, fmt.Errorf("reporters is %d, must be at least 1", c.Reporters))
	}
	return errors.Join(append(errs, c.Qmgr.Validate())...)
}

// Ports are the driver's connections to the world.
type Ports struct {
	Spool  Spool
	Router Router
	// Finder may be nil if no route ever needs a lookup.
	Finder Finder
	// Reporter may be nil if no report is ever owed: if messages have no
	// sender, and qmgr.Config.DoubleBounce is not DoubleBounceReport.
	Reporter Reporter
	// Connector may be nil if no transport has qmgr.AgentsConnections.
	Connector Connector
	// Hosts may be nil: then host records are lost at a stop.
	Hosts HostStore
	// Notebook may be nil: then a process that is killed repeats more deliveries.
	Notebook Notebook
	// Replies returns what replies mean, and the rules on them, which may be another Book
	// after a reload; nil: there are neither.
	Replies func() *replies.Book
	// Agent returns the agent of a transport, nil if none is available now. Then
	// the transport is dead for a while, and its mail is deferred.
	Agent func(transport string) Agent
}

// A Driver is the production host of the core: one goroutine owns the core, bounded
// pools carry out its actions. Its methods may be called from any goroutine.
type Driver struct {
	ports     Ports
	log       *slog.Logger
	inbox     *inbox
	committer *committer
	counters  counters
	journal   journal
	reads     chan readTask
	reports   chan mail.QueueID
	hosts     hostSaves
	orders    orderSaves
	behind    atomic.Bool
	flowDelay atomic.Int64
	grace     time.Duration
	lifetime  time.Duration // the longest for which a suspension has mail put off
	readers   int
	reporters int
	atRest    chan struct{} // closed when Run has returned: the core has no owner any more
	deadline  atomic.Int64  // of Verify, as configured in the core

	// The fields below belong to the owner's goroutine.
	core       *qmgr.Qmgr
	trace      Tracer
	clock      clock
	deliveries *pool[qmgr.Deliver]
	lookups    *pool[qmgr.Lookup]
	resolves   *pool[qmgr.Resolve]
	dials      *pool[dialTask]
	links      map[qmgr.ConnID]*link
	routes     []qmgr.Route
	readQueue  []readTask
	owedQueue  []mail.QueueID
	draining   bool
	underway   int // outstanding answers from deliveries, connections, changes and reports
	deliverCtx context.Context
	dialCtx    context.Context
	workCtx    context.Context
	leaping    bool // the log knows that the clock has leapt

	verifying map[qmgr.VerificationID]chan<- mail.Reply
	asked     qmgr.VerificationID // the last
}

// New returns a driver that has not started.
func New(cfg Config, ports Ports) (*Driver, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("driver: %w", err)
	}
	core, err := qmgr.New(cfg.Qmgr, cfg.Seed)
	if err != nil {
		return nil, err
	}
	d := &Driver{ports: ports, log: cfg.Log, inbox: newInbox(), committer: newCommitter(), core: core, trace: cfg.Trace,
		grace: cfg.Grace, readers: cfg.Readers, reporters: cfg.Reporters,
		reads: make(chan readTask), reports: make(chan mail.QueueID), hosts: newHostSaves(core.NewHostFeed(), cfg.Qmgr.Hosts.HostLimit+cfg.Qmgr.Warmup.RecordLimit()+measure.Limit), atRest: make(chan struct{})}
	d.orders = orderSaves{wakeup: make(chan struct{}, 1), last: make(chan struct{}), atRest: make(chan struct{})}
	d.flowDelay.Store(int64(cfg.FlowDelay))
	d.deadline.Store(int64(cfg.Qmgr.VerifyDeadline))
	d.deliveries = newPool(d.deliver)
	d.lookups = newPool(d.lookUp)
	d.resolves = newPool(d.resolve)
	d.dials = newPool(d.dial)
	d.links = make(map[qmgr.ConnID]*link)
	d.verifying = make(map[qmgr.VerificationID]chan<- mail.Reply)
	backoff := cfg.Qmgr.Backoff
	d.clock.shortest, d.clock.longest = backoff.MinimalBackoffTime, max(backoff.MinimalBackoffTime, backoff.MaximalBackoffTime)
	d.lifetime = max(backoff.MaximalQueueLifetime, 24*time.Hour)
	d.clock.resume(cfg.Since, backoff.MaximalQueueLifetime)
	if err := d.trace.Begin(d.clock.now(), cfg.Seed, cfg.Qmgr); err != nil {
		return nil, fmt.Errorf("driver: %w", err)
	}
	return d, nil
}

// Run drives the core until ctx ends, or after Drain until there is nothing left to
// try. Then it lets what is under way finish within the grace period, and returns
// when everything known is durable, or after a further 10 s if the disk does not
// accept it. It can be called once.
func (d *Driver) Run(ctx context.Context) error {
	defer close(d.atRest)
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	deliver, cutOff := context.WithCancel(work)
	defer cutOff()
	dial, stopDialing := context.WithCancel(work)
	defer stopDialing()
	d.deliverCtx, d.dialCtx, d.workCtx = deliver, dial, work
	var wg sync.WaitGroup
	wg.Go(func() { d.commit(work) })
	for range d.readers {
		wg.Go(func() { d.read(work) })
	}
	for range d.reporters {
		wg.Go(func() { d.report(work) })
	}
	wg.Go(func() { d.saveHosts(work) })
	wg.Go(func() { d.saveOrders(work) })
	clean := false
	defer func() { d.trace.End(clean) }() // also if the core panics

	if book := d.book(); d.ports.Replies != nil {
		d.step(qmgr.Rules{Names: book.RuleNames()})
	}
	d.loadHosts(work, d.hosts.limit)
	far := d.farFrom(d.clock.now())
	wg.Go(func() { d.retryFarDue(work, far) })
	d.own(ctx.Done())
	d.logUnderway(slog.LevelInfo, "stopping")
	stopDialing()
	d.step(qmgr.Halt{})
	d.finish(cutOff)
	d.saveLastHosts(work)
	d.saveLastOrders(work)
	stopWork()
	d.deliveries.stop()
	d.lookups.stop()
	d.resolves.stop()
	d.dials.stop()
	wg.Wait()
	clean = true
	return nil
}

// own is the owner's loop, until stop is closed.
func (d *Driver) own(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	var spare []item
	d.step(qmgr.Wake{})
	for {
		items := d.inbox.take(spare)
		spare = items
		d.stepAll(items)
		d.handOut()
		if d.draining && d.core.Idle() {
			return
		}
		if len(items) > 0 {
			select {
			case <-stop:
				return
			case <-save.C:
				d.changedHosts(save)
				d.changedOrders(nil)
			default:
			}
			continue
		}
		timer.Reset(d.untilWake())
		select {
		case <-d.inbox.wakeup:
		case <-timer.C:
			d.step(qmgr.Wake{})
		case <-save.C:
			d.changedHosts(save)
			d.changedOrders(nil)
		case d.readsOut() <- d.nextRead():
			d.readQueue = d.readQueue[1:]
		case d.reportsOut() <- d.nextReport():
			d.owedQueue = d.owedQueue[1:]
		case <-stop:
			return
		}
	}
}

// settleTime is the time for which a stop waits after the grace period for deliveries that
// were cut off to end, and for the disk. A disk that accepts no more writes must
// not keep the process from ending: what was not written is done again after the
// next start.
const settleTime = 10 * time.Second

// finish processes answers until nothing is under way. When the grace period is
// over, deliveries are cut off; their recipients are tried again after the next
// start.
func (d *Driver) finish(cutOff context.CancelFunc) {
	patience := time.NewTimer(max(d.grace, 0))
	defer patience.Stop()
	for cut := false; d.underway > 0; {
		d.handOut()
		select {
		case <-d.inbox.wakeup:
			d.stepAll(d.inbox.take(nil))
		case d.reportsOut() <- d.nextReport():
			d.owedQueue = d.owedQueue[1:]
		case <-patience.C:
			if cut {
				d.logUnderway(slog.LevelError, "stopping with operations still under way")
				return
			}
			d.logUnderway(slog.LevelWarn, "cutting off deliveries")
			cutOff()
			cut = true
			patience.Reset(settleTime)
		}
	}
}

// logUnderway logs the progress of a stop: underway counts deliveries, as the status
// does, and answers counts all that the core waits for, including connections, the
// spool and reports.
func (d *Driver) logUnderway(level slog.Level, text string) {
	d.log.LogAttrs(context.Background(), level, text, slog.Int("underway", d.core.View(0).Busy), slog.Int("answers", d.underway))
}

func (d *Driver) stepAll(items []item) {
	for _, it := range items {
		if it.question != nil {
			it.question.ask(d)
			continue
		}
		if it.ends {
			d.underway--
		}
		if it.link != nil {
			d.links[it.link.id] = it.link
		}
		d.step(it.event)
		if closed, is := it.event.(qmgr.Closed); is {
			delete(d.links, closed.Conn)
		}
	}
}

// step gives the core one event and starts the actions that it returns. Routes are
// answered immediately, since that needs no more than memory.
func (d *Driver) step(ev qmgr.Event) {
	d.turn(ev)
	for len(d.routes) > 0 {
		r := d.routes[0]
		d.routes = d.routes[1:]
		d.turn(qmgr.Routed{ID: r.ID, Routes: d.ports.Router.Route(r.Sender, r.TLS, r.Recipients)})
	}
	d.routes = d.routes[:0]
	d.behind.Store(d.core.Behind())
}

func (d *Driver) turn(ev qmgr.Event) {
	now := d.clock.now()
	if leaping := d.clock.leaping(); leaping != d.leaping {
		d.leaping = leaping
		d.logLeap(now)
	}
	ev = d.clock.date(ev)
	d.trace.Event(now, ev)
	actions := d.core.Step(now, ev)
	d.trace.Actions(now, actions)
	if d.hosts.feed.OrdersChanged() {
		d.changedOrders(nil) // before the mail that is put off for one is (orderSaves.await)
	}
	for _, a := range actions {
		d.perform(a)
	}
}

func (d *Driver) perform(a qmgr.Action) {
	switch a := a.(type) {
	case qmgr.Deliver:
		d.underway++
		d.deliveries.start(a)
	case qmgr.Send:
		d.send(a)
	case qmgr.Hangup:
		d.links[a.Conn].conn.Hangup()
	case qmgr.Dial:
		d.underway++
		d.dials.start(dialTask{action: a, ctx: d.dialCtx})
	case qmgr.Resolve:
		d.resolves.start(a)
	case qmgr.Change:
		d.underway++
		d.committer.add(a.Change)
	case qmgr.Report:
		d.underway++
		d.owedQueue = append(d.owedQueue, a.ID)
	case qmgr.Route:
		d.routes = append(d.routes, a)
	case qmgr.Lookup:
		d.lookups.start(a)
	case qmgr.Verified:
		d.verified(a)
	case qmgr.Fetch, qmgr.Open, qmgr.Read:
		d.readQueue = append(d.readQueue, readTask{action: a, now: d.clock.last, ahead: d.clock.ahead})
	case qmgr.Feedback:
		d.logFeedback(&a)
	case qmgr.Note:
		d.counters.notes[a.Kind].Add(1)
		d.logNote(a)
	}
}

func (d *Driver) untilWake() time.Duration {
	wake, ok := d.core.NextWake()
	if !ok {
		return time.Hour
	}
	return max(wake.Sub(d.clock.now()), 0)
}
