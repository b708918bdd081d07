package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// reloadFile reads the configuration again, puts it into force and logs the result. A
// mistake in it changes nothing. Reloads follow each other.
func (d *Daemon) reloadFile(load func() (*config.Config, error)) (done admin.Reloaded, err error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	d.notify(sd.SdNotifyReloading + "\n" + sd.SdNotifyMonotonicUsec())
	defer d.notify(sd.SdNotifyReady)
	if d.options.Reopen != nil {
		if err := d.options.Reopen(); err != nil {
			d.log.Error("the log's file cannot be opened again; the log goes on to the old one", "error", err)
		}
	}
	cfg, err := load()
	var mistakes *tomlfile.Problems
	switch {
	case errors.As(err, &mistakes):
		for _, one := range mistakes.List {
			d.log.Error("mistake in the configuration", "error", one)
		}
		d.log.Error("the configuration was not reloaded; the old one stays in force", "mistakes", len(mistakes.List)+mistakes.More)
		return done, err
	case err != nil:
		d.log.Error("the configuration was not reloaded; the old one stays in force", "error", err)
		return done, err
	}
	d.logWarnings(cfg)
	before := d.inForce()
	restart, err := d.reload(cfg)
	if err == nil {
		d.logExpiry(cfg, time.Now())
	}
	switch {
	case err != nil:
		d.log.Error("the configuration was not reloaded; the old one stays in force", "error", err)
		return done, err
	case len(restart) > 0:
		d.log.Warn("configuration reloaded; some changes need a restart", "restart", strings.Join(restart, " "))
	default:
		d.log.Info("configuration reloaded")
	}
	return admin.Reloaded{Changes: changesOf(config.Diff(before, cfg)), Restart: restart, Warnings: warningsOf(cfg.Warnings())}, nil
}

// inForce is the configuration as the last reload left it.
func (d *Daemon) inForce() *config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// reload puts a new configuration into force, as far as that is possible
// without a restart, and returns the keys of changes that are not, those of earlier reloads
// among them. On an error nothing has changed.
func (d *Daemon) reload(cfg *config.Config) (restart []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("the daemon has stopped")
	}
	for _, c := range d.untilRestart(cfg) {
		restart = append(restart, c.Key)
	}
	cfg, kept := d.settled.keep(cfg)
	for _, key := range kept {
		if !slices.Contains(restart, key) { // a reload has added the transport
			restart = append(restart, key)
		}
	}
	fit, err := d.options.Machine.Fit(cfg, &d.begun, d.sockets(cfg), d.log)
	if err != nil {
		return nil, err
	}
	if err := d.tlsReports.check(cfg); err != nil {
		return nil, err
	}
	routing, err := d.newRouting(fit)
	if err != nil {
		return nil, err
	}
	core := d.driverConfig(fit.Config, routing)
	if err := core.WithDefaults().Validate(); err != nil {
		routing.agents.close()
		return nil, err
	}
	set, err := cfg.LoadCertificates()
	if err != nil {
		routing.agents.close()
		return nil, err
	}
	certification, err := newCertificate(cfg)
	if err != nil {
		routing.agents.close()
		return nil, err
	}
	programs, err := cfg.OpenTokens()
	if err != nil {
		routing.agents.close()
		return nil, fmt.Errorf("admin_tokens: %w", err)
	}
	intake, err := d.intake.open(cfg)
	if err != nil {
		routing.agents.close()
		return nil, err
	}
	d.tokens.Store(programs)
	d.level.configure(cfg.Log.Level)
	d.intake = intake
	d.certificates.set.Store(set)
	d.certification.configure(certification)
	d.inbound.SetListeners(d.listeners(cfg)...)
	d.settled.add(cfg)
	d.spool.SetCounts(quotaCounts(cfg))
	d.quotas.Configure(cfg.Quotas())
	if err := d.flusher.Configure(cfg.FastFlush); err != nil {
		return nil, err // the configuration's validation has seen to that
	}
	credentials := d.credentials
	if err := d.tlsReports.configure(cfg); err != nil {
		return nil, err // check has seen to that
	}
	d.install(routing) // first, for the core tries transports again that were not configured
	if err := d.driver.Configure(core); err != nil {
		return nil, err
	}
	if !cfg.SameSecurity(d.current) || !credentials.Same(routing.credentials) || !reflect.DeepEqual(cfg.Route(), d.current.Route()) {
		d.driver.Reroute()
	}
	if had := len(d.current.Routes); had > 0 && len(cfg.Routes) == 0 { // more often a mistake than a wish
		d.log.Warn("the configuration has no [routes] after the reload", "routes", 0, "had", had)
	}
	d.current = cfg
	return restart, nil
}

// untilRestart returns the changes of a configuration that take effect at the next start only.
func (d *Daemon) untilRestart(cfg *config.Config) []config.Change {
	return slices.DeleteFunc(config.Diff(d.started, cfg), func(c config.Change) bool { return !c.Restart })
}

// reloads are the configuration as the administration API sees it.
type reloads struct{ d *Daemon }

// Running implements admin.Configuration.
func (r *reloads) Running(changed, asJSON bool) (admin.RunningConfiguration, error) {
	cfg := r.d.inForce()
	var text strings.Builder
	err := cfg.Show(&text, changed, asJSON)
	return admin.RunningConfiguration{Text: text.String(), Pending: changesOf(r.d.untilRestart(cfg))}, err
}

// Where implements admin.Configuration.
func (r *reloads) Where(key string) (value, origin string) {
	value, origin, _ = r.d.inForce().Where(key)
	return value, origin
}

// Reload implements admin.Configuration.
func (r *reloads) Reload(_ context.Context, dryRun bool) (done admin.Reloaded, err error) {
	r.d.mu.Lock()
	load := r.d.load
	r.d.mu.Unlock()
	switch {
	case load == nil:
		err = errors.New("the daemon was started without a file")
	case dryRun:
		done, err = r.try(load)
	default:
		done, err = r.d.reloadFile(load)
	}
	var mistakes *tomlfile.Problems
	if errors.As(err, &mistakes) {
		refused := &admin.RefusedConfiguration{More: mistakes.More}
		for _, one := range mistakes.List {
			refused.Mistakes = append(refused.Mistakes, one.Error())
		}
		return done, refused
	}
	return done, err
}

// try says what a reload would do, as far as that can be known without doing it: the files
// that the configuration names are read, but addresses are not listened on.
func (r *reloads) try(load func() (*config.Config, error)) (done admin.Reloaded, err error) {
	cfg, err := load()
	if err != nil {
		return done, err
	}
	expiring, err := cfg.CheckFiles(time.Now())
	if err != nil {
		return done, err
	}
	done = admin.Reloaded{Changes: changesOf(config.Diff(r.d.inForce(), cfg)), Warnings: warningsOf(append(cfg.Warnings(), expiring...))}
	for _, c := range r.d.untilRestart(cfg) {
		done.Restart = append(done.Restart, c.Key)
	}
	return done, nil
}

func changesOf(list []config.Change) []admin.ConfigChange {
	all := make([]admin.ConfigChange, 0, len(list))
	for _, c := range list {
		all = append(all, admin.ConfigChange(c))
	}
	return all
}

func warningsOf(list []config.Warning) []admin.ConfigWarning {
	all := make([]admin.ConfigWarning, 0, len(list))
	for _, w := range list {
		all = append(all, admin.ConfigWarning(w))
	}
	return all
}
