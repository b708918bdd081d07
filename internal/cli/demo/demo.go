// Package demo has the command that shows the daemon at work, in one process with
// three receivers.
package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
)

// A demoPlan is what the demonstration is to do.
type demoPlan struct {
	recipients int           // of the bulk message
	rate       int           // single messages per second
	lead       time.Duration // how long singles come alone, before the bulk
	seed       uint64
}

// demoLimit is when the demonstration is given up, for each 5000 recipients.
const demoLimit = 90 * time.Second

// NewCommand returns the command that shows the program at work.
func NewCommand() *cobra.Command {
	plan := demoPlan{recipients: 5000, rate: 12, lead: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Demonstrate bulk and single mail to a good, a slow and a limited receiver",
		Long: `Start the daemon in this process, with a temporary directory and free ports of the
loopback interface, together with three receivers: one that answers at once, one
that takes 20 ms for each recipient, and one that accepts five connections and
answers further ones with 421.

Then submit one message with thousands of recipients and, at the same time, a stream
of single messages, and show the progress of both. It takes about 10 seconds, sends
nothing beyond this machine and leaves no files behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if plan.recipients < 10 || plan.recipients > 1_000_000 {
				return command.Misuse(cmd, errors.New("--recipients must be from 10 to 1000000"))
			}
			if plan.rate < 1 || plan.rate > 1000 {
				return command.Misuse(cmd, errors.New("--rate must be from 1 to 1000"))
			}
			if !cmd.Flags().Changed("seed") {
				plan.seed = uint64(rand.Uint32()) // short enough to be typed
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
			defer stop()
			return demo(ctx, plan, newDemoScreen(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().IntVar(&plan.recipients, "recipients", plan.recipients, "`number` of recipients of the bulk message")
	cmd.Flags().IntVar(&plan.rate, "rate", plan.rate, "`number` of single messages per second")
	cmd.Flags().Uint64Var(&plan.seed, "seed", 0, "`seed` of the random choices (default: a new one each time)")
	return cmd
}

// errDemoIncomplete means that mail was still waiting at the end.
var errDemoIncomplete = errors.New("not everything was delivered once")

// demo runs the demonstration.
func demo(ctx context.Context, plan demoPlan, screen *demoScreen) (err error) {
	dir, err := os.MkdirTemp("", "posthaste-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	tally := newDemoTally()
	world, err := newDemoWorld(dir, tally)
	if err != nil {
		return err
	}
	running, stopWorld := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- world.run(running) }()
	defer func() {
		stopWorld()
		err = errors.Join(err, <-ended)
	}()

	limit := demoLimit * time.Duration(1+plan.recipients/5000)
	ctx, giveUp := context.WithTimeoutCause(ctx, limit, fmt.Errorf("given up after %s", limit))
	defer giveUp()
	load := newDemoLoad(plan, world, tally)
	loaded := make(chan error, 1)
	go func() { loaded <- load.run(ctx) }()
	screen.begin(plan)
	err = watchDemo(ctx, screen, world, tally, loaded)
	screen.end(tally.snapshot(), world, plan)
	if err == nil && !tally.complete() {
		err = errDemoIncomplete
	}
	return err
}

// watchDemo shows how things stand until all is delivered.
func watchDemo(ctx context.Context, screen *demoScreen, world *demoWorld, tally *demoTally, loaded <-chan error) error {
	ticker := time.NewTicker(screen.interval())
	defer ticker.Stop()
	var err error
	for handedIn := false; !handedIn || !tally.complete(); {
		select {
		case err = <-loaded:
			if err != nil && ctx.Err() == nil {
				return err
			}
			handedIn, loaded = true, nil
		case <-tally.changed:
		case <-ticker.C:
			screen.show(tally.snapshot(), world.windows(ctx))
		case <-ctx.Done():
			if loaded != nil {
				<-loaded
			}
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			return errors.New("interrupted")
		}
	}
	screen.show(tally.snapshot(), world.windows(ctx))
	return nil
}
