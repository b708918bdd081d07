package daemon

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/event"
)

// Serve runs the daemon as a service until ctx ends or a signal stops it: SIGINT and
// SIGTERM do, SIGHUP loads the configuration again, and a second signal to stop ends
// the process at once. systemd is notified, if it is there.
func (d *Daemon) Serve(ctx context.Context, signals <-chan os.Signal, load func() (*config.Config, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d.mu.Lock()
	d.load = load
	d.mu.Unlock()
	go d.obey(ctx, signals, stop, load)
	cfg := d.started
	d.log.Info("started", "version", d.options.Version, "listen", strings.Join(d.addresses(), " "), "queue_directory", cfg.QueueDirectory,
		"admin_socket", cfg.AdminSocketPath(), "log_schema", event.Version)
	d.logWarnings(cfg)
	d.logExpiry(cfg, time.Now())
	if !strings.Contains(cfg.Hostname, ".") {
		d.log.Warn("myhostname is not a fully qualified domain name; some servers refuse mail from such a host", "myhostname", cfg.Hostname)
	}
	d.notify(sd.SdNotifyReady)
	err := d.Run(ctx)
	d.log.Info("stopped")
	return err
}

// obey does what signals say until ctx ends.
func (d *Daemon) obey(ctx context.Context, signals <-chan os.Signal, stop func(), load func() (*config.Config, error)) {
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGHUP {
				_, _ = d.reloadFile(load) // the log has the result
				continue
			}
			d.log.Info("stopping: finishing deliveries in progress", "signal", s.String())
			d.notify(sd.SdNotifyStopping)
			stop()
			d.endAtNext(signals)
			return
		case <-ctx.Done():
			return
		}
	}
}

// endAtNext ends the process when a further signal asks it to stop.
func (d *Daemon) endAtNext(signals <-chan os.Signal) {
	for s := range signals {
		if s == syscall.SIGHUP {
			continue
		}
		d.log.Warn("stopping at once; deliveries in progress are repeated after the next start", "signal", s.String())
		d.options.end(int(128 + s.(syscall.Signal)))
	}
}

// logWarnings logs values that are allowed and probably mistakes.
func (d *Daemon) logWarnings(cfg *config.Config) { d.logEach(cfg.Warnings()) }

func (d *Daemon) logEach(list []config.Warning) {
	for _, w := range list {
		d.log.Warn("check the configuration", "parameter", w.Key, "line", w.Line, "reason", w.Message)
	}
}

// notify notifies systemd, if it is there.
func (d *Daemon) notify(state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		d.log.Warn("systemd could not be notified", "state", state, "error", err)
	}
}
