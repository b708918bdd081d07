package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the program under test")
	flag.StringVar(&o.dir, "dir", "", "an empty directory for the queue and the log, which is left there")
	flag.IntVar(&o.rounds, "rounds", 200, "how many times to kill it")
	flag.IntVar(&o.clients, "clients", 20, "connections that submit messages")
	flag.Uint64Var(&o.seed, "seed", uint64(rand.Uint32()), "of all that is random but the machine itself")
	flag.DurationVar(&o.window, "window", time.Second, "how long before a kill the outcome of a delivery may be unknown: the longest time that the disk may take to write it down")
	flag.DurationVar(&o.up, "up", 1200*time.Millisecond, "how long the daemon runs in a round at most")
	complete := func() bool { return o.binary != "" && o.dir != "" && o.rounds >= 1 && o.clients >= 1 }
	measure.Main("crash", complete, func(ctx context.Context) error { return run(ctx, o) })
}

type options struct {
	binary, dir     string
	rounds, clients int
	seed            uint64
	window, up      time.Duration
}

// A trial is one run of the test.
type trial struct {
	options
	dice      *rand.Rand
	ledger    *ledger
	receivers *receivers
	daemon    *daemon.Daemon
	began     time.Time

	starts     []time.Duration // times from start to the first connection
	early      int             // kills before that
	stops      int             // rounds that ended without a kill
	unfinished int             // most recipients that waited at the end of a round
}

func run(ctx context.Context, o options) error {
	t := &trial{options: o, dice: rand.New(rand.NewPCG(o.seed, 0)), ledger: newLedger(o.window), began: time.Now()}
	var err error
	if t.receivers, err = newReceivers(o.seed, t.ledger); err != nil {
		return err
	}
	if t.daemon, err = newDaemon(o.binary, o.dir, t.receivers.routes()); err != nil {
		return err
	}
	defer t.daemon.Abandon()
	receiving, stopReceiving := context.WithCancel(context.Background())
	received := make(chan error, 1)
	go func() { received <- t.receivers.serve(receiving) }()
	err = t.killOften(ctx)
	if err == nil {
		err = t.drain(ctx)
	}
	stopReceiving()
	if err = errors.Join(err, <-received); err != nil {
		return err
	}
	return t.close()
}

// killOften is the rounds, under load.
func (t *trial) killOften(ctx context.Context) error {
	fmt.Printf("seed %d: %d rounds, %d clients, queue in %s\n", t.seed, t.rounds, t.clients, t.daemon.Queue())
	loading, stopLoad := context.WithCancel(ctx)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		newLoad(t.daemon.Address, t.ledger, t.clients, t.seed).run(loading)
	}()
	defer func() {
		stopLoad()
		<-loaded
	}()
	for n := 1; n <= t.rounds; n++ {
		if err := t.round(ctx, n); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
	}
	return nil
}

// Shares of rounds: in which the daemon is killed while it starts, which takes
// some 50 ms, and in which it is asked to stop instead of being killed.
const (
	earlyShare = 0.1
	stopShare  = 0.05
)

func (t *trial) round(ctx context.Context, n int) error {
	if _, err := t.daemon.Start(); err != nil {
		return err
	}
	started := "       "
	early := t.dice.Float64() < earlyShare
	if early {
		t.early++
		pause.For(ctx, time.Duration(t.dice.Int64N(int64(60*time.Millisecond))))
	} else {
		begin := time.Now()
		if _, err := t.daemon.Listening(ctx); err != nil {
			return err
		}
		t.starts = append(t.starts, time.Since(begin))
		started = fmt.Sprintf("%4d ms", time.Since(begin).Milliseconds())
		pause.For(ctx, 20*time.Millisecond+time.Duration(t.dice.Int64N(int64(t.up))))
	}
	t.unfinished = max(t.unfinished, t.ledger.waiting())
	if err := t.end(early); err != nil {
		return err
	}
	c := t.ledger.figures()
	fmt.Printf("round %3d/%d  start %s  accepted %6d  deliveries %7d  waiting %5d  reports %5d  twice %4d by kills, %3d by lost replies%s\n",
		n, t.rounds, started, c.messages[2], c.deliveries, t.ledger.waiting(), c.reports, c.twiceByKill, c.twiceByLoss, wrongText(c.wrong))
	return ctx.Err()
}

// end kills the daemon, or now and then stops it once it is up, which excuses
// nothing: a delivery that is under way then is finished and written down.
func (t *trial) end(early bool) error {
	if !early && t.dice.Float64() < stopShare {
		t.stops++
		return t.daemon.Stop()
	}
	at, err := t.daemon.Kill()
	if err == nil {
		t.ledger.killed(kill{at, t.receivers.connections()})
	}
	return err
}

func wrongText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("  WRONG %d", n)
}

// Times of the end: how long the queue may take to become empty, and how long
// it must then stay quiet.
const (
	drainMax  = 3 * time.Minute
	quietTime = 3 * time.Second
)

// drain lets the daemon work off its queue and stops it.
func (t *trial) drain(ctx context.Context) error {
	if err := t.receivers.recipients.SetFaults(peace()); err != nil {
		return err
	}
	if _, err := t.daemon.Start(); err != nil {
		return err
	}
	if _, err := t.daemon.Greeted(ctx); err != nil {
		return err
	}
	fmt.Printf("draining: %d recipients wait\n", t.ledger.waiting())
	for deadline := time.Now().Add(drainMax); ; {
		if err := t.daemon.Flush(ctx); err != nil {
			return err
		}
		s, err := t.daemon.Admin.Status(ctx, 0)
		if err != nil {
			return err
		}
		left := s.Spool.Incoming + s.Spool.Deferred
		if left == 0 && t.ledger.waiting() == 0 {
			break
		}
		if left == 0 && s.Core.Messages == 0 || time.Now().After(deadline) {
			fmt.Printf("the spool has %d messages, and %d recipients are not accounted for\n", left, t.ledger.waiting())
			break
		}
		if !pause.For(ctx, time.Second) {
			return ctx.Err()
		}
	}
	pause.For(ctx, quietTime)
	return t.empty(ctx)
}

// empty reports whether nothing is left, and stops the daemon.
func (t *trial) empty(ctx context.Context) error {
	s, err := t.daemon.Admin.Status(ctx, 0)
	if err != nil {
		return err
	}
	files, err := t.daemon.Contents()
	if err != nil {
		return err
	}
	var complaint error
	if n := s.Spool.Incoming + s.Spool.Deferred + s.Spool.Hold + s.Spool.Corrupt; n != 0 || files != 0 {
		complaint = fmt.Errorf("left in the spool: %+v, and %d content files", s.Spool, files)
	}
	return errors.Join(complaint, t.daemon.Stop())
}
