// Package service has the command that is the daemon: its flags, what it says when it
// cannot start, and its recording. The daemon itself is internal/daemon.
package service

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/configuration"
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
	cfg, err := configuration.Read(path)
	if err != nil {
		return err
	}
	machine.KeepPrivate()
	log, closeLog := logging.New(os.Stderr, cfg.Log.Level, cfg.Log.Format == config.LogJSON)
	defer closeLog()
	handedOver, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("sockets handed over by systemd: %w", err)
	}
	tracer, err := to.tracer(log)
	if err != nil {
		return err
	}
	d, err := daemon.New(cfg, daemon.Options{Log: log, Version: version.String(), Listeners: handedOver, Machine: machine.Own(), Tracer: tracer, LastWords: closeLog})
	if err != nil {
		code, hint := codeOfStart(err)
		return exit.New(code, err, hint)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	return d.Serve(ctx, signals, func() (*config.Config, error) { return configuration.Load(path) })
}
