package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
)

// settings are for short runs: times are short, and the small memtable makes the store
// write tables and clean up all the time.
const settings = `myhostname = "counts.test"
queue_directory = %q
listen = [%q]
minimal_backoff_time = "1s"
maximal_backoff_time = "2s"
maximal_queue_lifetime = "4s"
bounce_queue_lifetime = "4s"
in_flow_delay = 0
queue_minfree = "1M"
%s
[transport.smtp]
connection_cache_time_limit = "1s"

[spool]
memtable_size = "1M"
ballast_size = "1M"
maintenance_interval = "1s"

[routes]
"rcpt.test" = "smtp:[127.0.0.1]:%[4]d"
"origin.test" = "smtp:[127.0.0.1]:%[4]d"
`

// quotas are the limits for which messages are counted.
var quotas = [...]string{
	mail.CountNothing: "",
	mail.CountTenants: "tenant_queue_message_limit = 400\n",
	mail.CountFlows:   "tenant_queue_size_limit = \"4M\"\nflow_queue_message_limit = 20\nflow_message_rate = \"100000/h\"\n",
}

// A trial is one run of the test.
type trial struct {
	options
	dice     *rand.Rand
	daemon   *daemon.Daemon
	receiver int // its port
	level    mail.CountLevel
	eating   sync.Mutex // held while there is no space

	figures
}

// Figures are what the run amounts to.
type figures struct {
	without   int   // rounds that ended without quotas on the queue
	again     int   // rounds after which messages were counted again
	unstarted int   // starts that failed because the disk was full
	most      int64 // most messages in the spool

	accepted, refused, ordered, fills atomic.Int64
}

func (t *trial) configure(level mail.CountLevel) error {
	t.level = level
	text := fmt.Sprintf(settings, t.daemon.Queue(), t.daemon.Address, quotas[level], t.receiver)
	return os.WriteFile(t.daemon.Config(), []byte(text), 0o600)
}

// Shares of rounds: in which the quotas are others than before, in which the daemon is
// killed while it starts, and in which it is asked to stop.
const (
	changeShare = 0.3
	earlyShare  = 0.1
	stopShare   = 0.1
)

func (t *trial) round(ctx context.Context, n int) error {
	level, switched := t.level, n == 1
	if switched {
		level = mail.CountFlows
	}
	if t.dice.Float64() < changeShare {
		level, switched = mail.CountLevel(t.dice.IntN(len(quotas))), true
	}
	if err := t.configure(level); err != nil {
		return err
	}
	if _, err := t.daemon.Start(); err != nil {
		return err
	}
	reloaded, err := t.run(ctx)
	if err == nil {
		err = t.end()
	}
	if t.full && wantsRoom(err) {
		t.unstarted++
		err = nil
	}
	if err != nil {
		return err
	}
	return errors.Join(t.check(n, switched || reloaded), ctx.Err())
}

// run lets the daemon work for a while, and reloads it with other quotas.
func (t *trial) run(ctx context.Context) (reloaded bool, err error) {
	within := func(d time.Duration) { pause.For(ctx, time.Duration(t.dice.Int64N(int64(d)))) }
	if t.dice.Float64() < earlyShare {
		within(80 * time.Millisecond)
		return false, nil
	}
	if _, err := t.daemon.Listening(ctx); err != nil {
		return false, err
	}
	within(1200 * time.Millisecond)
	for range t.dice.IntN(4) {
		if err := t.configure(mail.CountLevel(t.dice.IntN(len(quotas)))); err != nil {
			return true, err
		}
		daemon, err := os.FindProcess(t.daemon.Pid())
		if err == nil {
			err = daemon.Signal(syscall.SIGHUP)
		}
		if err != nil {
			return true, errors.Join(err, t.daemon.Alive())
		}
		within(100 * time.Millisecond)
		reloaded = true
	}
	return reloaded, nil
}

func (t *trial) end() error {
	if t.dice.Float64() >= stopShare {
		_, err := t.daemon.Kill()
		return err
	}
	err := t.daemon.Stop()
	if err != nil && strings.Contains(err.Error(), "signal: terminated") {
		return nil // it was still starting
	}
	return err
}

// wantsRoom reports whether a daemon has ended since there was no space for its start.
func wantsRoom(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ended by itself: exit status 7") && strings.Contains(err.Error(), "no room in the spool")
}
