// Package service has the command that is the daemon: its flags, its messages when it
// cannot start, and its recording. The daemon itself is internal/daemon.
package service

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/version"
	"github.com/posthaste-mta/posthaste/internal/daemon"
	"github.com/posthaste-mta/posthaste/internal/daemon/logging"
	"github.com/posthaste-mta/posthaste/internal/daemon/machine"
)

// NewCommand returns the command that is the daemon.
func NewCommand() *cobra.Command {
	var (
		path string
		to   recordingTo
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: accept mail and deliver it",
		Long: `Accept mail by SMTP, store it safely on disk, and deliver it.

Without --config the defaults apply: the queue is in ./posthaste-data, SMTP is on
127.0.0.1:2525, and only this machine may send mail. "posthaste config show
--example" prints all parameters with an explanation.

SIGHUP reloads the configuration. SIGINT and SIGTERM stop the daemon after it has
finished the deliveries in progress, but no later than after shutdown_time. A
second signal stops it at once: no mail is lost, but deliveries in progress are
repeated after the next start.

--trace records all events and actions of the scheduler; "posthaste trace" shows
and replays them. An existing file is renamed to FILE.old. If writing the
file fails later, the recording ends and the log says so; delivery continues.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), path, &to)
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", "", "configuration `file` (TOML)")
	to.addFlags(cmd.Flags())
	return cmd
}

// serve runs the daemon until a signal ends it.
func serve(ctx context.Context, path string, to *recordingTo) error {
	// A start may take a while. A reload that is asked for meanwhile waits for its end
	// instead of ending the process; the other signals end it.
	early := make(chan os.Signal, 1)
	signal.Notify(early, syscall.SIGHUP)
	defer signal.Stop(early)
	cfg, err := configfile.Read(path)
	if err != nil {
		return err
	}
	machine.KeepPrivate()
	level := new(slog.LevelVar)
	level.Set(cfg.Log.Level)
	var out io.Writer = os.Stderr
	var reopen func() error
	if cfg.Log.File != "" {
		file, err := logging.OpenFile(logging.FileConfig{Path: cfg.Log.File, Size: cfg.Log.Size, Age: cfg.Log.Age, Keep: cfg.Log.Keep, Compress: cfg.Log.Compress})
		if err != nil {
			return exit.New(exit.Config, fmt.Errorf("log.file: %w", err), "Set log.file to a file that this user may write, or leave it out.")
		}
		defer file.Close()
		out, reopen = file, file.Reopen
	}
	log, closeLog := logging.New(out, level, cfg.Log.Format == config.LogJSON)
	defer closeLog()
	handedOver, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("sockets handed over by systemd: %w", err)
	}
	tracer, err := to.tracer(log)
	if err != nil {
		return err
	}
	d, err := daemon.New(cfg, daemon.Options{Log: log, Level: level, Version: version.String(), Listeners: handedOver, Machine: machine.Own(), Tracer: tracer, Reopen: reopen, LastWords: closeLog})
	if err != nil {
		code, hint := CodeOfStart(err)
		return exit.New(code, err, hint)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if signal.Stop(early); len(early) > 0 {
		signals <- syscall.SIGHUP
	}
	return d.Serve(ctx, signals, func() (*config.Config, error) { return configfile.Load(path) })
}
