package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// newServeCommand returns the command that is the daemon.
func newServeCommand() *cobra.Command {
	var (
		path string
		to   recordingTo
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Take mail in and deliver it",
		Long: `Take mail in by SMTP, keep it safe on disk, and deliver it.

Without --config the defaults are used: the queue in ./posthaste-data, SMTP on
127.0.0.1:2525, mail accepted from this machine only. "posthaste config show
--example" prints them with an explanation of each.

SIGHUP reads the configuration again. SIGINT and SIGTERM stop: mail under way is
finished first, for as long as shutdown_time allows. A second signal stops at
once; nothing is lost by that either, but what was under way is tried again.

--trace records everything that the scheduler is told and does, to be looked at and
replayed with "posthaste trace". A file of that name is kept as FILE.old. What goes
wrong with the file later ends the recording and is logged; delivery goes on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), path, &to)
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", "", "configuration file (TOML)")
	to.addFlags(cmd.Flags())
	return cmd
}

// serve runs the daemon until a signal ends it.
func serve(ctx context.Context, path string, to *recordingTo) error {
	cfg, err := readConfig(path)
	if err != nil {
		return err
	}
	keepPrivate()
	log, closeLog := newLog(cfg.Log, os.Stderr)
	defer closeLog()
	handedOver, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("sockets handed over by systemd: %w", err)
	}
	tracer, err := to.tracer(log)
	if err != nil {
		return err
	}
	here := thisMachine()
	here.lastWords = closeLog
	d, err := newDaemonOn(here, cfg, log, handedOver, tracer)
	if err != nil {
		var known *exit
		if errors.As(err, &known) {
			return err
		}
		code, hint := codeOfStart(err)
		return &exit{code, err, hint}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go d.obey(ctx, signals, stop, path)

	log.Info("started", "version", version(), "listen", strings.Join(d.addresses(), " "), "queue_directory", cfg.QueueDirectory,
		"admin_socket", cfg.AdminSocketPath())
	logWarnings(log, cfg)
	if !strings.Contains(cfg.Hostname, ".") {
		log.Warn("myhostname is not a full name: some servers refuse mail from it", "myhostname", cfg.Hostname)
	}
	notify(log, sd.SdNotifyReady)
	err = d.run(ctx)
	log.Info("stopped")
	return err
}

// obey does what signals say until ctx ends.
func (d *daemon) obey(ctx context.Context, signals <-chan os.Signal, stop func(), path string) {
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGHUP {
				d.reloadFile(path)
				continue
			}
			d.log.Info("stopping: finishing what is under way", "signal", s.String())
			notify(d.log, sd.SdNotifyStopping)
			stop()
			d.endAtNext(signals)
			return
		case <-ctx.Done():
			return
		}
	}
}

// endAtNext ends the process when a further signal asks it to stop.
func (d *daemon) endAtNext(signals <-chan os.Signal) {
	for s := range signals {
		if s == syscall.SIGHUP {
			continue
		}
		d.log.Warn("stopping at once; what is under way is tried again after the next start", "signal", s.String())
		d.machine.end(int(128 + s.(syscall.Signal)))
	}
}

// reloadFile reads the configuration again. A mistake in it changes nothing.
func (d *daemon) reloadFile(path string) {
	notify(d.log, sd.SdNotifyReloading+"\n"+sd.SdNotifyMonotonicUsec())
	defer notify(d.log, sd.SdNotifyReady)
	cfg, err := loadConfig(path)
	var mistakes *tomlfile.Problems
	switch {
	case errors.As(err, &mistakes):
		for _, one := range mistakes.List {
			d.log.Error("mistake in the configuration", "error", one)
		}
		d.log.Error("the configuration stays as it was", "mistakes", len(mistakes.List)+mistakes.More)
		return
	case err != nil:
		d.log.Error("the configuration stays as it was", "error", err)
		return
	}
	logWarnings(d.log, cfg)
	restart, err := d.reload(cfg)
	switch {
	case err != nil:
		d.log.Error("the configuration stays as it was", "error", err)
	case len(restart) > 0:
		d.log.Warn("configuration reloaded; some changes need a restart", "restart", strings.Join(restart, " "))
	default:
		d.log.Info("configuration reloaded")
	}
}

// logWarnings tells of values that do nothing.
func logWarnings(log *slog.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		log.Warn("the configuration sets something to no effect", "parameter", w.Key, "line", w.Line, "reason", w.Message)
	}
}

// notify tells systemd, if it is there.
func notify(log *slog.Logger, state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be told", "state", state, "error", err)
	}
}

// loadConfig reads a configuration file; "" means the defaults.
func loadConfig(path string) (*config.Config, error) {
	env := environment()
	if path == "" {
		return config.Default(env), nil
	}
	return config.Load(path, env)
}

// environment is what the configuration's defaults depend on.
func environment() config.Environment {
	var env config.Environment
	env.Hostname, _ = os.Hostname() // "" stands for localhost
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return env // loops through wildcard listeners are found by the greeting
	}
	for _, a := range interfaces {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			env.Addresses = append(env.Addresses, p.Addr())
		}
	}
	return env
}
