// Package daemon is the composition root: it makes every part of the daemon from the
// configuration, joins the parts by adapters, runs them, and replaces what a reload
// changes.
//
// # Procedure
//
// New opens the spool and the listeners and makes the parts (daemon.go) with limits
// that the machine has room for (package machine). Each port is declared by the package
// that needs it and filled in ports.go, where alone both ends are known. A reload makes
// new agents, which take over from the old ones when their deliveries have ended
// (agents.go). Serve is Run with signals (signals.go).
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/daemon/machine"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/tokens"
	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/milter"
	"github.com/posthaste-mta/posthaste/mtasts"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/outbound/credential"
	"github.com/posthaste-mta/posthaste/pipe"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/replies"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/spool"
	"github.com/posthaste-mta/posthaste/tlsrpt/courier"
	"github.com/posthaste-mta/posthaste/verp"
)

// A Daemon is the whole program at work: everything that New opens, run
// uses and closes. A test or a demonstration starts one as well as the serve
// command does.
type Daemon struct {
	log           *slog.Logger
	options       Options
	spool         *spool.Spool
	driver        *driver.Driver
	inbound       *inbound.Server
	flusher       *inbound.Flusher
	admin         *admin.Server
	policy        *policy
	agents        *agents
	sts           *stsFinder
	tlsReports    *tlsReports
	feedback      *desk
	quotas        *inbound.Quotas
	certificates  certificates
	certification *certification
	signer        *signer
	milters       milterSet
	credentials   *credential.Table // by which connections authenticate, nil: none; under mu
	replies       replyBook
	edits         atomic.Pointer[inbound.Edits]
	verp          atomic.Pointer[verp.Rules]
	bounces       atomic.Pointer[report.VERP]

	intake  intakeSockets // of SMTP
	local   net.Listener  // submission_socket; nil: none
	drop    *maildrop     // nil: none
	adminLn net.Listener
	remote  []net.Listener // of the administration on the network
	tokens  atomic.Pointer[tokens.Set]

	live       *live.Sampler
	events     *event.Hub // of log
	wiretap    wiretap.Hub
	level      *logLevel
	monitor    monitor
	monitorLns []net.Listener // metrics_listen
	counters   struct {       // of what a reload replaces
		outbound outbound.Counters
		resolve  resolve.Counters
	}

	current *config.Config                 // in force; under mu, as is intake
	load    func() (*config.Config, error) // reads the file again; nil: there is none; under mu
	started *config.Config                 // of which a reload leaves in force what needs a restart
	begun   machine.Fitted                 // started, made as small as the machine is
	settled transports

	reloading sync.Mutex // held during a reload of the file

	mu     sync.Mutex
	closed bool
}

// Options are the arguments of a daemon besides its configuration.
type Options struct {
	Log        *slog.Logger
	Level      *slog.LevelVar // the lowest level that Log writes, which reloads and operators change; nil: one that nothing obeys
	Version    string
	Listeners  []net.Listener // instead of those in the configuration (systemd); none: those
	Machine    machine.Limits // the limits of this process
	Tracer     driver.Tracer  // receives all events and actions of the scheduler; nil: no recording
	TLSReports courier.Config // how reports on TLS are sent; the daemon sets what it knows better
	STS        mtasts.Config  // how policies of domains are fetched; the daemon sets what it knows better
	Reopen     func() error   // opens the file of Log again, before each reload; nil: there is none
	LastWords  func()         // writes the log out before the process ends against its will; nil: nothing
}

// New opens the spool and the listeners. Nothing runs yet; if it fails, nothing
// stays open.
func New(cfg *config.Config, o Options) (_ *Daemon, err error) {
	events := new(event.Hub)
	o.Log = slog.New(event.Tap(o.Log.Handler(), events))
	d := &Daemon{events: events, log: o.Log, options: o, started: cfg, current: cfg, settled: make(transports), policy: &policy{}, agents: &agents{},
		quotas: inbound.NewQuotas(cfg.Quotas()), signer: newSigner(o.Log, cfg.DKIM.Concurrency)}
	d.monitor.d = d
	if d.options.Level == nil {
		d.options.Level = new(slog.LevelVar)
		d.options.Level.Set(cfg.Log.Level)
	}
	d.level = &logLevel{level: d.options.Level, log: o.Log, configured: cfg.Log.Level, where: func() string {
		_, origin, _ := d.inForce().Where("log.level")
		return origin
	}}
	d.settled.add(cfg)
	d.sts = newSTSFinder(cfg, &d.options, d.agents)
	d.certification = newCertification()
	d.feedback = newDesk(cfg, o.Log, d.replies.class)
	d.policy.feedback = d.feedback
	d.tlsReports = newTLSReports(cfg, d)
	if err := d.tlsReports.configure(cfg); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if err := secure(cfg, o.Log); err != nil {
		return nil, fmt.Errorf("queue_directory: %w", err)
	}
	fit, err := o.Machine.Fit(cfg, nil, d.sockets(cfg), o.Log)
	if err != nil {
		return nil, err
	}
	d.begun = fit
	settings := fit.Spool()
	settings.TableFiles = fit.TableFiles
	d.spool, err = spool.Open(spool.Config{Settings: settings, Counts: quotaCounts(cfg), Logger: o.Log,
		Fatal: func(error) { o.end(exitDisk) }}) // the spool has logged why
	if err != nil {
		return nil, err
	}
	d.feedback.spool = d.spool
	d.loadQuotas(context.Background())
	set, err := cfg.LoadCertificates()
	if err != nil {
		return nil, err
	}
	d.certificates.set.Store(set)
	certification, err := newCertificate(cfg)
	if err != nil {
		return nil, err
	}
	d.certification.configure(certification)
	if err := d.listen(cfg); err != nil {
		return nil, err
	}
	if err := d.connect(fit); err != nil {
		return nil, err
	}
	return d, nil
}

// listen opens the sockets. Those of the administration and of local submission
// are in the queue directory unless the configuration names another place.
func (d *Daemon) listen(cfg *config.Config) error {
	for _, ln := range d.options.Listeners {
		d.intake = append(d.intake, intakeSocket{Listener: ln, handed: true})
	}
	opened, err := d.intake.open(cfg)
	if err != nil {
		return err
	}
	d.intake = opened
	if path := cfg.SubmissionSocketPath(); path != "" {
		ln, err := listenUnix(path, "submission_group", cfg.SubmissionGroup)
		if err != nil {
			return fmt.Errorf("submission_socket: %w", err)
		}
		d.local = ln
	}
	if d.drop, err = openMaildrop(cfg, d.log); err != nil {
		return fmt.Errorf("maildrop: %w", err)
	}
	if path := cfg.AdminSocketPath(); path != "" {
		ln, err := listenUnix(path, "admin_group", cfg.AdminGroup)
		if err != nil {
			return fmt.Errorf("admin_socket: %w", err)
		}
		d.adminLn = ln
	}
	return errors.Join(d.listenRemote(cfg), d.listenForMonitoring(cfg))
}

// sockets returns how many file descriptors listeners need, those of the administration and of local
// submission among them, and the clients of the administration over the network and of metrics_listen.
func (d *Daemon) sockets(cfg *config.Config) int {
	return len(d.options.Listeners) + len(cfg.AllListeners()) + 2 + remoteFiles(d.started) + len(d.started.Metrics.Listen)*(1+admin.MonitoringConnections)
}

// connect makes the parts and joins them.
func (d *Daemon) connect(cfg machine.Fitted) (err error) {
	routing, err := d.newRouting(cfg)
	if err != nil {
		return err
	}
	d.install(routing)
	reports := cfg.Report()
	reports.Logger, reports.VERP = d.log, d.bounces.Load
	reporter, err := report.New(reports, reportSpool{d.spool, d.signer})
	if err != nil {
		return err
	}
	d.driver, err = driver.New(d.driverConfig(cfg.Config, routing), driver.Ports{
		Spool: d.spool, Router: router{d.agents, d.tlsReports, d.feedback}, Finder: router{d.agents, d.tlsReports, d.feedback}, Reporter: reporter,
		Connector: d.agents, Hosts: d.spool, Notebook: d.spool, Replies: d.replies.book,
		Agent: func(string) driver.Agent { return d.agents },
	})
	if err != nil {
		return err
	}
	d.feedback.arrived = d.driver.Arrived
	if d.drop != nil {
		d.drop.returner = &givingBack{reporter, &d.edits, d.driver.Arrived}
	}
	d.live = newSampler(d)
	d.admin, err = admin.New(admin.Config{Version: d.options.Version, Logger: d.log, Connections: cfg.AdminConnections,
		Quotas: quotaViews{d.quotas, d.spool}.page, TLSReports: d.tlsReports.page, Feedback: d.feedback.page, Intake: d.intakeStatus, Live: d.live, Jobs: d.driver.Jobs, Monitoring: d.monitor.handler(cfg.Config), Events: d.events, Wiretap: &d.wiretap, Listeners: d.listenerNames, LogLevel: d.level, Attempts: d.attempts, Started: time.Now(), ReplyClass: d.replies.class, ParseRoute: d.parseRoute, Readmission: d.readmission, Configuration: &reloads{d}, Suspender: suspender{d.driver}}, adminStore{d.spool}, adminControl{d.driver, d.spool}, d.driver)
	if err != nil {
		return err
	}
	if d.flusher, err = inbound.NewFlusher(cfg.FastFlush, flushQueue{d.admin}, d.log); err != nil {
		return err
	}
	in := cfg.Inbound()
	in.Logger, in.Verifier, in.Flows, in.Quotas = d.log, verifier{d.agents, d.driver, d.feedback}, routing.flows, d.quotas
	in.Edits, in.Milters = routing.edits, routing.milters
	in.Auth.Users, in.Flusher, in.Wiretap = routing.users, d.flusher, &d.wiretap
	d.inbound, err = inbound.New(in, &intake{d.spool, d.signer, d.policy, &d.verp, d.driver.Arrived}, d.policy, d.driver)
	return err
}

// A routing is everything that decides where mail goes, which client may send it, to which flow
// it belongs, and which keys sign it.
type routing struct {
	policy  *inbound.RelayPolicy
	flows   *flow.Rules
	agents  *agentSet
	signing *signing
	edits   *inbound.Edits
	users   *users.File // nil: none
	replies *replies.Book
	desk    *deskRules
	milters *inbound.Milters // nil: none
	known   map[milter.Config]*milter.Milter
	verp    *verp.Rules
	bounces report.VERP

	credentials *credential.Table // nil: none
}

// newRouting makes all of it, or nothing.
func (d *Daemon) newRouting(cfg machine.Fitted) (*routing, error) {
	table, err := route.NewTable(cfg.Route())
	if err != nil {
		return nil, err
	}
	relaying := cfg.RelayPolicy()
	if relaying.ClientCertificates, err = cfg.ClientCertificates(); err != nil {
		return nil, err
	}
	relay, err := inbound.NewRelayPolicy(relaying)
	if err != nil {
		return nil, err
	}
	logins, err := cfg.OpenUsers()
	if err != nil {
		return nil, err
	}
	flows, err := flow.NewRules(cfg.Flows())
	if err != nil {
		return nil, err
	}
	addresses, err := cfg.LoadRewriting()
	if err != nil {
		return nil, err
	}
	edits, err := cfg.Edits(addresses)
	if err != nil {
		return nil, err
	}
	keys, err := keyring.Load(cfg.Keyring())
	if err != nil {
		return nil, err
	}
	book, err := cfg.Replies()
	if err != nil {
		return nil, err
	}
	secrets, err := cfg.LoadVERPSecrets()
	if err != nil {
		return nil, err
	}
	boxes, err := cfg.Mailboxes(secrets)
	if err != nil {
		return nil, err
	}
	credentials, err := cfg.LoadCredentials()
	if err != nil {
		return nil, err
	}
	milters, known, err := cfg.MakeMilters(d.milters.host(d, cfg.Config), d.milters.known)
	if err != nil {
		return nil, err
	}
	run := cfg.Pipe()
	run.Log, run.VERPSecrets = d.log, secrets
	programs, err := pipe.New(run, programBodies{d.spool})
	if err != nil {
		return nil, err
	}
	look := cfg.Resolve()
	look.Logger = d.log
	look.Slow, look.Counters = cfg.SlowLookups, &d.counters.resolve
	resolver, err := resolve.New(look)
	if err != nil {
		return nil, err
	}
	send := cfg.Outbound()
	if err := d.checkSources(send); err != nil {
		resolver.Close()
		return nil, err
	}
	send.Log, send.Seed, send.TLSA = d.log, uint64(time.Now().UnixNano()), resolver
	send.Wiretap = &d.wiretap
	send.Counters, send.Credentials, send.VERPSecrets = &d.counters.outbound, credentials, secrets
	send.Sessions = d.tlsReports.watch(cfg.Config)
	client, err := outbound.New(send, resolver, bodies{d.spool}, nil)
	if err != nil {
		resolver.Close()
		return nil, err
	}
	routes := cfg.Router()
	routes.STS, routes.Credential = d.sts, credentials.LabelFor
	d.sts.private.Store(look.Policy.Reach == route.ReachPrivate)
	router := resolve.NewRouter(table, resolver, routes)
	return &routing{relay, flows, newAgentSet(cfg.Config, client, programs, d.feedback, resolver, router), newSigning(keys, cfg.Config), edits, logins, book,
		&deskRules{boxes, flows}, milters, known, cfg.VERPRules(), report.VERP{Secrets: secrets, OneReport: cfg.VERP.OneReport}, credentials}, nil
}

// checkSources returns which addresses of sources are not on this machine. It does not look
// again at those that are in force: one that has gone since is taken out of use, and must not
// keep an operator from reloading.
func (d *Daemon) checkSources(now outbound.Config) error {
	if d.inbound != nil {
		old := d.current.Outbound().Sources
		now.Sources = maps.Clone(now.Sources)
		maps.DeleteFunc(now.Sources, func(name string, s outbound.SourceConfig) bool { return old[name] == s })
	}
	return now.CheckSources()
}

// install puts a routing into force.
func (d *Daemon) install(r *routing) {
	d.agents.set(r.agents)
	d.policy.p.Store(r.policy)
	d.signer.rules.Store(r.signing)
	d.replies.p.Store(r.replies)
	d.edits.Store(r.edits)
	d.feedback.rules.Store(r.desk)
	d.milters.install(r.known)
	d.credentials = r.credentials
	d.verp.Store(r.verp)
	d.bounces.Store(&r.bounces)
	if d.inbound != nil { // after a reload
		d.inbound.SetFlows(r.flows)
		d.inbound.SetEdits(r.edits)
		d.inbound.SetUsers(r.users)
		d.inbound.SetMilters(r.milters)
	}
}

func (d *Daemon) driverConfig(cfg *config.Config, r *routing) driver.Config {
	c := cfg.Driver()
	c.Qmgr.RoutesBySender = c.Qmgr.RoutesBySender || r.credentials.BySender()
	c.Log, c.Trace, c.Since = d.log, d.options.Tracer, d.spool.LastRun()
	return c
}

// addresses are those of the SMTP listeners that are on TCP.
func (d *Daemon) addresses() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for _, ln := range d.intake {
		if tcp, ok := ln.Addr().(*net.TCPAddr); ok {
			list = append(list, tcp.String())
		}
	}
	return list
}

// listeners returns what mail comes in by.
func (d *Daemon) listeners(cfg *config.Config) []inbound.Listener {
	all := d.intake.terms(cfg, &d.certificates)
	if d.local != nil {
		all = append(all, inbound.Listener{Listener: d.local, VERP: xverp(cfg)})
	}
	if d.drop != nil {
		all = append(all, inbound.Listener{Listener: d.drop.sessions, VERP: xverp(cfg)})
	}
	return all
}

// xverp are the terms of XVERP for programs on this machine, which may always use it.
func xverp(cfg *config.Config) inbound.VERP {
	v := cfg.XVERP()
	v.Unix = true
	return v
}

// Run takes mail in and delivers it until ctx ends, then stops in the order in
// which mail flows: no more comes in, no more orders are taken, what is under way
// ends, the spool closes.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.Close()
	taking, stopIntake := context.WithCancel(ctx)
	defer stopIntake()
	delivery, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivery()
	administration, stopAdministration := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAdministration()
	var delivered, administered sync.WaitGroup
	var failure error // of the delivery
	delivered.Go(func() {
		defer d.options.atPanic()
		failure = d.driver.Run(delivery)
	})
	delivered.Go(func() {
		defer d.options.atPanic()
		d.tellOfKept(delivery)
		d.tellOfHeld(delivery)
	})
	administered.Go(func() {
		defer d.options.atPanic()
		d.live.Run(administration)
	})
	if d.adminLn != nil {
		administered.Go(func() {
			if err := d.admin.Serve(administration, d.adminLn); err != nil { // mail goes on without it
				d.log.Error("the administration socket failed; restart to use it again", "error", err)
			}
		})
	}
	for _, ln := range d.remote {
		administered.Go(func() {
			if err := d.admin.ServeNetwork(administration, ln, d.authorize); err != nil { // likewise
				d.log.Error("the administration over the network failed; restart to use it again", "error", err)
			}
		})
	}
	for _, ln := range d.monitorLns {
		administered.Go(func() {
			if err := d.admin.ServeMonitoring(administration, ln, d.started.Metrics.Networks); err != nil { // likewise
				d.log.Error("metrics_listen failed; restart to use it again", "error", err)
			}
		})
	}
	d.monitor.serving(taking)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		defer d.options.atPanic()
		d.keepQuotas(taking)
	})
	keeping.Go(func() { d.watchCertificates(taking) })
	keeping.Go(func() {
		defer d.options.atPanic()
		d.flusher.Run(taking)
	})
	if d.drop != nil {
		keeping.Go(func() {
			defer d.options.atPanic()
			d.drop.run(taking)
		})
	}
	keeping.Go(func() { d.keepCertificate(taking) })
	keeping.Go(func() { d.feedback.run(taking) })
	keeping.Go(func() { d.tlsReports.run(taking, d.options.atPanic) })
	d.mu.Lock()
	listeners := d.listeners(d.current)
	d.mu.Unlock()
	err := d.inbound.Serve(taking, listeners...)
	stopIntake()
	keeping.Wait()
	d.saveQuotas() // with what was accepted while the intake stopped
	d.admin.Stopping()
	stopDelivery()
	delivered.Wait()
	stopAdministration() // until now it has told how far the stop is
	administered.Wait()
	return errors.Join(err, failure)
}

// tellOfKept gives the core the time at which to look for the first mail that is held because its
// sender asked for a later delivery (RFC 4865), or that must be removed then. If that time cannot
// be read, the core looks an hour later.
func (d *Daemon) tellOfKept(ctx context.Context) {
	found, err := d.spool.Fetch(ctx, mail.AreaHold, mail.Cursor{Due: 1}, mail.Never, 1)
	switch {
	case err != nil && ctx.Err() == nil:
		d.log.Error("mail whose sender has it kept may be sent up to an hour late", "error", err)
	case err == nil && len(found.Cursors) > 0:
		d.driver.Kept(found.Cursors[0].Due)
	}
}

// tellOfHeld has senders told of recipients of held mail who were given up before the
// start, and of whom no report was made then. The core finds other mail that owes a
// report when it tries it; held mail it does not look at. Mail with the null sender
// owes no report.
func (d *Daemon) tellOfHeld(ctx context.Context) {
	const page = 1000
	for from, more := (mail.Cursor{}), true; more; {
		found, err := d.spool.Fetch(ctx, mail.AreaHold, from, mail.Never, page)
		if err != nil {
			if ctx.Err() == nil {
				d.log.Error("reports that held mail owes are delayed until the mail is released", "error", err)
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

// View shows the scheduler, and of each transport at most so many queues.
func (d *Daemon) View(ctx context.Context, queues int) (qmgr.View, error) {
	return d.driver.View(ctx, queues)
}

// Close closes whatever is open.
func (d *Daemon) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.level.close()
	for _, ln := range d.intake {
		ln.Close()
	}
	if d.local != nil {
		d.local.Close()
	}
	if d.adminLn != nil {
		d.adminLn.Close()
	}
	for _, ln := range slices.Concat(d.remote, d.monitorLns) {
		ln.Close()
	}
	d.sts.close()
	d.agents.close()
	d.tlsReports.close() // with the last sessions
	d.feedback.save()
	if d.spool != nil {
		if err := d.spool.Close(); err != nil {
			d.log.Error("the spool could not be closed", "error", err)
		}
	}
}

// policy is the relay policy, which a reload replaces.
type policy struct {
	p        atomic.Pointer[inbound.RelayPolicy]
	feedback *desk
}

func (p *policy) Sender(client *inbound.Client, sender mail.Address) mail.Reply {
	return p.p.Load().Sender(client, sender)
}

func (p *policy) Trusts(client *inbound.Client) bool { return p.p.Load().Trusts(client) }

func (p *policy) Recipient(client *inbound.Client, sender, recipient mail.Address) mail.Reply {
	reply := p.p.Load().Recipient(client, sender, recipient)
	if !reply.IsZero() && client.Purpose == inbound.PurposeRelay && p.feedback.takes(recipient) {
		return mail.Reply{} // reports come from anywhere
	}
	return reply
}
