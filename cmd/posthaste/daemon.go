package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/spool"
)

// A daemon is the whole program at work: everything that newDaemon opens, run
// uses and closes. A test or a demonstration starts one as well as the serve
// command does.
type daemon struct {
	log     *slog.Logger
	tracer  driver.Tracer // nil: the scheduler is not recorded
	machine machine
	spool   *spool.Spool
	driver  *driver.Driver
	inbound *inbound.Server
	admin   *admin.Server
	policy  *policy
	agents  *agents

	listeners []inbound.Listener
	adminLn   net.Listener

	current *config.Config // in force
	started *config.Config // of which a reload leaves in force what needs a restart
	begun   fitted         // started, made as small as the machine is
	settled transports

	mu     sync.Mutex
	closed bool
}

// newDaemon opens the spool and the listeners. Listeners that were handed over
// (systemd) take the place of those in the configuration. Nothing runs yet; if
// it fails, nothing stays open.
func newDaemon(cfg *config.Config, log *slog.Logger, handedOver []net.Listener) (*daemon, error) {
	return newDaemonOn(machine{}, cfg, log, handedOver, nil)
}

// newDaemonOn does what newDaemon does within the limits of a machine, and has a
// tracer told of everything that the scheduler is told and does; nil: nobody is.
func newDaemonOn(m machine, cfg *config.Config, log *slog.Logger, handedOver []net.Listener, tracer driver.Tracer) (_ *daemon, err error) {
	d := &daemon{log: log, tracer: tracer, machine: m, started: cfg, current: cfg, settled: make(transports), policy: &policy{}, agents: &agents{}}
	d.settled.add(cfg)
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := secure(cfg, log); err != nil {
		return nil, fmt.Errorf("queue_directory: %w", err)
	}
	fit, err := m.fit(cfg, nil, listenersOf(cfg, handedOver), log)
	if err != nil {
		return nil, err
	}
	d.begun = fit
	spooling := fit.Spool()
	spooling.Logger, spooling.TableFiles = log, fit.tableFiles
	spooling.Fatal = func(error) { m.end(int(exitIO)) } // the spool has logged why
	if d.spool, err = spool.Open(spooling); err != nil {
		return nil, err
	}
	if err := d.listen(cfg, handedOver); err != nil {
		return nil, err
	}
	if err := d.connect(fit); err != nil {
		return nil, err
	}
	return d, nil
}

// listenersOf returns how many sockets the daemon listens on, roughly.
func listenersOf(cfg *config.Config, handedOver []net.Listener) int {
	return max(len(handedOver), len(cfg.Listen)) + 2 // administration and submission
}

// listen opens the sockets. Those of the administration and of local submission
// are in the queue directory unless the configuration names another place.
func (d *daemon) listen(cfg *config.Config, handedOver []net.Listener) error {
	early := cfg.EarlyTalkers()
	for _, ln := range handedOver {
		d.listeners = append(d.listeners, inbound.Listener{Listener: ln, EarlyTalkers: early})
	}
	if len(handedOver) == 0 {
		for _, addr := range cfg.Listen {
			ln, err := net.Listen("tcp", addr.String())
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			d.listeners = append(d.listeners, inbound.Listener{Listener: ln, EarlyTalkers: early})
		}
	}
	if path := cfg.SubmissionSocketPath(); path != "" {
		ln, err := listenUnix(path, "submission_group", cfg.SubmissionGroup)
		if err != nil {
			return fmt.Errorf("submission_socket: %w", err)
		}
		d.listeners = append(d.listeners, inbound.Listener{Listener: ln})
	}
	if path := cfg.AdminSocketPath(); path != "" {
		ln, err := listenUnix(path, "admin_group", cfg.AdminGroup)
		if err != nil {
			return fmt.Errorf("admin_socket: %w", err)
		}
		d.adminLn = ln
	}
	return nil
}

// connect makes the parts and joins them.
func (d *daemon) connect(cfg fitted) (err error) {
	routing, err := d.newRouting(cfg)
	if err != nil {
		return err
	}
	d.install(routing)
	reports := cfg.Report()
	reports.Logger = d.log
	reporter, err := report.New(reports, reportSpool{d.spool})
	if err != nil {
		return err
	}
	d.driver, err = driver.New(d.driverConfig(cfg.Config), driver.Ports{
		Spool: d.spool, Router: router{d.agents}, Finder: router{d.agents}, Reporter: reporter,
		Connector: d.agents, Hosts: d.spool,
		Agent: func(string) driver.Agent { return d.agents },
	})
	if err != nil {
		return err
	}
	in := cfg.Inbound()
	in.Logger, in.Verifier = d.log, verifier{d.agents, d.driver}
	d.inbound, err = inbound.New(in, intake{d.spool, d.driver.Arrived}, d.policy, d.driver)
	if err != nil {
		return err
	}
	d.admin, err = admin.New(admin.Config{Version: version(), Logger: d.log, Connections: cfg.adminConnections}, adminStore{d.spool}, adminControl{d.driver, d.spool}, d.driver)
	return err
}

// A routing is everything that decides where mail goes and who may send it.
type routing struct {
	policy *inbound.RelayPolicy
	agents *agentSet
}

// newRouting makes all of it, or nothing.
func (d *daemon) newRouting(cfg fitted) (*routing, error) {
	table, err := route.NewTable(cfg.Route())
	if err != nil {
		return nil, err
	}
	relay, err := inbound.NewRelayPolicy(cfg.RelayPolicy())
	if err != nil {
		return nil, err
	}
	look := cfg.Resolve()
	look.Logger = d.log
	look.Slow = cfg.slowLookups
	resolver, err := resolve.New(look)
	if err != nil {
		return nil, err
	}
	send := cfg.Outbound()
	send.Log, send.Seed = d.log, uint64(time.Now().UnixNano())
	client, err := outbound.New(send, resolver, bodies{d.spool}, nil)
	if err != nil {
		resolver.Close()
		return nil, err
	}
	router := resolve.NewRouter(table, resolver, cfg.Router())
	return &routing{relay, newAgentSet(cfg.Config, client, resolver, router)}, nil
}

// install puts a routing into force.
func (d *daemon) install(r *routing) {
	d.agents.set(r.agents)
	d.policy.p.Store(r.policy)
}

func (d *daemon) driverConfig(cfg *config.Config) driver.Config {
	c := cfg.Driver()
	c.Log, c.Trace = d.log, d.tracer
	return c
}

// addresses are those of the SMTP listeners that are on TCP.
func (d *daemon) addresses() []string {
	var list []string
	for _, ln := range d.listeners {
		if tcp, ok := ln.Addr().(*net.TCPAddr); ok {
			list = append(list, tcp.String())
		}
	}
	return list
}

// run takes mail in and delivers it until ctx ends, then stops in the order in
// which mail flows: no more comes in, no more orders are taken, what is under way
// ends, the spool closes.
func (d *daemon) run(ctx context.Context) error {
	defer d.close()
	intake, stopIntake := context.WithCancel(ctx)
	defer stopIntake()
	delivery, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivery()
	administration, stopAdministration := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAdministration()
	var delivered, administered sync.WaitGroup
	var failure error // of the delivery
	delivered.Go(func() {
		defer d.machine.atPanic()
		failure = d.driver.Run(delivery)
	})
	delivered.Go(func() {
		defer d.machine.atPanic()
		d.tellOfHeld(delivery)
	})
	if d.adminLn != nil {
		administered.Go(func() {
			if err := d.admin.Serve(administration, d.adminLn); err != nil { // mail goes on without it
				d.log.Error("the administration cannot be reached any more", "error", err)
			}
		})
	}
	err := d.inbound.Serve(intake, d.listeners...)
	stopIntake()
	d.admin.Stopping()
	stopDelivery()
	delivered.Wait()
	stopAdministration() // until now it has told how far the stop is
	administered.Wait()
	return errors.Join(err, failure)
}

// tellOfHeld has senders told of recipients of held mail who were given up before the
// start, and of whom no report was made then. The core finds other mail that owes a
// report when it tries it; held mail it does not look at. Mail with the null sender
// owes nobody a report.
func (d *daemon) tellOfHeld(ctx context.Context) {
	const page = 1000
	for from, more := (mail.Cursor{}), true; more; {
		found, err := d.spool.Fetch(ctx, mail.AreaHold, from, mail.Never, page)
		if err != nil {
			if ctx.Err() == nil {
				d.log.Error("held mail that owes a report is told of when it is released", "error", err)
			}
			return
		}
		for _, at := range found.Cursors {
			if m, err := d.spool.Lookup(ctx, at.ID); err == nil && m.Place.Owes && m.Envelope.Sender != "" {
				d.driver.Settle(at.ID, nil, false)
			}
		}
		from, more = found.Next, found.More
	}
}

// reload puts a new configuration into force, as far as that is possible
// without a restart, and tells which changes are not, those of earlier reloads
// among them. On an error nothing has changed.
func (d *daemon) reload(cfg *config.Config) (restart []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("the daemon has stopped")
	}
	for _, c := range config.Diff(d.started, cfg) {
		if c.Restart {
			restart = append(restart, c.Key)
		}
	}
	cfg, kept := d.settled.keep(cfg)
	for _, key := range kept {
		if !slices.Contains(restart, key) { // the transport has come about by a reload
			restart = append(restart, key)
		}
	}
	fit, err := d.machine.fit(cfg, &d.begun, len(d.listeners)+1, d.log)
	if err != nil {
		return nil, err
	}
	routing, err := d.newRouting(fit)
	if err != nil {
		return nil, err
	}
	core := d.driverConfig(fit.Config)
	if err := core.WithDefaults().Validate(); err != nil {
		routing.agents.close()
		return nil, err
	}
	d.settled.add(cfg)
	d.install(routing) // first, for the core tries transports again that were not configured
	if err := d.driver.Configure(core); err != nil {
		return nil, err
	}
	if had := len(d.current.Routes); had > 0 && len(cfg.Routes) == 0 { // more often an editor's slip than a wish
		d.log.Warn("the configuration has no routes any more", "routes", 0, "had", had)
	}
	d.current = cfg
	return restart, nil
}

// close closes whatever is open.
func (d *daemon) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, ln := range d.listeners {
		ln.Close()
	}
	if d.adminLn != nil {
		d.adminLn.Close()
	}
	d.agents.close()
	if d.spool != nil {
		if err := d.spool.Close(); err != nil {
			d.log.Error("the spool could not be closed", "error", err)
		}
	}
}

// policy is the relay policy, which a reload replaces.
type policy struct {
	p atomic.Pointer[inbound.RelayPolicy]
}

func (p *policy) Recipient(client mail.Client, sender, recipient mail.Address) mail.Reply {
	return p.p.Load().Recipient(client, sender, recipient)
}
